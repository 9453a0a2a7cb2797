/**
 * Holds one lease as a process of its own, says what becomes of it, line by line as JSON, and does
 * what its input says:
 *   watch        asks every few milliseconds whether it may go on, and notes when last it might
 *   block FILE   asks, then blocks its event loop until there is such a file, asks first thing
 *                after that, and writes whatever the answer was
 *   write        asks, and writes whatever the answer was
 */
import { existsSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import pg from "pg";
import { connect } from "../../../packages/leasehold/src/index.js";
import type {
  AcquireOptions,
  LeaseholdError,
} from "../../../packages/leasehold/src/lease/index.js";
import { write } from "../worlds/registers.js";
import { realMs } from "./fake-clock.js";

export interface HolderSettings {
  readonly url: string;
  /** The database of the registers. */
  readonly protectedUrl: string;
  readonly resource: string;
  readonly options: AcquireOptions;
}

/** Each line is one of these, or more. */
export interface Said {
  /** It has the lease. */
  readonly token?: number;
  /** checkAlive() before it blocks. */
  readonly checked?: boolean;
  /** checkAlive() right before it writes, and, read after that, whether its signal has aborted. */
  readonly alive?: boolean;
  readonly aborted?: boolean;
  /** How its write ended. */
  readonly wrote?: string;
  /** The code of its signal's reason. */
  readonly lost?: string;
  /** By the machine's clock: it might go on a moment after this, and not any more at some later one. */
  readonly lastTrustedMs?: number | null;
}

const settings = JSON.parse(process.argv[2] ?? "") as HolderSettings;
// Past all buffers: the process may be stopped at any time.
const say = (said: Said) => writeSync(1, `${JSON.stringify(said)}\n`);
process.on("disconnect", () => process.exit());

const database = new pg.Client({ connectionString: settings.protectedUrl });
await database.connect();
const leases = await connect(settings.url, { connectTimeoutMs: 60_000 });
const lease = await leases.acquire(settings.resource, settings.options);
let lastTrustedMs: number | null = null;
lease.signal.addEventListener("abort", () => {
  say({ lost: (lease.signal.reason as LeaseholdError).code, lastTrustedMs });
});
say({ token: lease.token });

const writeLate = async () => {
  const alive = lease.checkAlive();
  say({ alive, aborted: lease.signal.aborted });
  say({ wrote: await write(database, settings.resource, lease.token) });
};
const COMMANDS: Readonly<Record<string, (argument: string) => unknown>> = {
  watch() {
    const watching = setInterval(() => {
      // Read first: when the answer is yes, it was yes at some time after this.
      const nowMs = realMs();
      if (lease.checkAlive()) lastTrustedMs = nowMs;
      else clearInterval(watching);
    }, 4);
  },
  block(file) {
    say({ checked: lease.checkAlive() });
    const never = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(file)) Atomics.wait(never, 0, 0, 5);
    return writeLate();
  },
  write: writeLate,
};
createInterface(process.stdin).on("line", async (line) => {
  const [command = "", argument = ""] = line.split(" ");
  await COMMANDS[command]?.(argument);
});
