/** Programs in a copy end themselves and remove the copy when the process that made it has gone. */
import { rmSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

/** Of the names of copies' folders: nothing else is removed. */
export const PREFIX = "leasehold-bugs-";
/** Longer than any check takes on a busy machine. */
export const TIMEOUT_MS = 180_000;
/** Until the engines that tests have started are gone. */
export const CLOSE_MS = 30_000;

/** Removes the copy that this stands in, and ends this process with all of its group. */
export function leave() {
  const folder = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
  try {
    if (basename(folder).startsWith(PREFIX)) remove(folder);
  } finally {
    endGroup(process.pid);
  }
}

/** Also while others still write there, who are about to end. */
export function remove(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

/** @param pid of its leader, which may be gone */
export function endGroup(pid) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}
