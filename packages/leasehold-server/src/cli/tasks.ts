import { type Command, Option } from "commander";
import type { Concurrency, Tasks } from "leasehold";
import {
  dueKindsOf,
  FIRST_VERSION,
  formatDuration,
  systemEnv,
  TASK_STATES,
  type TaskDetails,
  type TaskState,
  type TaskView,
  type UnhandledKind,
  unhandledKinds,
} from "leasehold/internal";
import { UsageError } from "./failures.js";
import { controlWhereOf, integer, notBlank, withStores } from "./options.js";
import { colors, print } from "./output.js";
import { quoted } from "./shell.js";
import { connectTo } from "./stores.js";
import { plainTable } from "./table.js";
import { addTaskActions } from "./task-actions.js";
import { addTaskLimits } from "./task-limits.js";
import { addTaskStats } from "./task-stats.js";
import { safeJson, say, shown } from "./terminal.js";

interface Options {
  readonly state?: TaskState;
  readonly queue?: string;
  readonly kind?: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly json?: boolean;
}

export function addTasks(tasks: Command): void {
  withStores(tasks)
    .enablePositionalOptions()
    .usage("[options] [id] | [command]")
    .argument("[id]", "id of a task to show")
    .addOption(new Option("--state <state>", "list only tasks in this state").choices(TASK_STATES))
    .option("--queue <name>", "list only tasks of this queue", notBlank)
    .option("--kind <kind>", "list only tasks of this kind", notBlank)
    .option("--limit <n>", "maximum number of results", integer(1, 200), 20)
    .option("--cursor <text>", "continue after the page that printed this cursor")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (id: string | undefined, options: Options, command: Command) => {
      if (id !== undefined) refuseOptionsOfLists(command);
      const leasehold = await connectTo(controlWhereOf(command));
      try {
        if (id === undefined) await list(leasehold.tasks, options);
        else await show(leasehold.tasks, id, options.json);
      } finally {
        await leasehold.close();
      }
    });
  addTaskStats(tasks);
  addTaskLimits(tasks);
  addTaskActions(tasks);
}

function refuseOptionsOfLists(command: Command): void {
  for (const name of ["state", "queue", "kind", "limit", "cursor"]) {
    if (command.getOptionValueSource(name) !== "cli") continue;
    throw new UsageError(`--${name} has no meaning with the id of a task: leave out one of them`);
  }
}

async function list(tasks: Tasks, options: Options): Promise<void> {
  const { state, queue, kind, limit, cursor, json } = options;
  const query = {
    limit,
    ...(queue !== undefined && { queue }),
    ...(kind !== undefined && { kind }),
    ...(cursor !== undefined && { cursor }),
  };
  const [counts, { items, nextCursor }, unhandled] = await Promise.all([
    tasks.counts(),
    tasks.list({ ...query, ...(state && { states: [state] }) }),
    // A command sees no claims and no pauses: only which tasks are taken.
    unhandledKinds(
      { list: (part) => tasks.list(part), dueKinds: dueKindsOf(tasks) },
      {
        nowMs: systemEnv.clock.wall(),
        claimers: [],
        pausedQueues: [],
      },
    ),
  ]);
  await print(json, { counts, items, nextCursor, unhandled }, () => {
    const totals = `all tasks: ${TASK_STATES.map((name) => `${name} ${counts[name]}`).join("  ")}`;
    const more = nextCursor === null ? "" : `\nmore: --cursor ${quoted(nextCursor)}`;
    return `${totals}\n${items.length === 0 ? "no tasks match" : tableOf(shown(items))}${more}`;
  });
  for (const found of unhandled) say(`warning: ${warningOf(shown(found))}`);
}

function warningOf({ kind, version, queue, tasks, complete, dueAt }: UnhandledKind): string {
  const counted = tasks === 1 ? "1 task is" : `${tasks} tasks are`;
  const of = version === FIRST_VERSION ? "" : `version ${version} of `;
  const waiting = complete ? counted : `at least ${counted}`;
  return (
    `no live worker handles ${of}the kind "${kind}" of the queue "${queue}": ${waiting} due, the oldest since ${dueAt}. ` +
    `Start a worker with a handler of this ${of ? "version" : "kind"}; a paused queue is the other cause`
  );
}

function tableOf(items: readonly TaskView[]): string {
  const table = plainTable(["id", "kind", "state", "attempts", "holder", "token", "left"]);
  for (const task of items) {
    const { id, kind, attempt, holder, token, remainingMs } = task;
    const left = remainingMs === null ? "" : formatDuration(remainingMs);
    const state = COLORS[task.state](task.state);
    table.push([id, kind, state, attempt, holder ?? "", token ?? "", left]);
  }
  return table.toString();
}

async function show(tasks: Tasks, id: string, json: boolean | undefined): Promise<void> {
  const task = await tasks.get(id);
  if (!task) throw new UsageError(`there is no task ${id}`);
  await print(json, task, () => detailsOf(task));
}

export function detailsOf(task: TaskDetails): string {
  const { id, kind, queue, priority, state, dedupeKey, failures, crashes } = shown(task);
  const { concurrency } = shown(task);
  const lines = [
    `${id}  ${COLORS[state](state)}`,
    `kind ${kind}${task.version > 1 ? ` version ${task.version}` : ""}, queue ${queue}, priority ${priority}, failures ${failures} of ${task.maxAttempts}, crashes ${crashes} of ${task.crashLimit}`,
    `due ${task.scheduledAt}${dedupeKey === null ? "" : `, dedupe key ${dedupeKey}`}`,
    ...timesOf(task),
    ...(concurrency
      ? [
          `concurrency key ${concurrency.key}, ${concurrency.perKey} at a time, ${concurrency.order}${rateText(concurrency)}`,
        ]
      : []),
    `data   ${safeJson(task.data)}`,
    `output ${safeJson(task.output)}`,
  ];
  if (task.checkpoint !== null) lines.push(`checkpoint ${safeJson(task.checkpoint)}`);
  // The lines of a stack, each below "error": none can be taken for a line of this command.
  if (task.error !== null) {
    const [first = "", ...others] = task.error.split("\n").map((line) => shown(line));
    lines.push(`error  ${first}`, ...others.map((line) => `       ${line}`));
  }
  if (task.attempts.length > 0) {
    const table = plainTable(["attempt", "holder", "token", "started", "ended", "result"]);
    for (const { attempt, holder, token, startedAt, endedAt, result } of shown(task.attempts)) {
      table.push([attempt, holder, token, startedAt, endedAt ?? "", result ?? "running"]);
    }
    lines.push(table.toString());
  }
  return lines.join("\n");
}

/** A line of its limits of time, if it has any. */
function timesOf({ maxRunMs, startBy, postponed }: TaskDetails): string[] {
  const parts = [
    ...(maxRunMs === null ? [] : [`runs for ${formatDuration(maxRunMs)} at most`]),
    ...(startBy === null ? [] : [`must begin by ${startBy}`]),
    ...(postponed === 0 ? [] : [`put off ${postponed} ${postponed === 1 ? "time" : "times"}`]),
  ];
  return parts.length > 0 ? [parts.join(", ")] : [];
}

function rateText({ rate }: Concurrency): string {
  return rate ? `, ${rate.limit} started within ${formatDuration(rate.perMs)}` : "";
}

const COLORS: Readonly<Record<TaskState, (text: string) => string>> = {
  pending: colors.yellow,
  running: colors.cyan,
  done: colors.green,
  dead: colors.red,
  cancelled: colors.dim,
  expired: colors.magenta,
};

const HELP = `
The list ends with a warning on stderr for each kind, or later version of a kind, that no live worker handles: its tasks
are due for 10 s and more, and no worker has taken one within 2 minutes.

With --json, a list has data, output and progress whole up to 1 KiB, and the beginning of larger ones: dataPreview,
outputPreview, progressPreview. "leasehold tasks ID --json" prints all of them whole.

Examples:
  leasehold tasks --state dead --limit 100
  leasehold tasks --json --state done | jq '.items[].output'
  leasehold tasks retry --queue mails --state dead --reason "provider is back" --yes`;
