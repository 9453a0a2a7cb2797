/** The details of one grant. */
import { CopyButton, durationText, Token } from "leasehold-ui";
import type { ReactNode } from "react";
import { TimeText } from "../../ui/time.js";
import type { HolderBar } from "./holder-bars.js";
import { Remaining, StateBadge } from "./lease-state.js";

export function GrantDetails({
  bar: { grant, startMs, endMs, vacantMs, ending },
  answeredAtMs,
}: {
  readonly bar: HolderBar;
  readonly answeredAtMs: number;
}) {
  const { token, holder, state, renewals, remainingMs, freeInMs, ttlMs, metadata, grantId } = grant;
  return (
    <section aria-label="Selected grant" className="grid gap-3 p-4 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <Token token={token || null} large />
        <StateBadge state={state} />
        <span className="ml-auto">
          <CopyButton text={grantId} label="Copy grant id" />
        </span>
      </div>
      <p className="font-medium break-words">{holder}</p>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1.5 text-xs">
        <Line name={ending ? "End" : "Expires in"}>
          {ending ?? <Remaining {...{ remainingMs, answeredAtMs }} />}
        </Line>
        {freeInMs !== undefined && (
          <Line name="Free in">
            <Remaining remainingMs={freeInMs} answeredAtMs={answeredAtMs} />
          </Line>
        )}
        <Line name="Granted">
          <TimeText at={grant.grantedAt} />
        </Line>
        {startMs !== null && (
          <Line name="Held for">
            <span className="tabular">{durationText(endMs - startMs)}</span>
          </Line>
        )}
        {state !== "live" && freeInMs === undefined && (
          <Line name="Ended at">
            <TimeText at={grant.endedAt ?? grant.expiresAt} />
          </Line>
        )}
        <Line name="Gap before">{vacantMs === null ? "unknown" : durationText(vacantMs)}</Line>
        <Line name="Renewals">{renewals ?? "unknown to this instance"}</Line>
        <Line name="Last renewed">
          <TimeText at={grant.renewedAt} />
        </Line>
        <Line name="TTL">{durationText(ttlMs)}</Line>
        {metadata !== null && (
          <Line name="Metadata">
            <span className="font-mono break-all">{metadata}</span>
          </Line>
        )}
        <Line name="Grant id">
          <span className="font-mono break-all">{grantId}</span>
        </Line>
      </dl>
    </section>
  );
}

function Line({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  );
}
