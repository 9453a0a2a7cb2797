/** The concurrency keys that keep tasks back, and the tasks that those wait for. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { BlockedKeys as Answer } from "leasehold/internal/wire";
import { useMay } from "../../data/who.js";
import { Icon } from "../../ui/icon.js";
import { TimeText } from "../../ui/time.js";
import { blockedKeysQuery } from "./task-queries.js";

type Key = Answer["items"][number];

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
  const { queue, kind, key, perKey, order, pending, by } = blocked;
  const waits = by[0]?.state === "pending";
  return (
    <li className="flex items-start gap-x-3 rounded-xl border bg-surface px-4 py-2.5 text-sm">
      <span className="mt-0.5 text-muted">
        <Icon name="key" />
      </span>
      <div className="min-w-0 flex-1 break-words">
        <strong className="font-semibold">{key}</strong> of the kind {kind} in the queue {queue}:{" "}
        {pending} pending, {perKey} at a time{order === "fifo" ? " in order" : ""},{" "}
        {waits ? "after the retry of" : "after"}{" "}
        {by.map(({ id, holder, until }, index) => (
          <span key={id}>
            {index > 0 && ", "}
            <Link
              to="/tasks/$id"
              params={{ id }}
              className="text-accent underline underline-offset-2"
            >
              {id}
            </Link>{" "}
            <span className="text-xs whitespace-nowrap text-muted">
              ({holder === null ? "due " : `${holder}, until `}
              <TimeText at={until} />)
            </span>
          </span>
        ))}
      </div>
    </li>
  );
}
