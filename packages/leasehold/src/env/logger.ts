/** What the library needs of a logger; a pino logger fits as it is. Fields first, then the message. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const ignore = () => {};

/** The default: a library does not write to its user's console unasked. */
export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
