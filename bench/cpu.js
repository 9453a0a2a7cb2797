// CPU time of processes, in microseconds. A clock returns what its processes have used so far.
import { readdirSync, readFileSync } from "node:fs";

/** @typedef {Record<string, () => number>} Clocks of the client, the server and others, by name */

/** What the kernel counts in. */
const TICK_US = 10_000;

export function ownCpuUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/**
 * CPU time of a process and all its descendants, those that have ended included. NaN where there is no /proc.
 * @param {number} root
 */
export function treeCpuUs(root) {
  const processes = readProcesses();
  if (!processes.has(root)) return NaN;
  let ticks = 0;
  for (const [pid, { used }] of processes) {
    if (isWithin(processes, pid, root)) ticks += used;
  }
  return ticks * TICK_US;
}

function readProcesses() {
  /** @type {Map<number, { parent: number, used: number }>} */
  const processes = new Map();
  for (const pid of pids()) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      // The name before it may contain spaces.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number);
      processes.set(pid, {
        parent: Number(fields[1]),
        used: user + system + endedUser + endedSystem,
      });
    } catch {
      // It has ended meanwhile.
    }
  }
  return processes;
}

function pids() {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/**
 * @param {ReturnType<typeof readProcesses>} processes
 * @param {number | undefined} pid
 * @param {number} root
 */
function isWithin(processes, pid, root) {
  for (let at = pid; at !== undefined; at = processes.get(at)?.parent) {
    if (at === root) return true;
  }
  return false;
}
