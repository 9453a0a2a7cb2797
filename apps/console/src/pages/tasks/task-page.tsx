import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type TaskDetails, taskInPath } from "leasehold/internal/wire";
import { Button, CopyButton, durationText, Icon, type IconName, PageHead } from "leasehold-ui";
import { type ReactNode, useState } from "react";
import { ApiError, api } from "../../data/api.js";
import { useMay, whoQuery } from "../../data/who.js";
import { JsonView } from "../../ui/json-view.js";
import { Panel } from "../../ui/panel.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { Attempts } from "./attempts.js";
import { StateBadge } from "./state-badge.js";
import { ACTION_STATES, ACTIONS, type Action, ActionDialog, verbOf } from "./task-actions.js";
import { taskQuery } from "./task-queries.js";
import { Why } from "./why.js";

export function TaskPage() {
  const { id = "" } = useParams({ strict: false });
  const { data, error, refetch, dataUpdatedAt } = useQuery(taskQuery(id));
  const gone = error instanceof ApiError && error.status === 404;
  if (data && !gone) return <Known task={data} answeredAtMs={dataUpdatedAt} />;
  if (!error) return <Skeleton />;
  return (
    <>
      <PageHead title="Task" about={<span className="font-mono">{id}</span>} />
      {gone ? (
        <Empty icon="task" title="Task not found">
          An operator may have deleted it. Tasks that have ended stay until then. <AllTasks />
        </Empty>
      ) : (
        <Failure error={error} retry={() => void refetch()} />
      )}
    </>
  );
}

function AllTasks() {
  return (
    <Link to="/tasks" className="text-accent underline underline-offset-2">
      All tasks
    </Link>
  );
}

function Known({ task, answeredAtMs }: { task: TaskDetails; answeredAtMs: number }) {
  const { id, kind, state, task_data, task_output, checkpoint } = task;
  return (
    <>
      <nav aria-label="Breadcrumb" className="mb-2 flex items-center gap-1.5 text-xs text-muted">
        <Link to="/tasks" className="underline underline-offset-2">
          Tasks
        </Link>
        <Icon name="chevronRight" size={12} />
        <span className="min-w-0 truncate font-mono">{id}</span>
        <CopyButton text={id} label="Copy id" />
      </nav>
      <PageHead
        title={
          <span className="flex flex-wrap items-center gap-3">
            {kind} <StateBadge state={state} />
          </span>
        }
      >
        <Actions task={task} />
      </PageHead>
      <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,5fr)_minmax(0,3fr)]">
        <div className="grid min-w-0 gap-4">
          {state === "pending" && (
            <Panel title="Why isn’t this running?">
              <Why id={id} />
            </Panel>
          )}
          <Panel title="Attempts" aside="latest first, one bar per fencing token">
            <Attempts {...{ task, answeredAtMs }} />
          </Panel>
          <Panel title="Input">
            <div className="p-3">
              <JsonView value={task_data} name="input" />
            </div>
          </Panel>
          {checkpoint !== null && (
            <Panel title="Checkpoint" aside="for the next attempt">
              <div className="p-3">
                <JsonView value={checkpoint} name="checkpoint" />
              </div>
            </Panel>
          )}
          {state === "done" && (
            <Panel title="Output">
              <div className="p-3">
                <JsonView value={task_output} name="output" />
              </div>
            </Panel>
          )}
        </div>
        <Panel title="Details">
          <Facts task={task} />
        </Panel>
      </div>
    </>
  );
}

function Facts({ task }: { readonly task: TaskDetails }) {
  const { id, queue, priority, attempt, failures, maxAttempts, crashes, crashLimit } = task;
  const {
    dedupeKey,
    concurrency,
    version,
    createdAt,
    scheduled_at,
    started_at,
    processed_at,
    kind,
    maxRunMs,
    startBy,
    postponed,
  } = task;
  const list = (search: { queue?: string; kind?: string }, text: string) => (
    <Link to="/tasks" search={search} className="underline underline-offset-2">
      {text}
    </Link>
  );
  const tookMs =
    started_at === null || processed_at === null
      ? null
      : Date.parse(processed_at) - Date.parse(started_at);
  return (
    <dl className="divide-y text-sm">
      <Fact name="Queue">{list({ queue }, queue)}</Fact>
      <Fact name="Kind">
        {list({ kind }, kind)}
        {version > 1 && <span className="text-muted"> version {version}</span>}
      </Fact>
      <Fact name="Priority">{priority}</Fact>
      <Fact name="Attempts">{attempt}</Fact>
      <Fact name="Failures">
        {failures} of {maxAttempts}
      </Fact>
      <Fact name="Crashes">
        {crashes} of {crashLimit}
      </Fact>
      <Fact name="Dedupe key">{dedupeKey ?? <span className="text-muted">none</span>}</Fact>
      {concurrency && (
        <Fact name="Concurrency key">
          {concurrency.key}{" "}
          <span className="text-muted">
            {concurrency.perKey} at a time,{" "}
            {concurrency.order === "fifo" ? "in order" : "any order"}
          </span>
        </Fact>
      )}
      <Fact name="Added">
        <TimeText at={createdAt} />
      </Fact>
      <Fact name="Not before">
        <TimeText at={scheduled_at} />
      </Fact>
      {startBy !== null && started_at === null && (
        <Fact name="Must begin by">
          <TimeText at={startBy} />
        </Fact>
      )}
      {maxRunMs !== null && <Fact name="Runs at most">{durationText(maxRunMs)}</Fact>}
      {postponed > 0 && (
        <Fact name="Put off">
          {postponed} {postponed === 1 ? "time" : "times"}
        </Fact>
      )}
      <Fact name="Last started">
        <TimeText at={started_at} />
      </Fact>
      <Fact name="Ended">
        <TimeText at={processed_at} />
        {tookMs !== null && tookMs >= 0 && (
          <span className="block text-xs text-muted">after {durationText(tookMs)}</span>
        )}
      </Fact>
      <Fact name="Lease">
        <Link
          to="/leases/$resource"
          params={{ resource: `task:${id}` }}
          className="underline underline-offset-2"
        >
          Holders over time
        </Link>
      </Fact>
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div className="flex items-baseline justify-between gap-4 px-4 py-2">
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0 text-right break-words tabular">{children}</dd>
    </div>
  );
}

const ICONS: Readonly<Record<Action, IconName>> = {
  cancel: "close",
  retry: "restart",
  delete: "trash",
};

function Actions({ task: { id, state } }: { readonly task: TaskDetails }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const mayOperate = useMay("operate");
  const control = useQuery(whoQuery).data?.control ?? false;
  const [asked, setAsked] = useState<Action>();
  if (!mayOperate) return null;
  const run = async (action: Action, reason: string | undefined) => {
    const asking = { query: { reason } };
    if (action === "delete") await api("DELETE", `/api/tasks/${taskInPath(id)}`, asking);
    else await api("POST", `/api/tasks/${taskInPath(id)}/${action}`, asking);
    return { changed: 1, others: 0 };
  };
  return (
    <>
      {ACTIONS.filter(
        (action) => ACTION_STATES[action].includes(state) && (action !== "delete" || control),
      ).map((action) => (
        <Button
          key={action}
          look={action === "delete" ? "danger" : "plain"}
          onClick={() => setAsked(action)}
        >
          <Icon name={ICONS[action]} /> {verbOf(action)}
        </Button>
      ))}
      {asked && (
        <ActionDialog
          action={asked}
          what="this task"
          run={(reason) => run(asked, reason)}
          onClose={(done) => {
            setAsked(undefined);
            if (!done) return;
            // A deleted task has no page any more.
            if (asked === "delete") void navigate({ to: "/tasks" });
            else void queries.invalidateQueries({ queryKey: ["task", id] });
          }}
        />
      )}
    </>
  );
}
