/** The concurrency keys and limits that keep tasks back, and the tasks that those wait for. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { BlockedKeys as Answer, TaskLimits as Limits } from "leasehold/internal/wire";
import { durationText, Icon, type IconName } from "leasehold-ui";
import type { ReactNode } from "react";
import { useMay } from "../../data/who.js";
import { TimeText } from "../../ui/time.js";
import { blockedKeysQuery, taskLimitsQuery } from "./task-queries.js";

type Key = Answer["items"][number];
type Limit = Limits["items"][number];
type Blocking = Key["by"][number];

/** Renders nothing if no key keeps tasks back. */
export function BlockedKeys() {
  const enabled = useMay("readAll");
  const keys = useQuery({ ...blockedKeysQuery, enabled }).data?.items ?? [];
  if (keys.length === 0) return null;
  return (
    <ul aria-label="Blocked concurrency keys" className="grid gap-2">
      {keys.map((key) => (
        <BlockedKey key={JSON.stringify([key.queue, key.kind, key.key])} blocked={key} />
      ))}
    </ul>
  );
}

function BlockedKey({ blocked }: { readonly blocked: Key }) {
  const { queue, kind, key, perKey, order, rate, pending, by, usedUpUntil } = blocked;
  const waits = by[0]?.state === "pending";
  return (
    <Row icon="key">
      <strong className="font-semibold">{key}</strong> of the kind {kind} in the queue {queue}:{" "}
      {pending} pending, {perKey} at a time{order === "fifo" ? " in order" : ""}
      {rate && `, ${rateText(rate)}`}
      {by.length > 0 && (waits ? ", after the retry of " : ", after ")}
      <Blocked by={by} />
      <UsedUp until={usedUpUntil} />
    </Row>
  );
}

/** The limits of kinds and queues. Renders nothing if there is none. */
export function TaskLimits() {
  const enabled = useMay("readAll");
  const limits = useQuery({ ...taskLimitsQuery, enabled }).data?.items ?? [];
  if (limits.length === 0) return null;
  return (
    <ul aria-label="Limits of kinds and queues" className="grid gap-2">
      {limits.map((limit) => (
        <TaskLimit key={`${limit.scope} ${limit.name}`} limit={limit} />
      ))}
    </ul>
  );
}

function TaskLimit({ limit }: { readonly limit: Limit }) {
  const { scope, name, running, rate, live, started, by, usedUpUntil, declaredAt } = limit;
  const isFull = running !== null && live >= running;
  return (
    <Row icon="filter" blocked={isFull || usedUpUntil !== null}>
      The {scope} <strong className="font-semibold">{name}</strong>:{" "}
      {running === null ? `${live} running` : `${live} of ${running} running`}
      {rate && `, ${started} of ${rateText(rate)}`}
      {isFull && (
        <>
          ; the others wait for <Blocked by={by} />
        </>
      )}
      <UsedUp until={usedUpUntil} />{" "}
      <span className="text-xs text-muted">
        declared by {limit.declaredBy}, <TimeText at={declaredAt} />
      </span>
    </Row>
  );
}

function Row({
  icon,
  blocked = true,
  children,
}: {
  readonly icon: IconName;
  readonly blocked?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <li className="flex items-start gap-x-3 rounded-xl border bg-surface px-4 py-2.5 text-sm">
      <span className={`mt-0.5 ${blocked ? "text-warn" : "text-muted"}`}>
        <Icon name={icon} />
      </span>
      <div className="min-w-0 flex-1 break-words">{children}</div>
    </li>
  );
}

function Blocked({ by }: { readonly by: readonly Blocking[] }) {
  return by.map(({ id, holder, until }, index) => (
    <span key={id}>
      {index > 0 && ", "}
      <Link to="/tasks/$id" params={{ id }} className="text-accent underline underline-offset-2">
        {id}
      </Link>{" "}
      <span className="text-xs whitespace-nowrap text-muted">
        ({holder === null ? "due " : `${holder}, until `}
        <TimeText at={until} />)
      </span>
    </span>
  ));
}

function UsedUp({ until }: { readonly until: string | null }) {
  if (until === null) return null;
  return (
    <>
      ; the rate is used up until <TimeText at={until} />
    </>
  );
}

function rateText({ limit, perMs }: { readonly limit: number; readonly perMs: number }): string {
  return `${limit} started within ${durationText(perMs)}`;
}
