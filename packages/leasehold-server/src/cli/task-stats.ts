/** `leasehold tasks stats`: counts by queue and kind. */
import type { Command } from "commander";
import type { TaskStats } from "leasehold";
import { formatDuration } from "leasehold/internal";
import { controlWhereOf, notBlank, withStores } from "./options.js";
import { print } from "./output.js";
import { connectTo } from "./stores.js";
import { plainTable } from "./table.js";
import { shown } from "./terminal.js";

interface Options {
  readonly queue?: string;
  readonly kind?: string;
  readonly json?: boolean;
}

/** Adds the subcommand of `tasks`. */
export function addTaskStats(tasks: Command): void {
  withStores(tasks.command("stats"))
    .description("count tasks by queue, kind and state, and show how long the oldest has been due")
    .option("--queue <name>", "count only tasks of this queue", notBlank)
    .option("--kind <kind>", "count only tasks of this kind", notBlank)
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (options: Options, command: Command) => {
      const leasehold = await connectTo(controlWhereOf(command));
      try {
        const { queue, kind, json } = options;
        const stats = await leasehold.tasks.stats({
          ...(queue !== undefined && { queues: [queue] }),
          ...(kind !== undefined && { kinds: [kind] }),
        });
        await print(json, stats, () => {
          if (stats.items.length === 0) return "no tasks match";
          const more = stats.complete
            ? ""
            : "\nthere are more: only 20,000 of each state are counted";
          return `${tableOf(stats.items)}${more}`;
        });
      } finally {
        await leasehold.close();
      }
    });
}

function tableOf(items: readonly TaskStats[]): string {
  const table = plainTable([
    "queue",
    "kind",
    "due",
    "oldest due",
    "pending",
    "running",
    "done",
    "dead",
    "cancelled",
    "expired",
  ]);
  for (const item of shown(items)) {
    const { queue, kind, due, dueForMs, pending, running, done, dead } = item;
    const oldest = dueForMs === null ? "" : formatDuration(dueForMs);
    const ended = [done, dead, item.cancelled, item.expired];
    table.push([queue, kind, due, oldest, pending, running, ...ended]);
  }
  return table.toString();
}

const HELP = `
Pending tasks are those that are due and those that are scheduled for later. At most 20,000 tasks of each state are
counted: then "complete" is false in the JSON. "dueForMs" is how long the oldest task has been due, in milliseconds.

Examples:
  leasehold tasks stats
  leasehold tasks stats --queue mails --json | jq '.items[] | select(.dueForMs > 60000)'`;
