import { entriesOf, isError, reasonOf, shown } from "./describe.js";
import { guarded } from "./guarded.js";
import { type Logger, silentLogger } from "./logger.js";
import { warningLogger } from "./warnings.js";

/** By the logger of the program. One that is guarded already is its own. */
const GUARDED = new WeakMap<Logger, Logger>([[silentLogger, silentLogger]]);

/**
 * The same logger, which never throws. A line that it throws at is logged once more as plain text, because most loggers throw at a
 * value that they cannot read or convert. If it throws again, a warning of the process says so, once.
 */
export function guardedLogger(logger: Logger): Logger {
  const known = GUARDED.get(logger);
  if (known) return known;
  let fallback: Logger | undefined;
  const guard = (level: keyof Logger) => (fields: object, message: string) => {
    const failed = (err: unknown) => {
      fallback ??= warningLogger();
      fallback.warn(withReason({ err, line: message }), "the logger threw");
    };
    const again = () => guarded(() => logger[level](plain(fields), reasonOf(message)), failed);
    guarded(
      () =>
        logger[level](level === "debug" || level === "info" ? fields : withReason(fields), message),
      again,
    );
  };
  const made: Logger = {
    debug: guard("debug"),
    info: guard("info"),
    warn: guard("warn"),
    error: guard("error"),
  };
  GUARDED.set(logger, made);
  GUARDED.set(made, made);
  return made;
}

/**
 * Code can throw anything, and the line is about what it threw. Loggers leave out undefined, symbols and functions, and write a
 * Response or a Map as `{}`. Of errors they print the stack.
 */
function withReason(fields: object): object {
  if (!Object.hasOwn(fields, "err")) return fields;
  const { err } = fields as { readonly err: unknown };
  return isError(err) ? fields : { ...fields, err: reasonOf(err) };
}

/** Each field as a text or a number, which no logger fails to write. */
function plain(fields: unknown): object {
  const asText = (name: string, value: unknown) =>
    name === "err" ? reasonOf(value) : typeof value === "string" ? value : shown(value);
  const values = entriesOf(fields).map(([name, value]) => [
    name,
    typeof value === "number" ? value : asText(name, value),
  ]);
  return Object.fromEntries(values) as object;
}
