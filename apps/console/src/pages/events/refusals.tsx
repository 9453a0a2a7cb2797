/** Writes that the server refused because the holder had lost its lease. */

import { queryOptions, useQuery } from "@tanstack/react-query";
import type { Refusals as Answer, Refusal } from "leasehold/internal/wire";
import { Badge, durationText, Token } from "leasehold-ui";
import { useRef } from "react";
import { FilterInput, useFilters } from "../../app/filters.js";
import { useRowKeys } from "../../app/row-keys.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { get } from "../../data/api.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { EVENT_ROW } from "./activity-list.js";
import { ResourceLink } from "./resource-link.js";

/** The reasons of a refusal, as clauses. */
const REASONS: Readonly<Record<string, string>> = {
  expired: "the lease had expired",
  taken: "another holder has acquired the lease",
  revoked: "an operator revoked the lease",
  gone: "the store no longer knows the lease",
  notHeld: "the lease had already ended",
  cancelled: "the task was cancelled",
  finished: "the task has already ended",
  unknown: "the task does not exist",
};

const refusalsQuery = (prefix: string | undefined) =>
  queryOptions({
    // Under "resource", because an event of topic `lease` makes those queries stale.
    queryKey: ["resource", "refusals", prefix ?? ""],
    queryFn: ({ signal }) => get<Answer>("/v1/refusals", { signal, query: { prefix, limit: 200 } }),
    refetchInterval: 2_000,
  });

export function Refusals() {
  const [{ prefix }, filterBy] = useFilters();
  const { data, error, refetch } = useQuery(refusalsQuery(prefix));
  return (
    <>
      <div className="mb-3 sm:max-w-sm">
        <FilterInput
          id={SEARCH_FIELD_ID}
          label="Resource prefix"
          value={prefix}
          onFilter={(value) => filterBy({ prefix: value })}
        />
      </div>
      <section aria-label="Refused writes" className="rounded-xl border bg-surface">
        {data ? (
          <List items={data.items} />
        ) : error ? (
          <Failure error={error} retry={() => void refetch()} />
        ) : (
          <Skeleton />
        )}
      </section>
      {data && (
        <p className="mt-3 text-xs text-muted">
          The latest writes that this server has refused since it started {durationText(data.forMs)}{" "}
          ago.
        </p>
      )}
    </>
  );
}

function List({ items }: { readonly items: readonly Refusal[] }) {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  if (items.length === 0) {
    return (
      <Empty icon="shield" title="No refused writes">
        Writes with a lost lease appear here.
      </Empty>
    );
  }
  return (
    <ul ref={list} aria-label="Refused">
      {items.map((refusal, index) => (
        <Row key={`${refusal.at} ${refusal.grantId} ${index}`} refusal={refusal} />
      ))}
    </ul>
  );
}

function Row({ refusal }: { readonly refusal: Refusal }) {
  const { at, operation, reason, resource, holder, token } = refusal;
  return (
    <li
      data-row={resource}
      tabIndex={-1}
      className={`${EVENT_ROW} border-b py-2 last:border-b-0 focus:bg-sunken max-md:grid-cols-[auto_minmax(0,1fr)_auto] max-md:gap-y-1`}
    >
      <span className="text-xs text-muted max-md:order-3 max-md:text-right">
        <TimeText at={at} />
      </span>
      <span className="max-md:order-1">
        <Badge tone="danger">{operation}</Badge>
      </span>
      <span className="min-w-0 max-md:order-2">
        <ResourceLink resource={resource} />
      </span>
      <span className="min-w-0 truncate text-xs max-md:order-5 max-md:col-span-2">{holder}</span>
      <span className="max-md:order-4">{token !== null && <Token token={token} />}</span>
      <span className="min-w-0 text-xs text-muted max-md:order-6 max-md:col-span-3">
        {reason}
        {REASONS[reason] !== undefined && `: ${REASONS[reason]}`}
      </span>
    </li>
  );
}
