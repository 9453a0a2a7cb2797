import { fileURLToPath } from "node:url";
import { type Command, Option } from "commander";
import type { Env, Logger, Stores } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import { GeneratorState } from "../generator/state.js";
import { createApp } from "../http/index.js";
import { Child, type ChildSpec } from "./demo/children.js";
import { type DemoEvent, Lines } from "./demo/events.js";
import { Picture } from "./demo/picture.js";
import { startRoutine } from "./demo/routine.js";
import { Screen } from "./demo/screen.js";
import { render } from "./demo/view.js";
import { watchStores } from "./demo/watch.js";
import { checkDirectories } from "./directories.js";
import { EXIT } from "./exit-codes.js";
import {
  decimal,
  duration,
  EMBEDDED,
  integer,
  ownWhereOf,
  type Where,
  withDatabase,
} from "./options.js";
import { consoleOrSay, engineOf, listenOrSay, portOption } from "./serve.js";
import { shownUrl } from "./shown-url.js";
import { listenForShutdown, type Shutdown } from "./shutdown.js";
import { openWhere } from "./stores.js";
import { shown } from "./terminal.js";
import { VERSION } from "./version.js";

const HOST = "127.0.0.1";
/** examples/sleep.js, which the build puts here. */
const HANDLERS = fileURLToPath(new URL("../demo/sleep.js", import.meta.url));
const GENERATORS = 2;
const CONCURRENCY = 4;
const WORKER_GRACE = "2s";
/** Deadline for draining, for a database or file system that hangs. The demo then exits with 1. */
const HARD_END_MS = 9_500;
/** Children that have not drained by then are killed, and their leases expire. */
const DRAIN_MS = 7_000;
const SERVER_GRACE_MS = 1_000;

interface Options {
  readonly port: number;
  readonly plain?: boolean;
  readonly workers: number;
  readonly rate: number;
  readonly ttl: number;
  readonly crashRate: number;
  readonly latencyRate: number;
}

export function addDemo(command: Command): void {
  const share = decimal(0, 1);
  withDatabase(command, EMBEDDED)
    .addOption(portOption())
    .option("--plain", "print one line per event (default if stdout is not a terminal)")
    .option("--workers <n>", "number of worker processes", integer(1, 16), 3)
    .option("--rate <n>", "tasks per second", decimal(0.01, 1_000), 1)
    .addOption(
      new Option("--ttl <duration>", "TTL of the leases").argParser(duration).default(4_000, "4s"),
    )
    .option("--crash-rate <n>", "share of tasks that kill their worker", share, 0.05)
    .option(
      "--latency-rate <n>",
      "share of tasks that stall their worker until its lease expires",
      share,
      0.1,
    )
    .addHelpText("after", HELP)
    .action(async (options: Options, command: Command) => {
      const where = ownWhereOf(command);
      checkDirectories(where, where.notify);
      await demo(where, options);
    });
}

async function demo(where: Where, options: Options): Promise<void> {
  const shutdown = listenForShutdown(systemEnv.clock);
  const show = newShow(options.plain ?? !process.stdout.isTTY);
  const env: Env = { ...systemEnv, logger: loggerOf(show.take) };
  const children: Child[] = [];
  const endHard = () => {
    for (const child of children) child.kill();
    show.close();
    process.stderr.write(`leasehold: not drained within ${HARD_END_MS} ms; leases will expire\n`);
    process.exit(EXIT.failed);
  };
  const onShutdown = () => systemEnv.clock.timer(HARD_END_MS, endHard, { background: true });
  shutdown.signal.addEventListener("abort", onShutdown, { once: true });
  try {
    const stores = await openWhere(where, systemEnv, shutdown);
    try {
      const hosted = { ...options, store: shownUrl(where.store), engine: engineOf(where) };
      await host(stores, env, show.take, hosted, shutdown, children);
    } finally {
      await stores.close();
    }
    show.take({ type: "stopped" });
  } finally {
    show.close();
  }
}

/** Serves the stores and keeps the children running until shutdown is requested. */
async function host(
  stores: Stores,
  env: Env,
  take: (event: DemoEvent) => void,
  options: Options & { readonly store: string; readonly engine: string },
  shutdown: Shutdown,
  children: Child[],
): Promise<void> {
  if (shutdown.signal.aborted) return;
  const onTaskEvent = (event: Extract<DemoEvent, { type: "task" }>["event"]) =>
    take({ type: "task", event });
  const files = await consoleOrSay(env.logger);
  const app = createApp({
    ...stores,
    env,
    version: VERSION,
    engine: options.engine,
    console: files,
    onTaskEvent,
    auth: "ifAny",
  });
  const { port } = options;
  const server = await listenOrSay(app, { host: HOST, port, graceMs: SERVER_GRACE_MS });
  const page = files ? `${server.url}/` : null;
  take({ type: "ready", url: server.url, console: page, store: options.store });
  const wanted = { running: true, ratePerSecond: options.rate };
  await new GeneratorState(stores.backing).write("default", wanted);
  const watch = watchStores(stores, env, take);
  const routine = await startRoutine(stores, env);
  for (const spec of specsOf(server.url, options)) children.push(new Child(spec, env, take));
  await shutdown.requested();

  take({ type: "draining" });
  const drained = Promise.all([routine, ...children].map((each) => each.stop()));
  const overdue = env.clock.timer(DRAIN_MS, () => {
    for (const child of children) child.kill();
  });
  await drained;
  overdue.cancel();
  await watch.stop();
  await server.close();
}

function specsOf(url: string, options: Options): ChildSpec[] {
  const { ttl, crashRate, latencyRate } = options;
  // The server serves this program the default tenant, whatever LEASEHOLD_NAMESPACE says.
  const where = ["--store", url, "--namespace", "default"];
  const common = [...where, "--ttl", `${ttl}ms`, "--log-level", "error", "--holder"];
  const settings = { crashRate, latencyRate, reportTo: url };
  const worker = [
    "worker",
    "--handlers",
    HANDLERS,
    "--grace",
    WORKER_GRACE,
    "--concurrency",
    String(CONCURRENCY),
    ...Object.entries(settings).flatMap(([key, value]) => ["--option", `${key}=${value}`]),
  ];
  const make = (name: string, count: number, args: readonly string[]): ChildSpec[] =>
    Array.from({ length: count }, (_, index) => ({
      name: `${name}-${index + 1}`,
      args: (holder) => [...args, ...common, holder],
    }));
  return [
    ...make("generator", GENERATORS, ["generate", "run"]),
    ...make("worker", options.workers, worker),
  ];
}

interface Show {
  readonly take: (event: DemoEvent) => void;
  readonly close: () => void;
}

function newShow(plain: boolean): Show {
  const { clock } = systemEnv;
  const now = () => ({ ms: clock.monotonic(), wallMs: clock.wall() });
  if (plain) {
    const lines = new Lines();
    const take = (event: DemoEvent) => {
      for (const line of lines.of(event, now())) process.stdout.write(`${line}\n`);
    };
    return { take, close: () => {} };
  }
  const picture = new Picture(now());
  const screen = new Screen(process.stdout, clock, (size) => render(picture, now().ms, size));
  return {
    take: (event) => picture.take(shown(event), now()),
    close: () => {
      screen.close();
      const { completed, handedOver, refused, crashed } = picture.totals;
      process.stdout.write(
        `${completed} tasks done, ${handedOver} handed over, ${refused} late reports refused, ${crashed} crashes\n`,
      );
    },
  };
}

/** Reports the server's warnings and errors as events, and drops the rest of its log. */
function loggerOf(take: (event: DemoEvent) => void): Logger {
  const report = (level: "warn" | "error") => (fields: object, message: string) => {
    const { err } = fields as { err?: unknown };
    const cause = err === undefined ? "" : `: ${reasonOf(err)}`;
    take({ type: "log", level, message: `${message}${cause}` });
  };
  const ignore = () => {};
  return { debug: ignore, info: ignore, warn: report("warn"), error: report("error") };
}

const HELP = `
The demo serves on port 4040 of this machine (--port, PORT), with a console to open in a browser. A schedule adds
a task every ten seconds, and once a minute the demo counts the tasks, by leasehold.once(). It keeps
its state in the store, so a restart continues where the last run stopped. Ctrl-C lets the workers requeue
their tasks and ends within 10 s. A second Ctrl-C ends at once; no task is lost, because leases expire.

Examples:
  npm start
  PORT=8080 npm start
  LEASEHOLD_STORE=postgres://localhost/app npm start
  leasehold demo --plain --crash-rate 0 --latency-rate 0.5`;
