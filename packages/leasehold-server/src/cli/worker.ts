import { once } from "node:events";
import { type Command, Option } from "commander";
import type { Logger } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { exportsTo } from "./export-notices.js";
import { Exit } from "./failures.js";
import { loadHandlers } from "./handlers.js";
import { logLevelOption, newLogger, noticesTo } from "./log.js";
import {
  controlWhereOf,
  duration,
  integer,
  keyValue,
  notBlank,
  TTL_DEFAULT,
  withStores,
} from "./options.js";
import { Outage } from "./outage.js";
import { shownUrl } from "./shown-url.js";
import { listenForShutdown } from "./shutdown.js";
import { connectTo } from "./stores.js";
import { startTelemetry, type TelemetryOptions, withTelemetry } from "./telemetry.js";

interface Options extends TelemetryOptions {
  readonly handlers: string;
  readonly option?: Record<string, unknown>;
  readonly concurrency: number;
  readonly queue?: string[];
  readonly ttl?: number;
  readonly grace: number;
  readonly holder?: string;
  readonly once?: boolean;
  readonly logLevel: string;
}

export function addWorker(command: Command): void {
  withTelemetry(withStores(command))
    .requiredOption(
      "--handlers <file>",
      "module whose default export is an array of handlers, or a function (options, { telemetry }) => array",
    )
    .addOption(
      new Option(
        "--option <key=value>",
        "option for that function, with a JSON or text value; repeatable",
      ).argParser(keyValue),
    )
    .option("--concurrency <n>", "maximum number of tasks at once", integer(1, 1_000), 8)
    .option("--queue <name...>", "queues to take tasks from (default: default)")
    .option("--ttl <duration>", `TTL of the lease of each task ${TTL_DEFAULT}`, duration)
    .addOption(
      new Option(
        "--grace <duration>",
        "how long running tasks may continue after SIGINT or SIGTERM",
      )
        .argParser(duration)
        .default(5_000, "5s"),
    )
    .option("--once", "work until the queues have no due and no running task, then end")
    .option("--holder <name>", "name of this holder (default: HOST-PID-RANDOM)", notBlank)
    .addOption(logLevelOption())
    .addHelpText("after", HELP)
    .action(async (options: Options, command: Command) => work(command, options));
}

async function work(command: Command, options: Options): Promise<void> {
  const { clock } = systemEnv;
  const logger = newLogger(options.logLevel);
  const notify = noticesTo(logger);
  const where = controlWhereOf(command, { creates: true, notify });
  const shutdown = listenForShutdown(clock);
  const exporting = await startTelemetry(options, exportsTo(logger));
  const { telemetry, metricsUrl } = exporting;
  const context = telemetry === undefined ? {} : { telemetry };
  const loading = loadHandlers(options.handlers, options.option ?? {}, context);
  const handlers = await Promise.race([loading, shutdown.requested()]);
  // Requested before there is anything to drain.
  if (!handlers) throw new Exit(0);
  const outage = new Outage(notify);
  const client = { logger: watched(logger, outage), env: context, holder: options.holder };
  const leasehold = await connectTo(where, client, { isPatient: true, signal: shutdown.signal });
  outage.watch(leasehold, "worker");
  let dead = 0;
  let isStuck = false;
  try {
    const worker = leasehold.tasks.work(handlers, {
      concurrency: options.concurrency,
      ...(options.ttl !== undefined && { ttlMs: options.ttl }),
      graceMs: options.grace,
      ...(options.queue && { queues: options.queue }),
    });
    const kinds = handlers.map((handler) => handler.kind);
    logger.info(
      {
        holder: leasehold.holder,
        kinds,
        store: shownUrl(where.store),
        ...(metricsUrl !== undefined && { metrics: metricsUrl }),
      },
      "working",
    );
    const hopeless = once(outage.hopeless, "abort");
    const drained = options.once ? [worker.drain()] : [];
    const stuck = worker.done.catch((error: unknown) => ({ error }));
    const ended = await Promise.race([shutdown.requested(), hopeless, stuck, ...drained]);
    if (ended && "dead" in ended) ({ dead } = ended);
    isStuck = Boolean(ended && "error" in ended);
    logger.info({ holder: leasehold.holder, ...(options.once && { dead }) }, "draining");
  } finally {
    outage.end();
    await leasehold.close();
    await exporting.close();
  }
  outage.hopeless.throwIfAborted();
  // Timers and connections that handlers leave open must not keep the process alive.
  if (isStuck) throw new Exit(EXIT.workerStuck);
  throw new Exit(dead > 0 ? EXIT.failed : 0);
}

/** The logger for the client: in an outage that is reported, it does not repeat each claim that fails. */
function watched(logger: Logger, outage: Outage): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info(fields, message) {
      const { isReported } = outage;
      outage.logger.info(fields, message);
      // The outage has logged the same.
      if (!(isReported && message === "the store answers again")) logger.info(fields, message);
    },
    warn(fields, message) {
      // Other errors may be those of a handler.
      const isClaim = message === "could not claim tasks";
      if (isClaim) outage.logger.warn(fields, message);
      logger[isClaim && outage.isReported ? "debug" : "warn"](fields, message);
    },
    error: (fields, message) => logger.error(fields, message),
  };
}

const HELP = `
At SIGINT or SIGTERM the worker takes no more tasks, lets running tasks finish within --grace, requeues the
rest and exits with 0. A second signal ends it at once: its tasks are requeued when their leases expire. While the
store does not answer or a server refuses by a limit, it retries, and logs since when, and when that is over. If the
server refuses its API key, it drains and exits with 78. If the top-level await of the file of handlers, or the function
that it exports, has not settled after 2m, the worker exits with 64.

With --once it ends by itself: when no task of its kinds is due in its queues, and none runs, here or elsewhere. Tasks
and retries that are scheduled for later do not count. It exits with 0, or with 1 if a task died in it.

Examples:
  leasehold worker --store http://127.0.0.1:4040 --handlers ./handlers.js
  leasehold worker --store postgres://localhost/app --handlers examples/sleep.js --option crashRate=0.05
  leasehold worker --once --store postgres://localhost/app --handlers ./handlers.js --queue nightly`;
