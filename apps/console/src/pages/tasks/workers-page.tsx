/** The workers: the leases that each holds, and the tasks that it claims. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Workers } from "leasehold/internal/wire";
import { Badge, durationText, PageHead } from "leasehold-ui";
import { useRef } from "react";
import { FilterInput, useFilters } from "../../app/filters.js";
import { useRowKeys } from "../../app/row-keys.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { workersQuery } from "./task-queries.js";
import { UnhandledKinds } from "./unhandled-kinds.js";

type Worker = Workers["items"][number];

export function WorkersPage() {
  const [{ text }, filterBy] = useFilters();
  const { data, error, refetch } = useQuery(workersQuery);
  const shown = (data?.items ?? []).filter(({ holder, holds }) =>
    [holder, ...holds].some((part) => part.toLowerCase().includes((text ?? "").toLowerCase())),
  );
  return (
    <>
      <PageHead
        title="Workers"
        about="Clients that hold a lease now or have recently claimed tasks from this server."
      />
      <div className="mb-3 sm:max-w-sm">
        <FilterInput
          id={SEARCH_FIELD_ID}
          label="Worker or lease"
          value={text}
          onFilter={(value) => filterBy({ text: value })}
        />
      </div>
      <div className="mb-3">
        <UnhandledKinds />
      </div>
      <section aria-label="Worker list" className="rounded-xl border bg-surface">
        {!data ? (
          error ? (
            <Failure error={error} retry={() => void refetch()} />
          ) : (
            <Skeleton />
          )
        ) : shown.length === 0 ? (
          <Empty icon="worker" title="No workers">
            {text === undefined ? (
              <>
                Start one with <code>leasehold worker</code>.
              </>
            ) : (
              "No workers match the filter."
            )}
          </Empty>
        ) : (
          <List workers={shown} />
        )}
      </section>
      {data && (
        <p className="mt-3 text-xs text-muted">
          {!data.complete &&
            "The list is incomplete: there are more leases than the server scanned. "}
          Queues and kinds are those that workers have claimed from this server since it started{" "}
          {durationText(data.forMs)} ago.
        </p>
      )}
    </>
  );
}

const ROW =
  "grid gap-x-4 gap-y-1.5 px-4 md:grid-cols-[minmax(0,1.2fr)_8rem_minmax(0,1.4fr)_minmax(0,2fr)]";

function List({ workers }: { readonly workers: readonly Worker[] }) {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  return (
    <>
      <div aria-hidden="true" className={`${ROW} border-b py-2 text-xs text-muted max-md:hidden`}>
        <span>Worker</span>
        <span>Last heartbeat</span>
        <span>Claims</span>
        <span>Holds</span>
      </div>
      <ul ref={list} aria-label="Workers">
        {workers.map((worker) => (
          <Row key={worker.holder} worker={worker} />
        ))}
      </ul>
    </>
  );
}

function Row({ worker: { holder, lastHeartbeatAt, holds, claims } }: { readonly worker: Worker }) {
  return (
    <li
      data-row={holder}
      tabIndex={-1}
      className={`${ROW} border-b py-3 text-sm last:border-b-0 focus:bg-sunken`}
    >
      <span className="min-w-0 font-medium break-words">{holder}</span>
      <span className="text-xs text-muted">
        <span className="md:hidden">last heartbeat </span>
        <TimeText at={lastHeartbeatAt} />
      </span>
      <Claims claims={claims} />
      <Holds holds={holds} />
    </li>
  );
}

function Claims({ claims }: Pick<Worker, "claims">) {
  if (claims === null) return <span className="text-xs text-muted">no recent claims</span>;
  const { queues, kinds, at, waiting, abandoned } = claims;
  return (
    <span className="min-w-0 text-xs">
      <span className="break-words">
        {queues.length === 1 ? "queue" : "queues"} {queues.join(", ")};{" "}
        {kinds === null ? "any kind" : kinds.join(", ")}
      </span>
      <span className="mt-1 block text-muted">
        {abandoned > 0 ? (
          <>
            <Badge tone="danger">stuck</Badge>{" "}
            {abandoned === 1 ? "1 handler does" : `${abandoned} handlers do`} not end: restart it
          </>
        ) : waiting ? (
          <Badge tone="accent">waiting for a task</Badge>
        ) : (
          <>
            last claim <TimeText at={at} />
          </>
        )}
      </span>
    </span>
  );
}

/** How many leases of a worker are shown. */
const MOST_SHOWN = 12;

function Holds({ holds }: Pick<Worker, "holds">) {
  if (holds.length === 0) return <span className="text-xs text-muted">none</span>;
  return (
    <span className="flex min-w-0 flex-wrap content-start items-start gap-1.5">
      {holds.slice(0, MOST_SHOWN).map((resource) => (
        <Held key={resource} resource={resource} />
      ))}
      {holds.length > MOST_SHOWN && (
        <span className="text-xs text-muted">and {holds.length - MOST_SHOWN} more</span>
      )}
    </span>
  );
}

const TASK = "task:";

function Held({ resource }: { readonly resource: string }) {
  const look =
    "max-w-full truncate rounded border bg-paper px-1.5 py-0.5 font-mono text-2xs hover:border-line-strong";
  if (resource.startsWith(TASK)) {
    const id = resource.slice(TASK.length);
    return (
      <Link to="/tasks/$id" params={{ id }} className={look} title={resource}>
        {TASK}
        {id.slice(-8)}
      </Link>
    );
  }
  return (
    <Link to="/leases/$resource" params={{ resource }} className={look} title={resource}>
      {resource}
    </Link>
  );
}
