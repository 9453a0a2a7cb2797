import { createInterface } from "node:readline";
import { type Command, Option } from "commander";
import type { EnqueueTaskOptions, KeyOptions, Rate, TaskHandle } from "leasehold";
import { defineTask } from "leasehold";
import {
  DEFAULTS,
  type Json,
  LARGEST_VERSION,
  MOST_PER_KEY,
  ORDERS,
  withoutUndefined,
} from "leasehold/internal";
import { UsageError } from "./failures.js";
import { jsonOf, jsonTextOf } from "./json-input.js";
import {
  controlWhereOf,
  duration,
  integer,
  moment,
  notBlank,
  rateOf,
  type Where,
  withStores,
} from "./options.js";
import { print, saying } from "./output.js";
import { connectTo } from "./stores.js";
import { say } from "./terminal.js";

/** Lines of stdin that are enqueued in one statement. */
const BATCH = 100;

interface Options {
  readonly queue?: string;
  readonly priority?: number;
  readonly dedupeKey?: string;
  readonly scheduledAt?: Date;
  readonly keepDone?: number;
  readonly keepDead?: number;
  readonly maxRun?: number;
  readonly startBy?: number;
  readonly kindVersion?: number;
  readonly concurrencyKey?: string;
  readonly perKey?: number;
  readonly order?: "fifo" | "any";
  readonly rate?: Rate;
  readonly json?: boolean;
}

export function addEnqueue(command: Command): void {
  withStores(command)
    .argument("<kind>", "kind of task, which selects the handler")
    .argument("[data]", "JSON, or - to read one task per line from stdin", "null")
    .option("--queue <name>", `queue of the tasks (default: ${DEFAULTS.queue})`)
    .option("--priority <n>", "smaller numbers run first (default: 0)", integer(-32_768, 32_767))
    .option("--dedupe-key <key>", "allow only one unfinished task per kind and key")
    .option(
      "--scheduled-at <time>",
      "do not run before this time, in ISO 8601 with a time zone: 2030-01-31T12:00:00Z, or +01:00",
      moment,
    )
    .option("--keep-done <duration>", "keep the task for that time once it is done: 7d", duration)
    .option(
      "--keep-dead <duration>",
      "the same, if it ends dead, cancelled or expired: 30d",
      duration,
    )
    .option("--max-run <duration>", "let an attempt run for that time at most: 5m", duration)
    .option(
      "--start-by <duration>",
      "let the task expire if it has not begun that long after it is due",
      duration,
    )
    .option(
      "--kind-version <n>",
      "version of the kind that the data is of (default: 1)",
      integer(1, LARGEST_VERSION),
    )
    .option("--concurrency-key <key>", "run at most --per-key tasks of this key at once", notBlank)
    .option("--per-key <n>", "tasks of the key at once (default: 1)", integer(1, MOST_PER_KEY))
    .addOption(new Option("--order <how>", "order of the tasks of the key").choices(ORDERS))
    .option(
      "--rate <n/duration>",
      "at most n tasks of the key start within this time: 5/1s",
      rateOf,
    )
    .option("--json", "print a line of JSON per task: id and status (enqueued or duplicate)")
    .addHelpText("after", HELP)
    .action(async (kind: string, data: string, options: Options, command: Command) =>
      enqueue(controlWhereOf(command, { creates: true }), kind, data, options),
    );
}

async function enqueue(where: Where, kind: string, data: string, options: Options): Promise<void> {
  const { json, queue, priority, dedupeKey, scheduledAt, keepDone, keepDead } = options;
  const { maxRun: maxRunMs, startBy: startByMs } = options;
  const retain = withoutUndefined({ doneMs: keepDone, deadMs: keepDead });
  const given = {
    ...withoutUndefined({ queue, priority, dedupeKey, scheduledAt, maxRunMs, startByMs }),
    retain,
  } as EnqueueTaskOptions;
  if (kind === "-") throw new UsageError("kind must be a name, not -: leasehold enqueue KIND -");
  const definition = definitionOf(kind, options);
  const many = data === "-";
  if (many && dedupeKey !== undefined) {
    throw new UsageError(
      "--dedupe-key is for one task: with - all lines would be duplicates of the first",
    );
  }
  const only = many ? null : [jsonOf(data, "the data")];
  const leasehold = await connectTo(where);
  let added = 0;
  try {
    for await (const batch of only ? [only] : batches()) {
      const rows = batch.map((row) => ({ ...given, data: row }));
      const outcomes = await leasehold.tasks.enqueueAll(definition, rows);
      added += rows.length;
      const done = () => `tasks added: ${added}`;
      for (const outcome of outcomes) await report(outcome, json).catch(saying(done));
    }
    if (added === 0) say("leasehold: no lines, no tasks: stdin was empty");
  } finally {
    await leasehold.close();
  }
}

/** All tasks of the command have the same key. */
function definitionOf(kind: string, { kindVersion, ...options }: Options) {
  const version = kindVersion === undefined ? {} : { version: kindVersion };
  const { concurrencyKey, perKey, order, rate } = options;
  if (concurrencyKey !== undefined) {
    const limits = withoutUndefined({ perKey, order, rate }) as KeyOptions<Json>;
    return defineTask(kind, { ...version, ...limits, concurrencyKey: () => concurrencyKey });
  }
  if ([perKey, order, rate].every((option) => option === undefined)) {
    return defineTask(kind, version);
  }
  throw new UsageError("--per-key, --order and --rate need --concurrency-key");
}

async function report(outcome: TaskHandle, json: boolean | undefined): Promise<void> {
  const { id, status } = outcome;
  await print(json, { id, status }, () => id);
  if (status !== "duplicate" || json) return;
  say(`leasehold: nothing was added: ${id} is unfinished and has this --dedupe-key`);
}

async function* batches(): AsyncGenerator<Json[]> {
  let batch: Json[] = [];
  let line = 0;
  // One character per byte: the decoder of readline would replace invalid bytes.
  const input = process.stdin.setEncoding("latin1");
  for await (const bytes of createInterface({ input, crlfDelay: Infinity })) {
    line += 1;
    const text = jsonTextOf(Buffer.from(bytes, "latin1"), `line ${line}`);
    if (text.trim() === "") continue;
    batch.push(jsonOf(text, `line ${line}`, line));
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

const HELP = `
With -, each line that is not blank is one task. A line that is not JSON ends the command. The ids printed
before it are those of the tasks that were added. A text is JSON in double quotes: '"hello"'. Integers beyond
9007199254740991, numbers of more than 17 significant digits and those beyond a double's range are refused, because
they would be rounded: send them as strings.

Examples:
  leasehold enqueue sleep '{"sleep_duration_seconds": 5}'
  leasehold enqueue pay '{"account": "ada"}' --concurrency-key ada
  leasehold enqueue mail.send - --queue mail < mails.ndjson`;
