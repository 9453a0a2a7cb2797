/** The list of keys, ended ones included. */

import { infiniteQueryOptions, useInfiniteQuery } from "@tanstack/react-query";
import type { ApiKey, ApiKeyPage } from "leasehold/internal/wire";
import { Badge, type Tone } from "leasehold-ui";
import { useRef } from "react";
import { MoreRows } from "../../app/more-rows.js";
import { useRowKeys } from "../../app/row-keys.js";
import { get } from "../../data/api.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";

const PAGE = 50;

const keysQuery = infiniteQueryOptions({
  queryKey: ["keys"],
  queryFn: ({ signal, pageParam }) =>
    get<ApiKeyPage>("/v1/keys", { signal, query: { limit: PAGE, cursor: pageParam } }),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
});

/** The grid of the head and the rows; on a phone a row has several lines. */
const ROW =
  "grid items-center gap-x-4 gap-y-1 px-4 grid-cols-[minmax(0,1fr)_auto] md:grid-cols-[minmax(0,1.5fr)_5rem_minmax(0,1.5fr)_7.5rem_7.5rem_7.5rem_4.5rem]";

export function KeyList() {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  const pages = useInfiniteQuery(keysQuery);
  const { data, error, refetch } = pages;
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton />;
  }
  const keys = data.pages.flatMap(({ items }) => items);
  if (keys.length === 0) {
    return (
      <Empty icon="key" title="No keys yet">
        Create one with <code className="font-mono">leasehold keys create</code>
      </Empty>
    );
  }
  return (
    <>
      <div aria-hidden="true" className={`${ROW} py-2 text-xs text-muted max-md:hidden`}>
        <span>Key</span>
        <span>Role</span>
        <span>Limited to</span>
        <span>Last used</span>
        <span>Created</span>
        <span>Ends</span>
        <span>State</span>
      </div>
      <ul ref={list} aria-label="Keys">
        {keys.map((key) => (
          <Row key={key.id} apiKey={key} />
        ))}
      </ul>
      <MoreRows pages={pages} />
    </>
  );
}

function stateOf({ revoked, remainingMs }: ApiKey): { name: string; tone: Tone } {
  if (revoked) return { name: "revoked", tone: "danger" };
  return remainingMs === 0 ? { name: "ended", tone: "plain" } : { name: "valid", tone: "ok" };
}

function Row({ apiKey }: { readonly apiKey: ApiKey }) {
  const { id, name, role, prefixes, queues, createdAt, expiresAt, lastUsedAt } = apiKey;
  const state = stateOf(apiKey);
  const limits = [...prefixes.map((prefix) => prefix || "all resources"), ...queues];
  return (
    <li
      data-row={id}
      tabIndex={-1}
      className={`${ROW} border-t py-2.5 text-sm focus:bg-sunken max-md:first:border-t-0`}
    >
      <span className="min-w-0 truncate" title={`${name}, ${id}`}>
        <span className="font-medium">{name}</span>{" "}
        <span className="font-mono text-xs text-muted">{id}</span>
      </span>
      <span className="text-xs">{role}</span>
      <span
        className="min-w-0 truncate font-mono text-xs text-muted max-md:col-span-2"
        title={limits.join(", ")}
      >
        {limits.join(", ") || "–"}
      </span>
      <span className="text-xs">
        <span className="text-muted md:hidden">last used </span>
        {lastUsedAt === null ? "never" : <TimeText at={lastUsedAt} />}
      </span>
      <span className="text-xs text-muted max-md:hidden">
        <TimeText at={createdAt} />
      </span>
      <span className="text-xs text-muted max-md:hidden">
        {expiresAt === null ? "never" : <TimeText at={expiresAt} />}
      </span>
      <span className="max-md:justify-self-end">
        <Badge tone={state.tone}>{state.name}</Badge>
      </span>
    </li>
  );
}
