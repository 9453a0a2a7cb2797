/** One log line per request. */
import type { Env } from "leasehold";
import { withoutLeaseIds } from "leasehold/internal";
import type { Caller } from "./auth/caller.js";
import { Sampler } from "./limits/sampler.js";
import { problemOf } from "./problems.js";

/** Lines per second about refused requests without a caller: anyone who reaches the port can send those. */
const MOST_PER_SECOND = 100;
const MAX_PATH_CHARACTERS = 256;

export interface Answered {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** Undefined on public routes, and if the caller was not authenticated. */
  readonly caller: Caller | undefined;
  /** What was thrown; undefined: nothing. */
  readonly error: unknown;
}

export class RequestLog {
  readonly #logger: Env["logger"];
  readonly #strangers: Sampler;

  constructor({ logger, clock }: Pick<Env, "logger" | "clock">) {
    this.#logger = logger;
    this.#strangers = new Sampler(clock, { most: MOST_PER_SECOND, everyMs: 1_000 }, (leftOut) => {
      const fields = { event: "requests_left_out", leftOut };
      logger.warn(fields, "refused requests without a caller are left out of the log");
    });
  }

  /** Bodies and queries may contain lease ids, so they are never logged. */
  note({ requestId, method, path, status, caller, error }: Answered, durationMs: number): void {
    if (status >= 400 && !caller && !this.#strangers.admits()) return;
    const fields = {
      requestId,
      method,
      path: loggedPath(path),
      status,
      durationMs: Math.round(durationMs),
      ...(caller?.keyId && { actor: caller.actor }),
    };
    if (status < 400) {
      this.#logger.debug({ event: "request_answered", ...fields }, "request answered");
      return;
    }
    const problem = error === undefined ? undefined : problemOf(error);
    const refusal = { ...fields, code: problem?.code };
    if (status < 500) {
      this.#logger.info({ event: "request_refused", ...refusal }, "request refused");
      return;
    }
    const failure = { event: "request_failed", ...refusal, err: problem?.cause };
    if (problem?.code === "INTERNAL") this.#logger.error(failure, "request failed");
    else this.#logger.warn(failure, "request failed");
  }

  close(): void {
    this.#strangers.close();
  }
}

/** Some routes have a lease id in the path, and clients may send one to any path, in any encoding. */
function loggedPath(path: string): string {
  // Escapes are three characters long.
  const isLong = path.length > 3 * MAX_PATH_CHARACTERS;
  const spelled = path
    .slice(0, 3 * MAX_PATH_CHARACTERS)
    .replace(/%([2-7][0-9a-f])/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
  // Drops a trailing piece of hex: a truncated lease id would not be recognized as one.
  const whole = isLong ? spelled.replace(/[0-9a-f%]+$/i, "") : spelled;
  const text = withoutLeaseIds(whole);
  if (!isLong && text.length <= MAX_PATH_CHARACTERS) return text;
  return `${text.slice(0, MAX_PATH_CHARACTERS)}...`;
}
