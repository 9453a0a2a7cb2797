/**
 * The main thread's side of the renewal thread: it hands over grants, shows that it still runs, and reads what came of
 * the renewals. See docs/decisions/0019-renewal-thread.md.
 *
 *   main thread     start, stop ──▶ thread.ts, with a connection of its own ──▶ store
 *        ▲               lastRun ──▶   │  renews no more once lastRun is older than maxBlockedMs
 *        └──── answers (shared) ◀──────┘
 *
 * Failure cases. *The thread ends unexpectedly*: the main thread renews by itself at its next turn. *The thread's store
 * is unavailable*: the same, halfway to the end of trust. *A lease that the thread has given up*, because the main thread
 * was blocked for too long: once the main thread has renewed it, the thread starts anew.
 */
import { Worker } from "node:worker_threads";
import { type Timer, withTimeout } from "../env/index.js";
import {
  type GrantedLease,
  type Instant,
  type KeepOptions,
  type StartedThread,
  StoreMisconfiguredError,
  StoreUnavailableError,
  type ThreadOptions,
  type ThreadRenewals,
} from "../lease/index.js";
import { Answers } from "./answers.js";
import type { Counted, FromThread, LoggedError, Start, ThreadData, ToThread } from "./messages.js";

export { processClock } from "../env/process-clock.js";

/** The main thread shows this often that it runs, and four times within a shorter maxBlockedMs. */
const LONGEST_BEAT_MS = 1_000;
/** A thread that does not close its connections within this time is ended. */
const CLOSE_MS = 2_000;

/** @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
export async function startRenewalThread(options: ThreadOptions): Promise<StartedThread> {
  const thread = new MainSide(options);
  try {
    await thread.opened;
    return thread;
  } catch (error) {
    await thread.close();
    throw error;
  }
}

/** Bundlers would replace `new URL(..., import.meta.url)` at build time. */
function threadFile(): URL {
  const { url } = import.meta as { readonly url?: string };
  if (url === undefined) throw cannotRun("a CommonJS bundle does not know where its files are");
  return new URL("./thread.js", url);
}

function cannotRun(why: string, error?: Error): StoreMisconfiguredError {
  return new StoreMisconfiguredError(
    `the renewal thread does not run: ${why}; keep leasehold out of bundles, or leave out renewIn`,
    error,
  );
}

class MainSide implements StartedThread {
  readonly #options: ThreadOptions;
  readonly #lastRun = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  /** What wakes each lease that the thread renews. */
  readonly #kept = new Map<number, () => void>();
  readonly opened: Promise<void>;
  #isRunning = true;
  #isClosing = false;
  #error: Error | undefined;
  #nextId = 0;
  #beat: Timer | undefined;

  constructor(options: ThreadOptions) {
    this.#options = options;
    const { url, connectTimeoutMs, maxBlockedMs } = options;
    const lastRun = this.#lastRun.buffer;
    const workerData: ThreadData = { url, connectTimeoutMs, maxBlockedMs, lastRun };
    const worker = new Worker(threadFile(), {
      workerData,
      name: "leasehold-renewals",
      // A thread inherits the flags of its program, and refuses this one.
      ...(process.execArgv.some((flag) => flag.startsWith("--input-type")) && { execArgv: [] }),
    });
    this.#worker = worker;
    this.opened = new Promise((resolve, reject) => {
      worker.on("message", (message: FromThread) => {
        if (message.type === "ready") resolve();
        else if (message.type === "failed") {
          const what = `the renewal thread has no store: ${message.message}`;
          reject(new StoreUnavailableError(what, { outcome: "none" }));
        } else this.#onMessage(message);
      });
      worker.on("error", (error: Error) => {
        this.#error = error;
        reject(cannotRun(error.message, error));
      });
    });
    this.#exited = new Promise((resolve) => {
      worker.on("exit", () => {
        this.#onExit();
        resolve();
      });
    });
    // Leases keep the process alive. The thread that renews them does not.
    this.opened.then(
      () => worker.unref(),
      () => {
        this.#isClosing = true;
      },
    );
  }

  start(
    namespace: string,
    granted: GrantedLease,
    options: KeepOptions,
    wake: () => void,
  ): ThreadRenewals {
    const id = this.#nextId;
    this.#nextId += 1;
    const answers = new Answers();
    const { ttlMs, autoRenew, renewIntervalMs, marginMs, driftRatio, stopOnRenewError } = options;
    const start = (from: GrantedLease): Start => ({
      type: "start",
      id,
      namespace,
      granted: from,
      options: { ttlMs, autoRenew, renewIntervalMs, marginMs, driftRatio, stopOnRenewError },
      answers: answers.memory,
    });
    const isRunning = () => this.#isRunning;
    const lease: ThreadRenewals = {
      get isRunning() {
        return isRunning();
      },
      read: () => answers.read(),
      renewed: (sent: Instant, remainingMs: number) => {
        if (this.#kept.has(id)) this.#post(start({ ...granted, sent, remainingMs }));
      },
      stop: () => {
        if (this.#kept.delete(id)) this.#post({ type: "stop", id });
      },
    };
    this.#kept.set(id, wake);
    if (!this.#beat) this.#showThatItRuns();
    this.#post(start(granted));
    return lease;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    if (!this.#isRunning) return;
    this.#worker.ref();
    this.#post({ type: "close" });
    await withTimeout(this.#options.env.clock, CLOSE_MS, this.#exited, async () => {
      await this.#worker.terminate();
    });
  }

  #post(message: ToThread): void {
    this.#worker.postMessage(message);
  }

  #showThatItRuns(): void {
    const { env, maxBlockedMs } = this.#options;
    Atomics.store(this.#lastRun, 0, BigInt(Math.floor(env.clock.monotonic())));
    this.#beat = undefined;
    if (this.#kept.size === 0 || !this.#isRunning) return;
    const delayMs = Math.min(LONGEST_BEAT_MS, maxBlockedMs / 4);
    this.#beat = env.clock.timer(delayMs, () => this.#showThatItRuns(), { background: true });
  }

  #onMessage(message: Exclude<FromThread, { type: "ready" | "failed" }>): void {
    if (message.type === "wake") this.#kept.get(message.id)?.();
    else if (message.type === "renewals") this.#count(message);
    else {
      const { level, fields, message: text } = message;
      const { err, ...rest } = fields;
      const error = err ? { err: errorFrom(err) } : {};
      this.#options.env.logger[level]({ ...rest, ...error, thread: "renewals" }, text);
    }
  }

  #count({ renewed, others }: Counted): void {
    const { telemetry } = this.#options.env;
    if (!telemetry) return;
    if (renewed > 0)
      telemetry.count("leasehold.lease.renew.attempts", { outcome: "renewed" }, renewed);
    for (const { status, resource } of others) {
      telemetry.count("leasehold.lease.renew.attempts", { outcome: status });
      telemetry.tally("endangered", resource);
    }
  }

  #onExit(): void {
    this.#isRunning = false;
    this.#beat?.cancel();
    if (this.#isClosing) return;
    this.#options.env.logger.error(
      { err: this.#error, held: this.#kept.size },
      "the renewal thread has ended: the event loop renews alone",
    );
  }
}

/** Loggers print errors. The stack is that of the thread, so it is left out. */
function errorFrom({ name, message, ...rest }: LoggedError): Error {
  return Object.assign(new Error(message), rest, { name, stack: `${name}: ${message}` });
}
