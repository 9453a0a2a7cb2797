import { Option } from "commander";
import pino from "pino";

const LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"];

export function logLevelOption(): Option {
  return new Option("--log-level <level>", "least level of the log on stderr")
    .choices(LEVELS)
    .default("info")
    .env("LEASEHOLD_LOG_LEVEL");
}

/**
 * JSON lines on stderr: stdout is for results. Synchronous, so that the last lines of a process
 * that dies are there.
 */
export function newLogger(level: string): pino.Logger {
  return pino(
    { level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: true }),
  );
}
