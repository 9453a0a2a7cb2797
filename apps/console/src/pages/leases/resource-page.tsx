/** One resource: its holders over time, waiters, refused late calls, and operator actions. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { notesOn } from "leasehold/internal";
import type { GrantRecord, Resource } from "leasehold/internal/wire";
import { Button, CopyButton, Icon, PageHead } from "leasehold-ui";
import { useState } from "react";
import { useFilters } from "../../app/filters.js";
import { ApiError, get } from "../../data/api.js";
import { useMay } from "../../data/who.js";
import { Panel } from "../../ui/panel.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { useNow } from "../../ui/time.js";
import { blocksUntilMs } from "./holder-bars.js";
import { HoldersChart } from "./holders-chart.js";
import { FreeIn, StateBadge } from "./lease-state.js";
import { PauseDialog, type Paused, PauseNote } from "./pause-dialog.js";
import { AuditOf, Refusals, Waiters } from "./resource-lists.js";
import { RevokeDialog } from "./revoke-dialog.js";

const TASK = "task:";
const SPANS: readonly { readonly name: string; readonly ms: number | null }[] = [
  { name: "all", ms: null },
  { name: "1h", ms: 3_600_000 },
  { name: "10m", ms: 600_000 },
  { name: "1m", ms: 60_000 },
];

export function ResourcePage() {
  const { resource } = useParams({ from: "/leases/$resource" });
  // The key resets all state when the resource changes.
  return <ResourceView key={resource} resource={resource} />;
}

function ResourceView({ resource }: { readonly resource: string }) {
  const [{ span }, filter] = useFilters();
  const query = useInfiniteQuery({
    queryKey: ["resource", resource],
    queryFn: ({ signal, pageParam }) =>
      get<Resource>("/v1/resource", {
        signal,
        query: { name: resource, cursor: pageParam },
      }),
    initialPageParam: "",
    getNextPageParam: ({ nextCursor }) => nextCursor,
    placeholderData: () => undefined,
  });
  const head = query.data?.pages[0];
  if (query.isError && !head) {
    return <NotShown {...{ resource, error: query.error, retry: () => void query.refetch() }} />;
  }
  if (!head) return <Skeleton lines={10} />;
  const grants = query.data?.pages.flatMap(({ items }) => items) ?? [];
  const spanMs = SPANS.find(({ name }) => name === span)?.ms ?? null;
  return (
    <>
      <ResourceHead
        {...{ resource, newest: grants[0], pause: head.pause, answeredAtMs: query.dataUpdatedAt }}
      />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-5">
        <Panel
          title="Holders over time"
          aside={
            <span role="group" aria-label="Time range" className="flex gap-1">
              {SPANS.map(({ name, ms }) => (
                <Button
                  {...{ key: name, small: true, look: "quiet" }}
                  className="aria-pressed:bg-accent-soft aria-pressed:text-accent"
                  aria-pressed={ms === spanMs}
                  onClick={() => filter({ span: ms === null ? undefined : name })}
                >
                  {name === "all" ? "all" : `last ${name}`}
                </Button>
              ))}
            </span>
          }
        >
          {grants.length === 0 ? (
            <Empty icon="lease" title="No grants yet" />
          ) : (
            <HoldersChart {...{ grants, spanMs, answeredAtMs: query.dataUpdatedAt }} />
          )}
          <Older
            history={head.history}
            {...(query.hasNextPage && { more: () => void query.fetchNextPage() })}
          />
        </Panel>
        <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-5 xl:grid-cols-2">
          <Waiters waiters={head.waiters} />
          <Refusals refusals={head.refusals} forMs={head.forMs} />
        </div>
        <AuditOf resource={resource} />
      </div>
    </>
  );
}

function ResourceHead({
  resource,
  newest,
  pause,
  answeredAtMs,
}: {
  readonly resource: string;
  readonly newest: GrantRecord | undefined;
  readonly pause: Resource["pause"];
  readonly answeredAtMs: number;
}) {
  const mayOperate = useMay("operate");
  const [revoking, setRevoking] = useState<GrantRecord>();
  const [pausing, setPausing] = useState<{ action: "pause" | "resume"; paused: Paused }>();
  const isTask = resource.startsWith(TASK);
  const nowMs = useNow();
  // A revoked grant that still blocks the resource can be freed by a second revocation.
  const isHeld =
    newest?.state === "live" || (newest && blocksUntilMs(newest, nowMs) !== null) === true;
  return (
    <>
      <p className="mb-1 text-xs text-muted">
        <Link to="/leases" className="hover:text-ink hover:underline">
          Leases
        </Link>
      </p>
      {notesOn([resource]).map((note) => (
        <p key={note} role="note" className="mb-2 text-xs text-warn">
          {note}
        </p>
      ))}
      <PageHead
        title={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <span className="font-mono break-all">{resource}</span>
            {newest && <StateBadge state={newest.state} />}
          </span>
        }
        about={<Standing {...{ newest, answeredAtMs }} />}
      >
        <CopyButton text={resource} label="Copy name" />
        {isTask && (
          <Link
            to="/tasks/$id"
            params={{ id: resource.slice(TASK.length) }}
            className="text-sm text-accent underline underline-offset-2"
          >
            Open task
          </Link>
        )}
        {mayOperate && !isTask && (
          <>
            {pause?.kind !== "resource" && (
              <Button
                onClick={() =>
                  setPausing({ action: "pause", paused: { kind: "resource", name: resource } })
                }
              >
                <Icon name="pause" /> Pause…
              </Button>
            )}
            <Button look="danger" disabled={!isHeld} onClick={() => setRevoking(newest)}>
              Revoke…
            </Button>
          </>
        )}
      </PageHead>
      {pause && (
        <PauseNote pause={pause} onResume={(paused) => setPausing({ action: "resume", paused })} />
      )}
      {revoking && (
        <RevokeDialog
          {...{ resource, grant: revoking, currentToken: newest?.token ?? 0 }}
          onClose={() => setRevoking(undefined)}
        />
      )}
      {pausing && <PauseDialog {...pausing} onClose={() => setPausing(undefined)} />}
    </>
  );
}

/** Who holds the resource, or when it is free. */
function Standing({
  newest,
  answeredAtMs,
}: {
  readonly newest: GrantRecord | undefined;
  readonly answeredAtMs: number;
}) {
  if (newest?.state === "live") return `Held by ${newest.holder}`;
  if (newest?.freeInMs === undefined) return "Not held";
  return (
    <>
      Revoked from {newest.holder}, <FreeIn freeInMs={newest.freeInMs} {...{ answeredAtMs }} />
    </>
  );
}

function Older({ history, more }: { readonly history: boolean; readonly more?: () => void }) {
  if (!history) {
    return (
      <p className="border-t px-4 py-2.5 text-xs text-muted">
        This server keeps no history, so only the last grant of each resource is known.
      </p>
    );
  }
  if (!more) return null;
  return (
    <div className="border-t p-2 text-center">
      <Button small look="quiet" onClick={more}>
        Earlier holders
      </Button>
    </div>
  );
}

function NotShown({
  resource,
  error,
  retry,
}: {
  readonly resource: string;
  readonly error: unknown;
  readonly retry: () => void;
}) {
  const isUnknown = error instanceof ApiError && error.status === 404;
  return (
    <>
      <PageHead title={<span className="font-mono break-all">{resource}</span>} />
      {isUnknown ? (
        <Empty icon="lease" title="No such resource">
          No lease has this name. Names are case-sensitive.
        </Empty>
      ) : (
        <Failure error={error} retry={retry} />
      )}
    </>
  );
}
