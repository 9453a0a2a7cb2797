// For `node --import`: once the file FULL_DISK exists, no new file of PostgreSQL's log can be written.
import fs from "node:fs";

const { openSync, writeSync } = fs;
const log = new Set();
/** @param {any[]} given */
fs.openSync = (...given) => {
  const fd = openSync.apply(fs, /** @type {any} */ (given));
  if (/pg_wal\/xlogtemp/.test(String(given[0]))) log.add(fd);
  else log.delete(fd);
  return fd;
};
/** @param {any[]} given */
fs.writeSync = (...given) => {
  if (log.has(given[0]) && fs.existsSync(String(process.env["FULL_DISK"]))) {
    throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  }
  return writeSync.apply(fs, /** @type {any} */ (given));
};
