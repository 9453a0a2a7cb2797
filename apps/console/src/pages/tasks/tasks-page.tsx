import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Button, Icon, PageHead } from "leasehold-ui";
import { useState } from "react";
import { FilterInput, useFilters } from "../../app/filters.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { useMay, whoQuery } from "../../data/who.js";
import { BlockedKeys, TaskLimits } from "./blocked-keys.js";
import { EnqueueDialog } from "./enqueue-dialog.js";
import { GeneratorPanel } from "./generator-panel.js";
import { PausedQueues, PauseQueueDialog } from "./queue-pauses.js";
import { StateTabs } from "./state-tabs.js";
import { TaskList } from "./task-list.js";
import { stateOf } from "./task-queries.js";
import { UnhandledKinds } from "./unhandled-kinds.js";

export function TasksPage() {
  const [search, filterBy] = useFilters();
  const [open, setOpen] = useState<"enqueue" | "pause">();
  const mayWork = useMay("work");
  const mayOperate = useMay("operate");
  const control = useQuery(whoQuery).data?.control ?? false;
  const { queue, kind, text } = search;
  const filter = { state: stateOf(search.state), queue, kind };
  const close = () => setOpen(undefined);
  return (
    <>
      <PageHead
        title="Tasks"
        about="Each attempt of a task runs under a lease with its own fencing token."
      >
        {mayOperate && control && (
          <Button onClick={() => setOpen("pause")}>
            <Icon name="pause" /> Pause queue
          </Button>
        )}
        {mayWork && (
          <Button look="primary" onClick={() => setOpen("enqueue")}>
            <Icon name="plus" /> Add task
          </Button>
        )}
      </PageHead>
      <div className="mb-4 grid gap-3">
        <GeneratorPanel />
        <PausedQueues />
        <UnhandledKinds />
        <TaskLimits />
        <BlockedKeys />
      </div>
      <StateTabs state={filter.state} search={search} />
      <div className="my-3 grid grid-cols-2 gap-2 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)_minmax(0,1fr)]">
        <FilterInput
          id={SEARCH_FIELD_ID}
          className="max-sm:col-span-2"
          label="Text or id"
          value={text}
          onFilter={(value) => filterBy({ text: value })}
        />
        <FilterInput label="Queue" value={queue} onFilter={(value) => filterBy({ queue: value })} />
        <FilterInput label="Kind" value={kind} onFilter={(value) => filterBy({ kind: value })} />
      </div>
      {text !== undefined && text !== "" && (
        <p className="mb-3 text-sm">
          <Link
            to="/tasks/$id"
            params={{ id: text }}
            className="inline-flex items-center gap-1.5 text-accent underline underline-offset-2"
          >
            <Icon name="link" /> Open the task with the id {text}
          </Link>
        </p>
      )}
      <section aria-label="Task list" className="rounded-xl border bg-surface">
        <TaskList key={JSON.stringify(filter)} filter={filter} text={text} />
      </section>
      {open === "enqueue" && <EnqueueDialog kind={kind} queue={queue} onClose={close} />}
      {open === "pause" && <PauseQueueDialog queue={queue ?? "default"} onClose={close} />}
    </>
  );
}
