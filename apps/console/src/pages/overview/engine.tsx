/** The store: its health and its capabilities. */

import type { Overview } from "leasehold/internal/wire";
import { Badge, durationText } from "leasehold-ui";
import type { ReactNode } from "react";
import { Panel } from "../../ui/panel.js";

const CLOCKS = {
  store: "store",
  session: "session",
  observed: "observed changes",
} as const;

export function Engine({ overview: { engine, health } }: { readonly overview: Overview }) {
  const { clock, grants, ttl, queue, watch, epsilonMs } = engine.leases;
  return (
    <Panel
      title={`Engine: ${engine.name ?? "unnamed"}`}
      aside={
        <Badge tone={health.ok ? "ok" : "danger"}>{health.ok ? "healthy" : "unavailable"}</Badge>
      }
    >
      {health.detail !== null && (
        <p role="alert" className="border-b bg-danger-soft px-4 py-2.5 text-sm text-danger">
          {health.detail}
        </p>
      )}
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5 px-4 py-3 text-sm">
        <Line name="Response time">{durationText(health.tookMs)}</Line>
        <Line name="Expiry clock">{CLOCKS[clock]}</Line>
        <Line name="TTL range">
          {durationText(ttl.minMs)} to {durationText(ttl.maxMs)}
        </Line>
        <Line name="Free after expiry">within {durationText(epsilonMs)}</Line>
        <Line name="Waiters">{queue ? "queued by the store" : "polling"}</Line>
        <Line name="Changes">{watch === "push" ? "pushed" : "polled"}</Line>
        <Line name="Grants">
          {grants === "portable" ? "outlive their connection" : "end with their client's session"}
        </Line>
      </dl>
    </Panel>
  );
}

function Line({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="tabular">{children}</dd>
    </>
  );
}
