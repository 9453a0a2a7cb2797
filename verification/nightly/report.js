// The report of a part of a night.
import { readFileSync, rmSync, writeFileSync } from "node:fs";

/**
 * Whether a part has ended well before, with what is still the same code.
 * @param {string} file
 * @param {{ sources: string, scale: number }} now
 */
export function isDone(file, { sources, scale }) {
  try {
    const report = JSON.parse(readFileSync(file, "utf8"));
    return report.ended === 0 && report.sources === sources && report.scale === scale;
  } catch {
    return false;
  }
}

/**
 * Adds to the report of a part how it ended. What only prints its figures does not say where they come from either.
 * @param {string} file
 * @param {{ printed?: string, origin?: object, how: { scale: number, ended: number | string } }} end
 * @returns {boolean} whether there is a report
 */
export function finish(file, { printed, origin, how }) {
  try {
    const figures = JSON.parse(printed ?? readFileSync(file, "utf8"));
    writeFileSync(file, `${JSON.stringify({ ...origin, ...figures, ...how }, null, 1)}\n`);
    return true;
  } catch (error) {
    rmSync(file, { force: true });
    console.error(`no report: ${error}`);
    return false;
  }
}
