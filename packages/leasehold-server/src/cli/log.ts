import { Option } from "commander";
import { withoutLeaseIds } from "leasehold/internal";
import { escapeHiddenJson } from "leasehold/internal/hidden";
import pino from "pino";
import type { Notice, Notify } from "./notices.js";

const LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"];

export function logLevelOption(): Option {
  return new Option("--log-level <level>", "lowest level to log, on stderr")
    .choices(LEVELS)
    .default("info")
    .env("LEASEHOLD_LOG_LEVEL");
}

/** Errors of drivers may quote their input, such as a row or a body, and with it a lease id. */
function shownError(error: unknown): unknown {
  return shown(pino.stdSerializers.err(error as Error), 0);
}

const DEEPEST = 4;

function shown(value: unknown, depth: number): unknown {
  if (typeof value === "string") return withoutLeaseIds(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth === DEEPEST) return "[...]";
  if (Array.isArray(value)) return value.map((item) => shown(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [withoutLeaseIds(key), shown(item, depth + 1)]),
  );
}

const INFO: ReadonlySet<Notice["event"]> = new Set(["creating", "answering"]);

/** Logs what a command reports of its own work: a sentence on stderr would break the lines of JSON. */
export function noticesTo(logger: pino.Logger): Notify {
  return ({ event, ...fields }) => {
    if (!("message" in fields)) return;
    const { message, ...more } = fields;
    const until = "until" in more ? ` until ${more.until}` : "";
    if (event === "retrying" || event === "refused")
      logger.warn(more, `${message}; retrying${until}`);
    else logger[INFO.has(event) ? "info" : "warn"](more, message);
  };
}

/** What may wait for a reader of the log. */
const MOST_PENDING_BYTES = 1_048_576;

/**
 * Logs JSON lines to stderr, because stdout is for results. Lines are left out while too many wait for a reader that has
 * stopped: a program that waited for it would lose its leases. A pipe with room, a file and a terminal are written to at once,
 * so that the last lines before a crash are not lost.
 */
export function newLogger(level: string): pino.Logger {
  const { stderr } = process;
  let leftOut = 0;
  const write = (line: string) => {
    if (stderr.writableLength <= MOST_PENDING_BYTES) {
      stderr.write(escapeHiddenJson(line));
      return;
    }
    if (leftOut === 0) stderr.once("drain", report);
    leftOut += 1;
  };
  const logger = pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: shownError },
    },
    { write },
  );
  const report = () => {
    const fields = { event: "lines_left_out", leftOut };
    leftOut = 0;
    logger.warn(fields, "lines were left out while the reader of the log had stopped");
  };
  return logger;
}
