/** Processes that see another time than the machine's, by libfaketime (Debian: the package faketime). */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Of all clocks of a process, from its start on. */
export interface FakeClock {
  /** Seconds of it in a second; default 1. */
  readonly rate?: number;
  /** How far it is set forward; default 0. */
  readonly offsetMs?: number;
  /** Whether only the wall clock is another one; default: the monotonic clock too. */
  readonly wallOnly?: boolean;
  /** Instead of the rate and the offset: a file that says them, and may change; see setClock(). */
  readonly file?: string;
}

const LIBRARIES = "/usr/lib";
const MISSING = "no libfaketime: apt-get install faketime";

/** Where the library lies, or undefined. */
function findLibrary(): string | undefined {
  if (process.platform !== "linux") return undefined;
  return readdirSync(LIBRARIES)
    .map((folder) => join(LIBRARIES, folder, "faketime", "libfaketime.so.1"))
    .find((path) => existsSync(path));
}

/** Why there are no such clocks, or null. */
export function missingClocks(): string | null {
  return findLibrary() ? null : MISSING;
}

/** What makes a process see this time; nothing for the machine's. */
export function clockEnvironment(clock: FakeClock | undefined): Record<string, string> {
  if (!clock) return {};
  const library = findLibrary();
  if (!library) throw new Error(MISSING);
  const { wallOnly = false, file } = clock;
  return {
    LD_PRELOAD: library,
    // The file is read anew each time: all processes that see it are set at once.
    ...(file === undefined
      ? { FAKETIME: described(clock) }
      : { FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1" }),
    ...(wallOnly && { FAKETIME_DONT_FAKE_MONOTONIC: "1" }),
  };
}

/** Sets the clock of all processes that see this file. */
export function setClock(file: string, clock: Pick<FakeClock, "rate" | "offsetMs">): void {
  // The rename is atomic, so no process reads half of a file.
  writeFileSync(`${file}.new`, `${described(clock)}\n`);
  renameSync(`${file}.new`, file);
}

function described({ rate = 1, offsetMs = 0 }: FakeClock): string {
  return `${offsetMs < 0 ? "" : "+"}${offsetMs / 1_000} x${rate}`;
}

/** What the library leaves in shared memory when its process is killed. */
export function forgetClock(pid: number): void {
  for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) {
    rmSync(join("/dev/shm", name), { force: true });
  }
}

/**
 * Milliseconds of the machine's own clock since it started, in steps of 10 and never ahead of it,
 * whatever clock the process sees: the kernel writes this file.
 */
export function realMs(): number {
  return Math.round(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000);
}
export const REAL_STEP_MS = 10;
