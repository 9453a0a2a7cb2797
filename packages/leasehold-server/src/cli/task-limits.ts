/** `leasehold tasks limits`: the limits of kinds and queues, and the operator actions on them. */
import { Argument, type Command } from "commander";
import type { LimitOptions, LimitScope, LimitView, Rate, TaskLimits } from "leasehold";
import { formatDuration, LIMIT_SCOPES, limitOf, MOST_RUNNING, systemEnv } from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { type ActionOptions, actOf, operatorOf, withOperatorAction } from "./operator-actions.js";
import { controlWhereOf, integer, rateOf, tenantOf, withStores } from "./options.js";
import { colors, print } from "./output.js";
import { openWhere } from "./stores.js";
import { plainTable } from "./table.js";
import { shown } from "./terminal.js";

/** Adds the subcommand of `tasks`. */
export function addTaskLimits(tasks: Command): void {
  const limits = tasks
    .command("limits")
    .description("list the limits of kinds and queues; set or remove them")
    .addHelpText("after", HELP);
  withStores(limits.command("list"))
    .description("list the limits, with what they keep back now")
    .option("--json", "print JSON")
    .action(async ({ json }: { readonly json?: boolean }, command: Command) => {
      const stores = await openWhere(controlWhereOf(command), systemEnv);
      try {
        const items = await limitsOf(stores.tasks).list(tenantOf(command, stores));
        await print(json, { items }, () => (items.length === 0 ? "no limits" : tableOf(items)));
      } finally {
        await stores.close();
      }
    });
  scoped(withOperatorAction(limits.command("set")))
    .description("set the limit of a kind or a queue, until a program declares another one")
    .option("--running <n>", "at most this many tasks run at once", integer(1, MOST_RUNNING))
    .option("--rate <n/duration>", "at most n tasks start within this time: 100/1m", rateOf)
    .addHelpText("after", SET_HELP)
    .action(async (scope: LimitScope, name: string, given: SetOptions, command: Command) => {
      const { running, rate } = given;
      const options: LimitOptions = {
        ...(running !== undefined && { running }),
        ...(rate !== undefined && { rate }),
      };
      if (running === undefined && rate === undefined) {
        throw new UsageError("name --running, --rate or both");
      }
      const limit = limitOf("limit", options);
      const change = await act(
        command,
        given,
        "set",
        { scope, name },
        async (actors, namespace) => {
          const outcome = await actors.declare({ namespace, scope, name, limit, by: given.actor });
          if (outcome.status === "failed") throw outcome.error;
          return outcome.status === "full" ? "full" : outcome.change;
        },
      );
      if (change === "full") {
        throw new UsageError("the tenant has as many limits as it may have: remove some");
      }
      await print(given.json, { scope, name, change }, () => {
        return `the ${scope} "${shown(name)}" ${SET[change]}`;
      });
    });
  scoped(withOperatorAction(limits.command("remove")))
    .description("remove the limit of a kind or a queue; a worker that declares it adds it again")
    .addHelpText("after", REMOVE_HELP)
    .action(async (scope: LimitScope, name: string, given: ActionOptions, command: Command) => {
      const wasDeclared = await act(
        command,
        given,
        "remove",
        { scope, name },
        (actors, namespace) => actors.remove({ namespace, scope, name }),
      );
      await print(given.json, { scope, name, wasDeclared }, () => {
        return `the ${scope} "${shown(name)}" ${wasDeclared ? "has no limit any more" : "had no limit"}`;
      });
      if (!wasDeclared) throw new Exit(EXIT.failed);
    });
}

interface SetOptions extends ActionOptions {
  readonly running?: number;
  readonly rate?: Rate;
}

const SET = {
  added: "is limited",
  changed: "is limited anew",
  none: "was limited so already",
} as const;

function scoped(command: Command): Command {
  return command
    .addArgument(new Argument("<scope>", "what is limited").choices(LIMIT_SCOPES))
    .argument("<name>", "name of the kind or the queue");
}

async function act<T>(
  command: Command,
  given: ActionOptions,
  verb: "set" | "remove",
  { scope, name }: { readonly scope: LimitScope; readonly name: string },
  work: (limits: Pick<TaskLimits, "declare" | "remove">, namespace: string) => Promise<T>,
): Promise<T> {
  const stores = await openWhere(controlWhereOf(command, { creates: verb === "set" }), systemEnv);
  try {
    limitsOf(stores.tasks);
    const namespace = tenantOf(command, stores);
    const action = actOf({ ...given, namespace }, `taskLimit.${verb}`, `${scope} ${name}`);
    return await operatorOf(stores).perform(action, async ({ taskLimits }) => {
      const value = await work(taskLimits, namespace);
      return { value, details: { outcome: value } };
    });
  } finally {
    await stores.close();
  }
}

/** @throws UsageError */
function limitsOf({ limits }: { readonly limits?: TaskLimits }): TaskLimits {
  if (limits) return limits;
  throw new UsageError("this store keeps no limits: name PostgreSQL, PGlite or a newer server");
}

function tableOf(items: readonly LimitView[]): string {
  const table = plainTable(["limit of", "running", "rate", "blocked", "declared"]);
  for (const limit of shown(items)) {
    const { scope, name, running, live, rate, started, usedUpUntil, declaredAt, declaredBy } =
      limit;
    const isFull = running !== null && live >= running;
    const blocked = [
      ...(isFull ? [colors.yellow("all run")] : []),
      ...(usedUpUntil === null ? [] : [colors.yellow(`until ${usedUpUntil}`)]),
    ];
    table.push([
      `${scope} ${name}`,
      running === null ? `${live}` : `${live} of ${running}`,
      rate === null ? "" : `${started} of ${rate.limit} within ${formatDuration(rate.perMs)}`,
      blocked.join(", "),
      `${declaredAt} by ${declaredBy}`,
    ]);
  }
  return table.toString();
}

const HELP = `
Workers declare the limits of defineTask() and of their options when they start. The newest declaration counts.

Examples:
  leasehold tasks limits list
  leasehold tasks limits set kind report --running 5 --reason "the warehouse is slow"
  leasehold tasks limits remove kind report --reason "it is fast again"`;

const SET_HELP = `
Examples:
  leasehold tasks limits set kind report --running 5 --reason "the warehouse is slow"
  leasehold tasks limits set queue mails --rate 100/1m --reason "the provider asks for it"`;

const REMOVE_HELP = `
Exit codes: 0 removed; 1 there was none.

Examples:
  leasehold tasks limits remove queue mails --reason "another provider"`;
