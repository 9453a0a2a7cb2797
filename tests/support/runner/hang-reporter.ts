import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Reporter } from "vitest/node";
import { type Running, recordsOf } from "./running-record.js";

const POLL_MS = 1_000;
/** For a machine that is busy. */
const ALLOWANCE_MS = Number(process.env["HANG_ALLOWANCE_MS"] ?? 60_000);

/** A record, and how often it has been found unchanged: polls count no time in which the machine is suspended. */
interface Seen {
  readonly writtenMs: number;
  readonly polls: number;
}

/** Names what blocks its thread, or never ends its import, and ends its worker: the run fails, without what that had left. */
export default class HangReporter implements Reporter {
  #timer: NodeJS.Timeout | undefined;
  #seen = new Map<string, Seen>();

  onTestRunStart(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#poll(), POLL_MS);
  }

  onTestRunEnd(): void {
    clearInterval(this.#timer);
  }

  #poll(): void {
    const before = this.#seen;
    this.#seen = new Map();
    const prefix = recordsOf(process.pid);
    for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(prefix))) {
      const path = join(tmpdir(), name);
      try {
        const seen = pollOf(path, before.get(path));
        this.#seen.set(path, seen);
        endIfHanging(path, seen.polls * POLL_MS);
      } catch (error) {
        // Its worker has just ended, or is writing it.
        if (!(error instanceof SyntaxError) && Reflect.get(Object(error), "code") !== "ENOENT") {
          throw error;
        }
      }
    }
  }
}

function pollOf(path: string, before: Seen | undefined): Seen {
  const { mtimeMs: writtenMs } = statSync(path);
  return { writtenMs, polls: before?.writtenMs === writtenMs ? before.polls + 1 : 0 };
}

function endIfHanging(path: string, forMs: number): void {
  const { pid, file, test, limitMs } = JSON.parse(readFileSync(path, "utf8")) as Running;
  if (forMs < limitMs + ALLOWANCE_MS) return;
  rmSync(path, { force: true });
  // Its number may be that of another process by now.
  if (!isWorker(pid)) return;
  const seconds = Math.round(forMs / 1_000);
  process.stdout.write(`hangs: ${file} > ${test}: its process is ended after ${seconds} s\n`);
  process.kill(pid, "SIGKILL");
}

function isWorker(pid: number): boolean {
  try {
    return Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)])) === process.pid;
  } catch {
    return false;
  }
}
