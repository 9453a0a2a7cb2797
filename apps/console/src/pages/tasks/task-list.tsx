/** Tasks, newest first, with actions on the selected ones or on all that match. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import type { Task } from "leasehold/internal/wire";
import { useRef } from "react";
import { MoreRows } from "../../app/more-rows.js";
import { focusedRow, useRowKeys } from "../../app/row-keys.js";
import { useMay } from "../../data/who.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { BulkBar } from "./bulk-bar.js";
import { useSelection } from "./selection.js";
import { LIVE_PAGES, type TaskFilter, taskListQuery } from "./task-queries.js";
import { ROW, TaskRow } from "./task-row.js";

/** The text filter applies to loaded pages only. This many pages load for it without a click. */
const PAGES_SEARCHED = 10;

interface Props {
  readonly filter: TaskFilter;
  readonly text: string | undefined;
}

export function TaskList({ filter, text }: Props) {
  const queries = useQueryClient();
  const list = useRef<HTMLUListElement>(null);
  const mayOperate = useMay("operate");
  const query = taskListQuery(filter);
  const pages = useInfiniteQuery(query);
  const { data, error, refetch } = pages;
  const read = data?.pages.flatMap(({ items }) => items) ?? [];
  const shown = text === undefined ? read : read.filter((task) => matches(task, text));
  const selection = useSelection(shown.map(({ id }) => id));
  const toggle = (upTo: boolean) => () => {
    const id = focusedRow();
    if (mayOperate && id !== undefined) selection.toggle(id, upTo);
  };
  useRowKeys(list, { x: toggle(false), X: toggle(true) });
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton />;
  }
  const isFrozen = data.pages.length > LIVE_PAGES;
  return (
    <>
      {mayOperate && (
        <BulkBar
          filter={filter}
          narrowed={text !== undefined}
          shown={shown}
          selection={selection}
        />
      )}
      {text !== undefined && (
        <p role="status" className="border-b px-4 py-2 text-xs text-muted">
          {shown.length} of the {read.length.toLocaleString("en")} newest tasks contain “{text}” in
          their id, kind, queue, holder, dedupe key, error, data or output
          {read.some(isCut) && ", of which only the beginning is searched where they are large"}.
        </p>
      )}
      {isFrozen && (
        <p role="status" className="flex gap-2 border-b px-4 py-2 text-xs text-muted">
          With this many rows the list no longer updates.
          <button
            type="button"
            className="text-accent underline underline-offset-2"
            onClick={() => {
              window.scrollTo({ top: 0 });
              void queries.resetQueries({ queryKey: query.queryKey });
            }}
          >
            Back to the live list
          </button>
        </p>
      )}
      {shown.length === 0 ? (
        <NoTasks filter={filter} text={text} />
      ) : (
        <>
          <div
            aria-hidden="true"
            className={`${ROW} border-b py-2 text-xs text-muted max-md:hidden`}
          >
            <span className={mayOperate ? "w-4" : ""} />
            <span>State</span>
            <span>Task</span>
            <span>Queue</span>
            <span>Holder, token</span>
            <span className="text-right">When</span>
          </div>
          <ul ref={list} aria-label="Tasks">
            {shown.map((task) => (
              <TaskRow
                key={task.id}
                task={task}
                selected={mayOperate ? selection.ids.has(task.id) : undefined}
                onToggle={(upTo) => selection.toggle(task.id, upTo)}
              />
            ))}
          </ul>
        </>
      )}
      <MoreRows
        pages={pages}
        automatic={text === undefined || data.pages.length < PAGES_SEARCHED}
        label={text === undefined ? "Show more" : "Search more"}
      />
    </>
  );
}

function matches(task: Task, text: string): boolean {
  const { id, kind, queue, processor, dedupeKey, error } = task;
  return [
    id,
    kind,
    queue,
    processor,
    dedupeKey,
    error,
    task.dataPreview ?? JSON.stringify(task.task_data),
    task.outputPreview ?? JSON.stringify(task.task_output),
  ].some((part) => part?.toLowerCase().includes(text.toLowerCase()));
}

function isCut({ dataPreview, outputPreview }: Task): boolean {
  return dataPreview !== undefined || outputPreview !== undefined;
}

function NoTasks({ filter: { state, queue, kind }, text }: Props) {
  const narrowed = queue !== undefined || kind !== undefined || text !== undefined;
  return (
    <Empty icon="task" title={state === undefined ? "No tasks" : `No ${state} tasks`}>
      {narrowed
        ? "No tasks match the filters."
        : state === undefined && (
            <>
              Add one here or with <code>leasehold enqueue</code>, or start the generator.
            </>
          )}
    </Empty>
  );
}
