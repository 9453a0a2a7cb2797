/** The program of the renewal thread: a store, and the renewals of the grants that the main thread names. See index.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { type Env, invariant, type Logger, reasonOf, systemRandom } from "../env/index.js";
import { processClock } from "../env/process-clock.js";
import { ENGINES, openBy } from "../stores/open.js";
import type { FromThread, ThreadData, ToThread } from "./messages.js";
import { Renewals } from "./renewals.js";

invariant(parentPort, "this module runs in a worker thread");
const port = parentPort;

async function run(data: ThreadData): Promise<void> {
  const { url, connectTimeoutMs, maxBlockedMs } = data;
  const opened = await openBy(ENGINES, url, env, connectTimeoutMs);
  const lastRun = new BigInt64Array(data.lastRun);
  const lastRunMs = () => Number(Atomics.load(lastRun, 0));
  const renewals = new Renewals({ store: opened.leases, env, maxBlockedMs, lastRunMs, post });
  const close = async () => {
    renewals.close();
    await opened.close().catch((err: unknown) => {
      env.logger.warn({ err }, "the renewal thread could not close its store");
    });
    port.close();
  };
  port.on("message", (message: ToThread) => {
    if (message.type === "start") renewals.start(message);
    else if (message.type === "stop") renewals.stop(message.id);
    else void close();
  });
  post({ type: "ready" });
}

function post(message: FromThread): void {
  port.postMessage(message);
}

function log(level: keyof Logger, fields: object, message: string): void {
  // As JSON, because not all that errors carry can be sent to another thread. See errorFrom in index.ts.
  const text = JSON.stringify(fields, (_, value: unknown) =>
    value instanceof Error ? { name: value.name, message: value.message } : value,
  );
  post({ type: "log", level, fields: JSON.parse(text) as object, message });
}

const env: Env = {
  clock: processClock,
  random: systemRandom,
  logger: {
    debug: (...entry) => log("debug", ...entry),
    info: (...entry) => log("info", ...entry),
    warn: (...entry) => log("warn", ...entry),
    error: (...entry) => log("error", ...entry),
  },
};

run(workerData as ThreadData).catch((error: unknown) => {
  post({ type: "failed", message: reasonOf(error) });
});
