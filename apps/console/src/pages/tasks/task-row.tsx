import { Link, useNavigate } from "@tanstack/react-router";
import type { Task } from "leasehold/internal/wire";
import { classNames, Token } from "leasehold-ui";
import { openOnEnter } from "../../app/row-keys.js";
import { TimeText, useNow } from "../../ui/time.js";
import { StateBadge } from "./state-badge.js";

/** The grid of the head and the rows; on a phone a row has several lines. */
export const ROW =
  "grid items-center gap-x-4 px-4 grid-cols-[auto_minmax(0,1fr)] md:grid-cols-[auto_5.5rem_minmax(0,2.2fr)_minmax(0,1fr)_minmax(0,1.3fr)_8.5rem]";

interface Props {
  readonly task: Task;
  /** Undefined: rows cannot be selected. */
  readonly selected: boolean | undefined;
  /** @param upTo the Shift key was down */
  readonly onToggle: (upTo: boolean) => void;
}

export function TaskRow({ task, selected, onToggle }: Props) {
  const navigate = useNavigate();
  const { id, kind, queue, state, processor, fencingToken } = task;
  const params = { id };
  return (
    <li
      data-row={id}
      tabIndex={-1}
      onKeyDown={openOnEnter(() => void navigate({ to: "/tasks/$id", params }))}
      className={classNames(
        ROW,
        "gap-y-1 border-b py-2.5 text-sm last:border-b-0 focus:bg-sunken focus:outline-offset-[-2px]",
        selected ? "bg-accent-soft/50" : "hover:bg-sunken/60",
      )}
    >
      {selected === undefined ? (
        <span />
      ) : (
        <input
          type="checkbox"
          aria-label={`Select ${kind} ${id}`}
          checked={selected}
          className="size-4 accent-(--accent) max-md:row-span-3 max-md:self-start max-md:mt-0.5"
          // Only the click event, which comes before the change event, has the state of the Shift key.
          onClick={({ shiftKey }) => onToggle(shiftKey)}
          onChange={() => {}}
        />
      )}
      <span className="flex min-w-0 items-center gap-2 max-md:order-2 max-md:col-start-2">
        <StateBadge state={state} />
        <span className="min-w-0 truncate text-xs text-muted md:hidden">{queue}</span>
        <span className="ml-auto text-xs whitespace-nowrap text-muted md:hidden">
          <When task={task} />
        </span>
      </span>
      <span className="min-w-0 max-md:order-1">
        <span className="flex min-w-0 items-baseline gap-2">
          <Link
            to="/tasks/$id"
            params={params}
            className="truncate font-medium hover:underline underline-offset-2"
          >
            {kind}
          </Link>
          <span className="shrink-0 font-mono text-2xs text-muted" title={id}>
            {id.slice(-8)}
          </span>
        </span>
        <span className="mt-0.5 block truncate font-mono text-2xs text-muted">
          {task.error !== null && (state === "dead" || state === "pending") ? (
            <span className="text-danger">{task.error}</span>
          ) : (
            (task.dataPreview ?? JSON.stringify(task.task_data))
          )}
        </span>
      </span>
      <span className="truncate text-muted max-md:hidden">{queue}</span>
      <span
        className={classNames(
          "flex min-w-0 items-center gap-2 max-md:order-3 max-md:col-start-2",
          processor === null && "max-md:hidden",
        )}
      >
        {processor === null ? (
          <span className="text-muted">–</span>
        ) : (
          <>
            <span className="min-w-0 truncate text-xs" title={processor}>
              {processor}
            </span>
            <Token token={fencingToken} />
          </>
        )}
      </span>
      <span className="text-right text-xs text-muted max-md:hidden">
        <When task={task} />
        {task.attempt > 1 && <span className="block text-2xs">attempt {task.attempt}</span>}
      </span>
    </li>
  );
}

/** The time that matters in the task's state. */
function When({ task }: { readonly task: Task }) {
  if (task.state === "pending") {
    return (
      <>
        {task.failures > 0 ? "retry due " : "due "}
        <TimeText at={task.scheduled_at} />
      </>
    );
  }
  if (task.state === "running") return <LeaseExpiry at={task.must_heartbeat_before} />;
  return <TimeText at={task.processed_at ?? task.createdAt} />;
}

function LeaseExpiry({ at }: { readonly at: Task["must_heartbeat_before"] }) {
  const nowMs = useNow();
  const isPast = at !== null && Date.parse(at) < nowMs;
  return (
    <>
      lease {isPast ? "expired" : "expires"} <TimeText at={at} />
    </>
  );
}
