/** The schedules of tasks: when they fire next, and what became of their last task. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schedule } from "leasehold/internal/wire";
import { Badge, Button, durationText, Icon } from "leasehold-ui";
import { useRef, useState } from "react";
import { MoreRows } from "../../app/more-rows.js";
import { openOnEnter, useRowKeys } from "../../app/row-keys.js";
import { useMay } from "../../data/who.js";
import { JsonView } from "../../ui/json-view.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { StateBadge } from "../tasks/state-badge.js";
import { ScheduleDialog } from "./schedule-dialog.js";
import { type ScheduleAction, schedulesQuery } from "./schedule-queries.js";

/** The grid of the head and the rows; on a phone a row has several lines. */
const ROW =
  "grid items-center gap-x-4 gap-y-1 px-4 grid-cols-[minmax(0,1fr)_auto_auto] md:grid-cols-[minmax(0,1.2fr)_minmax(0,1.2fr)_8rem_7rem_5rem_auto]";

export function ScheduleList() {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  const pages = useInfiniteQuery(schedulesQuery());
  const { data, error, refetch } = pages;
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton />;
  }
  const schedules = data.pages.flatMap(({ items }) => items);
  if (schedules.length === 0) {
    return (
      <Empty icon="schedule" title="No schedules yet">
        Programs declare them: <code className="font-mono">tasks.schedule(NAME, …)</code>
      </Empty>
    );
  }
  return (
    <>
      <div aria-hidden="true" className={`${ROW} py-2 text-xs text-muted max-md:hidden`}>
        <span>Name</span>
        <span>Fires</span>
        <span>Next</span>
        <span>Last task</span>
        <span className="text-right">Skipped</span>
        <span className="w-6" />
      </div>
      <ul ref={list} aria-label="Schedules">
        {schedules.map((schedule) => (
          <Row key={schedule.name} schedule={schedule} />
        ))}
      </ul>
      <MoreRows pages={pages} />
    </>
  );
}

function Row({ schedule }: { readonly schedule: Schedule }) {
  const [open, setOpen] = useState(false);
  const { name, cron, timeZone, everyMs, paused, lastTask, skipped, nextFireTimes } = schedule;
  const toggle = () => setOpen(!open);
  const fires = everyMs === null ? `${cron} ${timeZone}` : `every ${durationText(everyMs)}`;
  const [next] = nextFireTimes;
  return (
    <li
      data-row={name}
      tabIndex={-1}
      onKeyDown={openOnEnter(toggle)}
      className="border-t focus:bg-sunken max-md:first:border-t-0"
    >
      <div className={`${ROW} py-2.5 text-sm`}>
        <span className="min-w-0 truncate font-mono text-[0.8125rem] font-medium" title={name}>
          {name}
        </span>
        <span className="min-w-0 truncate font-mono text-xs max-md:order-4" title={fires}>
          {fires}
        </span>
        <span className="text-xs text-muted max-md:order-5">
          {paused ? <Badge tone="warn">paused</Badge> : next && <TimeText at={next} />}
        </span>
        <span>
          {lastTask &&
            (lastTask.state ? <StateBadge state={lastTask.state} /> : <Badge>deleted</Badge>)}
        </span>
        <span className="text-right tabular max-md:sr-only">
          {skipped || <span className="text-muted">–</span>}
        </span>
        <button
          type="button"
          aria-expanded={open}
          aria-label={`Details of ${name}`}
          onClick={toggle}
          className="grid size-6 place-items-center justify-self-end rounded text-muted hover:bg-sunken hover:text-ink max-md:order-3"
        >
          <Icon name={open ? "chevronDown" : "chevronRight"} size={14} />
        </button>
      </div>
      {open && <Details schedule={schedule} />}
    </li>
  );
}

function Details({ schedule }: { readonly schedule: Schedule }) {
  const { name, paused, lastTask, nextFireTimes, task, fired, waiting, declaredAt } = schedule;
  const mayOperate = useMay("operate");
  const [action, setAction] = useState<ScheduleAction>();
  const actions: readonly (readonly [ScheduleAction, string])[] = [
    paused ? ["resume", "Resume"] : ["pause", "Pause"],
    ["run", "Run now"],
    ["remove", "Remove"],
  ];
  return (
    <div className="grid gap-2 px-4 pb-3 text-xs">
      {paused && (
        <p>
          Paused by {paused.by}, <TimeText at={paused.at} />
          {paused.reason !== null && `: ${paused.reason}`}
        </p>
      )}
      {nextFireTimes.length > 0 && (
        <ol aria-label={`Next fire times of ${name}`} className="flex flex-wrap gap-x-4 text-muted">
          {nextFireTimes.map((at) => (
            <li key={at} className="font-mono">
              {at}
            </li>
          ))}
        </ol>
      )}
      <JsonView value={task.data} name={`data of ${name}`} />
      {lastTask?.error && (
        <p className="rounded-lg bg-sunken px-3 py-2 font-mono break-words whitespace-pre-wrap">
          {lastTask.error}
        </p>
      )}
      <div className="flex flex-wrap items-center gap-2">
        <p className="min-w-0 flex-1 text-muted">
          Kind {task.kind} in {task.queue}, {fired} {fired === 1 ? "task" : "tasks"} so far
          {waiting > 0 && `, ${waiting} waiting`}, declared <TimeText at={declaredAt} />
          {lastTask && lastTask.state !== null && (
            <>
              {", "}
              <Link to="/tasks/$id" params={{ id: lastTask.id }} className="underline">
                last task
              </Link>
            </>
          )}
        </p>
        {mayOperate &&
          actions.map(([verb, label]) => (
            <Button key={verb} small onClick={() => setAction(verb)}>
              {label}
            </Button>
          ))}
      </div>
      {action && <ScheduleDialog {...{ action, schedule }} onClose={() => setAction(undefined)} />}
    </div>
  );
}
