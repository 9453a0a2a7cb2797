// Beside simulate.js, in a thread of its own: a world that a bug has brought to a standstill lets nothing
// else run in its thread, not even what would end it.
import { CLOSE_MS, endGroup, leave, TIMEOUT_MS } from "./orphan.js";

const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) leave();
}, 1_000);
// The parent gives up earlier. This is for a parent that had gone before the first check.
setTimeout(() => endGroup(process.pid), TIMEOUT_MS + CLOSE_MS);
