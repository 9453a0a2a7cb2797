/** Operator actions on tasks: retry, cancel and delete tasks, pause and resume queues. */
import { type Command, Option } from "commander";
import type { Stores } from "leasehold";
import type { Actors } from "leasehold/internal";
import {
  type AdminOutcome,
  checkTaskId,
  systemEnv,
  type TaskKey,
  type TaskQuery,
  type TaskState,
  type TaskStore,
} from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import {
  type ActionOptions,
  actOf,
  operatorOf,
  pauseWhat,
  resumeWhat,
  withOperatorAction,
} from "./operator-actions.js";
import { controlWhereOf, notBlank, tenantOf } from "./options.js";
import { print } from "./output.js";
import { queueName } from "./resource.js";
import { openWhere } from "./stores.js";

type Verb = keyof Actors["tasks"];

/** One transaction locks the rows of all its tasks until it ends. */
const MOST_AT_ONCE = 1_000;

interface VerbSpec {
  readonly done: string;
  /** The states of the tasks that filters match by default. */
  readonly from: readonly TaskState[];
  /** Also allowed as --state. */
  readonly alsoFrom?: readonly TaskState[];
  readonly what: string;
  /** For the help: what the result says of tasks that needed no change. */
  readonly already?: string;
}

const VERBS: Readonly<Record<Verb, VerbSpec>> = {
  retry: {
    done: "retried",
    from: ["dead", "cancelled", "expired"],
    alsoFrom: ["pending"],
    what: "restart dead, cancelled or expired tasks; make pending tasks that are scheduled later due now",
  },
  cancel: {
    done: "cancelled",
    from: ["pending", "running"],
    what: "cancel pending and running tasks; the store refuses their holders from then on",
    already: `Tasks that are cancelled already count as cancelled, so a repeated command succeeds too. In the JSON, "changed"
counts them.`,
  },
  delete: {
    done: "deleted",
    from: ["done", "dead", "cancelled", "expired"],
    alsoFrom: ["pending"],
    what: "delete tasks that are not running, with their attempts",
  },
};

interface Options extends ActionOptions {
  readonly state?: TaskState;
  readonly queue?: string;
  readonly kind?: string;
  readonly yes?: boolean;
}

/** Adds the subcommands of `tasks`. */
export function addTaskActions(tasks: Command): void {
  for (const [verb, { what, from, alsoFrom = [] }] of Object.entries(VERBS) as [Verb, VerbSpec][]) {
    withOperatorAction(tasks.command(verb))
      .description(what)
      .argument("[ids...]", "ids of the tasks (default: the tasks that match the filters)")
      .addOption(
        new Option("--state <state>", "match only tasks in this state").choices([
          ...from,
          ...alsoFrom,
        ]),
      )
      .option("--queue <name>", "match only tasks of this queue", notBlank)
      .option("--kind <kind>", "match only tasks of this kind", notBlank)
      .option("--yes", "change the matching tasks instead of counting them")
      .addHelpText("after", helpOf(verb))
      .action(async (ids: string[], options: Options, command: Command) =>
        act(verb, ids, options, command),
      );
  }
  withOperatorAction(tasks.command("pause-queue"))
    .description("stop handing out tasks of a queue; running tasks continue")
    .argument("<queue>", "name of the queue", queueName)
    .addHelpText(
      "after",
      '\nExamples:\n  leasehold tasks pause-queue mails --reason "provider is down"',
    )
    .action(async (name: string, options: ActionOptions, command: Command) =>
      pauseWhat({ kind: "queue", name }, options, command),
    );
  withOperatorAction(tasks.command("resume-queue"))
    .description("resume a paused queue")
    .argument("<queue>", "name of the queue", queueName)
    .addHelpText("after", '\nExamples:\n  leasehold tasks resume-queue mails --reason "it is back"')
    .action(async (name: string, options: ActionOptions, command: Command) =>
      resumeWhat({ kind: "queue", name }, options, command),
    );
}

async function act(
  verb: Verb,
  given: readonly string[],
  typed: Options,
  command: Command,
): Promise<void> {
  const isFiltered = [typed.state, typed.queue, typed.kind].some((one) => one !== undefined);
  if (given.length > 0 === isFiltered) {
    const both = isFiltered ? ", not both" : "";
    const ways = "pass ids, or at least one of --state, --queue and --kind";
    throw new UsageError(`which tasks? ${ways}${both}`);
  }
  for (const id of given) checkTaskId(id);
  const stores = await openWhere(controlWhereOf(command), systemEnv);
  const options = { ...typed, namespace: tenantOf(command, stores) };
  try {
    const { ids, more } = isFiltered
      ? await matching(stores.tasks, verb, options)
      : { ids: [...new Set(given)], more: false };
    const { done } = VERBS[verb];
    if (isFiltered && !options.yes) {
      const matched = { matched: ids.length, more };
      return await print(options.json, matched, () => countOf(ids.length, more));
    }
    const outcomes = ids.length === 0 ? [] : await perform(stores, verb, ids, options);
    const changed = outcomes.filter(({ status }) => status === "ok").length;
    const tasks = ids.map((id, index) => ({ id, ...resultOf(outcomes[index]) }));
    await print(options.json, { changed, matched: ids.length, more, tasks }, () => {
      const refused = tasks.filter(({ status }) => status !== "ok");
      const lines = refused.map(({ id, status, state }) => `${id} ${state ?? status}: not changed`);
      const rest = more ? " (more tasks match: run the command again)" : "";
      const counted = `${changed} of ${ids.length}`;
      const summary =
        options.state === "pending" && verb === "retry"
          ? `${counted} pending tasks are due now`
          : `${done} ${counted} tasks`;
      return [...lines, `${summary}${rest}`].join("\n");
    });
    if (changed < ids.length) throw new Exit(EXIT.failed);
  } finally {
    await stores.close();
  }
}

function countOf(count: number, more: boolean): string {
  if (count === 0) return "no tasks match";
  if (count === 1) return "1 task matches; it was not changed: add --yes to change it";
  const matches = `${more ? "more than " : ""}${count} tasks match`;
  return `${matches}; none was changed: add --yes to change them`;
}

/** The newest first. @internal */
export async function matching(
  tasks: Pick<TaskStore, "list">,
  verb: Verb,
  { state, queue, kind, namespace }: Pick<Options, "state" | "queue" | "kind" | "namespace">,
): Promise<{ ids: string[]; more: boolean }> {
  const query: TaskQuery = {
    namespace,
    limit: 200,
    states: state === undefined ? VERBS[verb].from : [state],
    // A task that is due already needs no retry: it would match again and again, and hide the rest.
    ...(verb === "retry" && { excludeDue: true }),
    ...(queue !== undefined && { queue }),
    ...(kind !== undefined && { kind }),
  };
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page = await tasks.list({ ...query, ...(cursor !== null && { cursor }) });
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  } while (cursor !== null && ids.length < MOST_AT_ONCE);
  const more = cursor !== null || ids.length > MOST_AT_ONCE;
  return { ids: ids.slice(0, MOST_AT_ONCE), more };
}

async function perform(
  stores: Stores,
  verb: Verb,
  ids: readonly string[],
  options: Options,
): Promise<readonly AdminOutcome[]> {
  const { namespace } = options;
  const keys: TaskKey[] = ids.map((id) => ({ namespace, id }));
  const target = ids.length === 1 && ids[0] ? ids[0] : `${ids.length} tasks`;
  const outcomes = await operatorOf(stores).perform(
    actOf(options, `task.${verb}`, target),
    async ({ tasks }) => {
      const value = await tasks[verb](keys);
      const came = Object.fromEntries(ids.map((id, index) => [id, value[index]?.status]));
      return { value, details: { tasks: came } };
    },
  );
  const failed = outcomes.find((outcome) => outcome.status === "failed");
  if (failed) throw failed.error;
  return outcomes;
}

function resultOf(outcome: AdminOutcome | undefined): { status: string; state?: TaskState } {
  const { status } = outcome ?? { status: "unknown" };
  return outcome && "state" in outcome ? { status, state: outcome.state } : { status };
}

function helpOf(verb: Verb): string {
  const { from, already } = VERBS[verb];
  return `
With filters instead of ids, the command counts the matching tasks (by default those that are
${from.join(", ")}) and changes none of them. With --yes, it changes the newest 1,000 of them, in one
action with one audit entry.
${already === undefined ? "" : `\n${already}\n`}
Exit codes: 0 done, or counted without --yes; 1 at least one of the tasks was not changed.

Examples:
  leasehold tasks ${verb} 01890a5d-ac96-774b-bcce-b302099a8057 --reason "handled"
  leasehold tasks ${verb} --queue mails --state ${from[0]} --reason "provider is back" --yes`;
}
