/** Where leases are kept: whether it answers, and what it promises. */

import type { Overview } from "leasehold/internal/wire";
import type { ReactNode } from "react";
import { Badge } from "../../ui/badge.js";
import { Panel } from "../../ui/panel.js";
import { durationText } from "../../ui/time.js";

const CLOCKS = {
  store: "the store's",
  session: "a session's",
  observed: "observed changes",
} as const;

export function Engine({ overview: { engine, health } }: { readonly overview: Overview }) {
  const { clock, grants, ttl, queue, watch, epsilonMs } = engine.leases;
  return (
    <Panel
      title={`Engine: ${engine.name ?? "not named"}`}
      aside={
        <Badge tone={health.ok ? "ok" : "danger"}>{health.ok ? "well" : "does not answer"}</Badge>
      }
    >
      {health.detail !== null && (
        <p role="alert" className="border-b bg-danger-soft px-4 py-2.5 text-sm text-danger">
          {health.detail}
        </p>
      )}
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5 px-4 py-3 text-sm">
        <Line name="Answered in">{durationText(health.tookMs)}</Line>
        <Line name="Clock that decides">{CLOCKS[clock]}</Line>
        <Line name="Terms">
          {durationText(ttl.minMs)} to {durationText(ttl.maxMs)}
        </Line>
        <Line name="Free after an expiry">within {durationText(epsilonMs)}</Line>
        <Line name="Those who wait">{queue ? "stand in line" : "ask again"}</Line>
        <Line name="Changes">{watch === "push" ? "are told" : "are looked for"}</Line>
        <Line name="A grant">
          {grants === "portable" ? "outlives its connection" : "ends with its connection"}
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
