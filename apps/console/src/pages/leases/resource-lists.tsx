/** The lists below a resource's chart: waiters, refused late calls, and the audit log. */

import { useQuery } from "@tanstack/react-query";
import type { AuditPage, Refusal, Waiter } from "leasehold/internal/wire";
import { Badge, durationText, Token } from "leasehold-ui";
import type { ReactNode } from "react";
import { get } from "../../data/api.js";
import { useMay, whoQuery } from "../../data/who.js";
import { Panel } from "../../ui/panel.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { actorText } from "../audit/audit-queries.js";

const ENTRIES = 20;

export function Waiters({ waiters }: { readonly waiters: readonly Waiter[] }) {
  return (
    <Panel title="Wait queue" aside="as seen by this instance">
      {waiters.length === 0 ? (
        <None>No waiters.</None>
      ) : (
        <ol>
          {waiters.map(({ grantId, holder, ahead, askedAt }) => (
            <Item key={grantId}>
              <span className="w-16 shrink-0 text-xs text-muted tabular">
                {ahead === null ? "waiting" : ahead === 0 ? "next" : `${ahead} ahead`}
              </span>
              <span className="min-w-0 flex-1 truncate">{holder}</span>
              <span className="text-xs text-muted">
                <TimeText at={askedAt} />
              </span>
            </Item>
          ))}
        </ol>
      )}
    </Panel>
  );
}

/** Late calls come from holders that have lost the lease without knowing it. Fencing tokens exist for them. */
export function Refusals({
  refusals,
  forMs,
}: {
  readonly refusals: readonly Refusal[];
  readonly forMs: number;
}) {
  return (
    <Panel title="Refused late calls" aside={`this instance, last ${durationText(forMs)}`}>
      {refusals.length === 0 ? (
        <None>No late calls.</None>
      ) : (
        <ol className="max-h-80 overflow-y-auto" tabIndex={0} aria-label="Refused late calls">
          {refusals.map(({ at, operation, reason, holder, token, grantId }, index) => (
            <Item key={`${at} ${grantId} ${index}`}>
              <Token token={token} />
              <span className="min-w-0 flex-1 truncate">{holder ?? "unknown holder"}</span>
              <span className="flex items-center gap-1.5 text-xs">
                {operation} <Badge tone="danger">{reason}</Badge>
              </span>
              <span className="text-xs text-muted">
                <TimeText at={at} />
              </span>
            </Item>
          ))}
        </ol>
      )}
    </Panel>
  );
}

/** Renders nothing if the server keeps no audit log or this role may not read it. */
export function AuditOf({ resource }: { readonly resource: string }) {
  const control = useQuery(whoQuery).data?.control ?? false;
  const mayRead = useMay("operate");
  const entries = useQuery({
    queryKey: ["audit", "of", resource],
    queryFn: ({ signal }) =>
      get<AuditPage>("/v1/audit", { signal, query: { target: resource, limit: ENTRIES } }),
    enabled: control && mayRead,
    placeholderData: () => undefined,
  });
  if (!control || !mayRead) return null;
  return (
    <Panel title="Audit" aside="operator actions on this resource">
      {entries.error ? (
        <Failure error={entries.error} retry={() => void entries.refetch()} />
      ) : !entries.data ? (
        <Skeleton lines={2} />
      ) : entries.data.items.length === 0 ? (
        <None>No entries yet.</None>
      ) : (
        <ol aria-label="Audit entries">
          {entries.data.items.map(({ seq, at, actor, claimedActor, action, reason, phase }) => (
            <Item key={seq}>
              <span className="font-mono text-xs font-medium">{action}</span>
              {phase !== "done" && <Badge>{phase}</Badge>}
              <span className="min-w-0 flex-1 basis-40 break-words">
                {reason ?? <span className="text-muted">no reason given</span>}
              </span>
              <span className="text-xs text-muted">{actorText({ actor, claimedActor })}</span>
              <span className="text-xs text-muted">
                <TimeText at={at} />
              </span>
            </Item>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function Item({ children }: { readonly children: ReactNode }) {
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-2 text-sm last:border-b-0">
      {children}
    </li>
  );
}

function None({ children }: { readonly children: ReactNode }) {
  return <p className="px-4 py-3 text-sm text-muted">{children}</p>;
}
