/** The schedules of tasks: what they are, when they fire next, and the operator actions on them. */
import { type Command, Option } from "commander";
import type { LeaseStores } from "leasehold";
import {
  formatDuration,
  loadDeclarations,
  type OperatorActors,
  type ScheduleStore,
  type ScheduleView,
  systemClock,
  systemEnv,
  systemRandom,
  taskIds,
} from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { jsonOf } from "./json-input.js";
import { type ActionOptions, actOf, operatorOf, withOperatorAction } from "./operator-actions.js";
import {
  controlWhereOf,
  duration,
  integer,
  notBlank,
  positiveDuration,
  tenantOf,
  withStores,
} from "./options.js";
import { colors, print } from "./output.js";
import { quoted } from "./shell.js";
import { openLeases } from "./stores.js";
import { plainTable } from "./table.js";
import { safeJson, shown } from "./terminal.js";

type Verb = "pause" | "resume" | "run" | "remove";
type Detailed = ScheduleView & { readonly nextFireTimes: readonly string[] };

export function addSchedules(schedules: Command): void {
  schedules.addHelpText("after", HELP);
  addList(schedules);
  addShow(schedules);
  addDeclare(schedules);
  addAction(schedules, "pause", "pause a schedule: it makes no tasks, whatever programs declare");
  addAction(schedules, "resume", "resume a schedule, without the fire times of its pause");
  addAction(schedules, "run", "enqueue a task of a schedule now, paused or not");
  addAction(schedules, "remove", "remove a schedule that no program declares any more");
}

interface ListOptions {
  readonly limit: number;
  readonly cursor?: string;
  readonly json?: boolean;
}

function addList(schedules: Command): void {
  withStores(schedules.command("list"))
    .description("list the schedules, by name")
    .option("--limit <n>", "maximum number of results", integer(1, 200), 20)
    .option("--cursor <text>", "continue after the page that printed this cursor")
    .option("--json", "print JSON")
    .action(async ({ json, ...query }: ListOptions, command: Command) => {
      await withSchedules(command, {}, async (store, namespace) => {
        const page = await store.list({ namespace, ...query });
        const items = await detailed(page.items);
        await print(json, { items, nextCursor: page.nextCursor }, () => {
          const { nextCursor } = page;
          const more = nextCursor === null ? "" : `\nmore: --cursor ${quoted(nextCursor)}`;
          return `${items.length === 0 ? "no schedules" : tableOf(items)}${more}`;
        });
      });
    });
}

function addShow(schedules: Command): void {
  withStores(schedules.command("show"))
    .description("show a schedule, with its next fire times and its last task")
    .argument("<name>", "name of the schedule")
    .option("--json", "print JSON")
    .action(async (name: string, { json }: Pick<ListOptions, "json">, command: Command) => {
      await withSchedules(command, {}, async (store, namespace) => {
        const view = await store.get({ namespace, name });
        if (!view) throw unknown(name);
        const [schedule] = await detailed([view]);
        await print(json, schedule, () => (schedule ? detailsOf(schedule) : ""));
      });
    });
}

interface DeclareOptions {
  readonly cron?: string;
  readonly every?: number;
  readonly timeZone?: string;
  readonly catchUp?: "none" | "last" | { readonly most: number };
  readonly overlap?: "allow" | "skip" | "queue";
  readonly jitter?: number;
  readonly queue?: string;
  readonly json?: boolean;
}

function addDeclare(schedules: Command): void {
  withStores(schedules.command("declare"))
    .description("declare a schedule, or change it; an operator's pause stays")
    .argument("<name>", "name of the schedule")
    .argument("<kind>", "kind of its tasks")
    .argument("[data]", "data of its tasks, as JSON", "null")
    .option("--cron <expression>", "five fields, or six with the second first", notBlank)
    .option("--every <duration>", "an interval, instead of --cron", positiveDuration)
    .option("--time-zone <name>", "IANA time zone of --cron (default: UTC)", notBlank)
    .option("--catch-up <n>", 'fire times to make up for: "none", "last" or a number', catchUp)
    .addOption(
      new Option("--overlap <how>", "while the last task is unfinished").choices([
        "allow",
        "skip",
        "queue",
      ]),
    )
    .option("--jitter <duration>", "spread tasks over this time after a fire time", duration)
    .option("--queue <name>", "queue of its tasks", notBlank)
    .option("--json", "print JSON")
    .addHelpText("after", DECLARE_HELP)
    .action(
      async (name: string, kind: string, data: string, given: DeclareOptions, command: Command) => {
        const { json, every: everyMs, jitter: jitterMs, ...rest } = given;
        const { checkScheduleName, declarationOf } = await loadDeclarations();
        checkScheduleName(name);
        const times = {
          ...(everyMs !== undefined && { everyMs }),
          ...(jitterMs !== undefined && { jitterMs }),
        };
        const { cron, timeZone, catchUp: most, overlap, queue } = rest;
        const declaration = await declarationOf({
          ...times,
          ...(cron !== undefined && { cron }),
          ...(timeZone !== undefined && { timeZone }),
          ...(most !== undefined && { catchUp: most }),
          ...(overlap !== undefined && { overlap }),
          ...(queue !== undefined && { queue }),
          kind,
          data: jsonOf(data, "the data"),
        });
        await withSchedules(command, { creates: true }, async (store, namespace) => {
          const outcome = await store.declare({ namespace, name, declaration });
          if (outcome.status === "failed") throw outcome.error;
          if (outcome.status === "full") {
            throw new UsageError("the tenant has as many schedules as it may have: remove some");
          }
          const { change } = outcome;
          await print(json, { name, change }, () => `"${shown(name)}" ${DECLARED[change]}`);
        });
      },
    );
}

const DECLARED = {
  added: "is declared",
  changed: "is changed",
  none: "is as it was",
} as const;

function catchUp(text: string): DeclareOptions["catchUp"] {
  if (text === "none" || text === "last") return text;
  return { most: integer(1, 1_000)(text) };
}

function addAction(schedules: Command, verb: Verb, description: string): void {
  withOperatorAction(schedules.command(verb))
    .description(description)
    .argument("<name>", "name of the schedule")
    .addHelpText("after", ACTION_HELP[verb])
    .action(async (name: string, options: ActionOptions, command: Command) => {
      const stores = await openLeases(controlWhereOf(command));
      try {
        schedulesOf(stores);
        (await loadDeclarations()).checkScheduleName(name);
        const namespace = tenantOf(command, stores);
        const act = actOf({ ...options, namespace }, `schedule.${verb}`, name);
        const key = { namespace, name };
        const done = await operatorOf(stores).perform(act, async (actors) => {
          const value = await PERFORM[verb](actors.schedules, key, options);
          return { value, details: value };
        });
        if (done.outcome === "unknown") throw unknown(name);
        await print(options.json, { name, ...done }, () => sentenceOf(verb, name, done));
        if (done.outcome === "unchanged") throw new Exit(EXIT.failed);
      } finally {
        await stores.close();
      }
    });
}

interface Done {
  readonly outcome: "changed" | "unchanged" | "unknown";
  /** Of a run: the task. */
  readonly taskId?: string;
}
type Key = { readonly namespace: string; readonly name: string };

const PERFORM: Readonly<
  Record<
    Verb,
    (actors: OperatorActors["schedules"], key: Key, options: ActionOptions) => Promise<Done>
  >
> = {
  pause: async (actors, key, { actor, reason }) => ({
    outcome: await actors.pause({ ...key, by: actor, reason }),
  }),
  resume: async (actors, key) => ({ outcome: await actors.resume(key) }),
  remove: async (actors, key) => ({ outcome: (await actors.remove(key)) ? "changed" : "unknown" }),
  async run(actors, key) {
    const taskId = taskIds(systemClock, systemRandom)();
    const outcome = await actors.runNow({ ...key, taskId });
    if (outcome.status === "failed") throw outcome.error;
    if (outcome.status === "unknown") return { outcome: "unknown" };
    return { outcome: "changed", taskId: outcome.id };
  },
};

function sentenceOf(verb: Verb, name: string, { outcome, taskId }: Done): string {
  if (taskId !== undefined) return `enqueued ${taskId}`;
  const isChanged = outcome === "changed";
  const said = {
    pause: isChanged ? "is paused" : "was paused already: nothing was changed",
    resume: isChanged ? "is resumed" : "was not paused: nothing was changed",
    remove: "is removed; its tasks stay",
    run: "",
  }[verb];
  return `"${shown(name)}" ${said}`;
}

async function withSchedules(
  command: Command,
  using: { readonly creates?: boolean },
  work: (store: ScheduleStore, namespace: string) => Promise<void>,
): Promise<void> {
  const stores = await openLeases(controlWhereOf(command, using));
  try {
    await work(schedulesOf(stores), tenantOf(command, stores));
  } finally {
    await stores.close();
  }
}

/** @throws UsageError */
function schedulesOf({ schedules }: LeaseStores): ScheduleStore {
  if (schedules) return schedules;
  throw new UsageError("this store keeps no schedules: name PostgreSQL, PGlite or a server");
}

function unknown(name: string): UsageError {
  return new UsageError(`no schedule is named "${name}"`);
}

async function detailed(views: readonly ScheduleView[]): Promise<Detailed[]> {
  const { nextFireTimes } = await loadDeclarations();
  const nowMs = systemEnv.clock.wall();
  return Promise.all(
    views.map(async (view) => ({ ...view, nextFireTimes: await nextFireTimes(view, nowMs) })),
  );
}

function tableOf(items: readonly Detailed[]): string {
  const table = plainTable(["name", "fires", "kind", "next", "last task", "skipped"]);
  for (const item of items) {
    const [next = ""] = item.nextFireTimes;
    const last = item.lastTask === null ? "" : stateOf(item.lastTask.state);
    const { name, task, skipped } = item;
    const when = item.paused ? colors.yellow("paused") : next;
    table.push([shown(name), shown(firesOf(item)), shown(task.kind), when, last, skipped]);
  }
  return table.toString();
}

function firesOf({ cron, everyMs, timeZone }: ScheduleView): string {
  return everyMs === null ? `${cron} ${timeZone}` : `every ${formatDuration(everyMs)}`;
}

function stateOf(state: string | null): string {
  if (state === null) return "deleted";
  if (state === "dead") return colors.red(state);
  return state === "done" ? colors.green(state) : state;
}

function detailsOf(schedule: Detailed): string {
  const { task, lastTask, nextFireTimes, paused, ...rest } = schedule;
  const { name, catchUp: most, overlap, jitterMs, waiting, fired, skipped } = shown(rest);
  const caught = typeof most === "string" ? most : `the last ${most.most}`;
  const lines = [
    `${name}  ${shown(firesOf(schedule))}`,
    `task ${shown(task.kind)} in ${shown(task.queue)}: ${safeJson(task.data)}`,
    `catch up ${caught}, overlap ${overlap}${jitterMs > 0 ? `, jitter ${formatDuration(jitterMs)}` : ""}`,
    `declared ${rest.declaredAt}, made ${fired}, skipped ${skipped}${waiting > 0 ? `, waiting ${waiting}` : ""}`,
  ];
  if (paused) {
    const why = paused.reason === null ? "" : `: ${shown(paused.reason)}`;
    lines.push(colors.yellow(`paused by ${shown(paused.by)} at ${paused.at}${why}`));
  }
  if (lastTask) {
    const error = lastTask.error === null ? "" : `: ${shown(lastTask.error)}`;
    lines.push(`last task ${shown(lastTask.id)} ${stateOf(lastTask.state)}${error}`);
  }
  if (nextFireTimes.length > 0) lines.push(`next ${nextFireTimes.join("\n     ")}`);
  return lines.join("\n");
}

const HELP = `
Programs declare schedules with tasks.schedule() or PUT /v1/schedules/NAME. At each fire time, one of the servers and of
the processes with a worker enqueues a task.

Examples:
  leasehold schedules list
  leasehold schedules pause nightly --reason "the warehouse moves"
  leasehold schedules run nightly --reason "last night failed"`;

const DECLARE_HELP = `
A text is JSON in double quotes: '"hello"'.

Examples:
  leasehold schedules declare nightly report '{"of":"sales"}' --cron "0 2 * * *" --time-zone Europe/Zurich
  leasehold schedules declare beat ping --every 30s --catch-up none`;

const ACTION_HELP: Readonly<Record<Verb, string>> = {
  pause: `
Exit codes: 0 paused; 1 it was paused already; 64 there is no such schedule.

Examples:
  leasehold schedules pause nightly --reason "the warehouse moves"`,
  resume: `
Exit codes: 0 resumed; 1 it was not paused; 64 there is no such schedule.

Examples:
  leasehold schedules resume nightly --reason "it has moved"`,
  run: `
The task does not count as a fire time. A schedule that skips makes no other task until it has ended.

Examples:
  leasehold schedules run nightly --reason "last night failed"`,
  remove: `
A program that declares it adds it again.

Examples:
  leasehold schedules remove nightly --reason "replaced by hourly"`,
};
