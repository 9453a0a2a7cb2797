/** What any engine's processes may suffer. */
import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import { between } from "../draws.js";
import type { Kind, Site } from "../site.js";

export function engine(name: string, happen: Kind["happen"], missing: string | null = null): Kind {
  return { name, area: "engine", happen, missing };
}

/** Does it, lets some time pass, and undoes it whatever happens. */
export function whileSo(
  name: string,
  begin: () => Promise<unknown>,
  end: () => Promise<unknown>,
  [leastTtls, mostTtls]: readonly [number, number] = [0.3, 1.8],
): Kind {
  return engine(name, async (site: Site, random: Random) => {
    try {
      await begin();
      await delay(site.ttlMs * between(random, leastTtls, mostTtls));
    } finally {
      await end();
    }
    return true;
  });
}

/** The process and those that it has started. */
function familyOf(pid: number): Promise<number[]> {
  return new Promise((resolve) => {
    execFile("ps", ["-o", "pid=", "--ppid", `${pid}`], (_, stdout) => {
      resolve([pid, ...stdout.split("\n").map(Number).filter(Boolean)]);
    });
  });
}

/** To the process and those that it has started; those that are gone meanwhile are no matter. */
export async function signalAll(pid: number, signal: "SIGSTOP" | "SIGCONT"): Promise<void> {
  for (const one of await familyOf(pid)) {
    try {
      process.kill(one, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
