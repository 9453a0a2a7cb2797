// Beside simulate.js, in a thread of its own: a world that a bug has brought to a standstill lets nothing
// else run in its thread, not even what would end it.
import { CLOSE_MS, endGroup, leave, TIMEOUT_MS } from "./orphan.js";

const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) leave();
}, 1_000);
// Whoever waits for it gives up before; for a parent that was gone before this looked.
setTimeout(() => endGroup(process.pid), TIMEOUT_MS + CLOSE_MS);
