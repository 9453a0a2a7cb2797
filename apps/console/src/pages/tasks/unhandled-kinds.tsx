/** Warnings about kinds of tasks that no live worker handles. */

import { useQuery } from "@tanstack/react-query";
import { Icon } from "leasehold-ui";
import { useMay } from "../../data/who.js";
import { TimeText } from "../../ui/time.js";
import { workersQuery } from "./task-queries.js";

/** Tasks become unhandled by waiting, which no event reports. */
const CHECK_MS = 10_000;

/** Renders nothing if each kind has a worker. */
export function UnhandledKinds() {
  const enabled = useMay("readAll");
  const { data } = useQuery({ ...workersQuery, enabled, refetchInterval: CHECK_MS });
  const kinds = data?.unhandled ?? [];
  if (kinds.length === 0) return null;
  return (
    <ul aria-label="Kinds without a worker" className="grid gap-2">
      {kinds.map(({ queue, kind, version, tasks, complete, dueAt }) => (
        <li
          key={JSON.stringify([queue, kind, version])}
          className="flex items-center gap-x-3 rounded-xl bg-warn-soft px-4 py-2.5 text-sm"
        >
          <span className="text-warn">
            <Icon name="worker" />
          </span>
          <p className="min-w-0 flex-1 break-words">
            No live worker handles {version > 1 && `version ${version} of `}the kind{" "}
            <strong className="font-semibold">{kind}</strong> of the queue {queue}:{" "}
            {complete ? "" : "at least "}
            {tasks === 1 ? "1 task is" : `${tasks} tasks are`} due{" "}
            <span className="text-xs whitespace-nowrap text-muted">
              (the oldest since <TimeText at={dueAt} />)
            </span>
          </p>
        </li>
      ))}
    </ul>
  );
}
