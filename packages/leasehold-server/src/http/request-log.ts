/**
 * One log line per request. Refusals are bounded, because a caller can send as many requests as it likes:
 *
 *   without a caller                         100 a second
 *   of one tenant with keys                  100 a second
 *     of one key, method, status and beginning of the path      10 of those, so that other lines are not left out
 *
 * A line says how many were left out. Unexpected errors are never left out.
 */
import type { Env, Timer } from "leasehold";
import { withoutLeaseIds } from "leasehold/internal";
import type { Caller } from "./auth/caller.js";
import { problemOf } from "./problems.js";
import { Sampler } from "./sampler.js";

/** Lines per second about refused requests: without a caller, and of each tenant. */
const MOST_PER_SECOND = 100;
/** Of one key, method, status and beginning of the path. */
const MOST_OF_ONE_KIND = 10;
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
  readonly #clock: Env["clock"];
  readonly #strangers: Sampler;
  /** Of this second. */
  readonly #tenants = new Map<string, TenantLines>();

  constructor({ logger, clock }: Pick<Env, "logger" | "clock">) {
    this.#logger = logger;
    this.#clock = clock;
    this.#strangers = new Sampler(clock, { most: MOST_PER_SECOND, everyMs: 1_000 }, (leftOut) => {
      const fields = { event: "requests_left_out", leftOut };
      logger.warn(fields, "refused requests without a caller are left out of the log");
    });
  }

  /** Bodies and queries may contain lease ids, so they are never logged. */
  note(answered: Answered, durationMs: number): void {
    const { requestId, method, path, status, caller, error } = answered;
    const problem = error === undefined ? undefined : problemOf(error);
    // An instance that drains answers its probes so on purpose, every few seconds.
    const isDrained = problem?.code === "CLOSING" && path.endsWith("/readyz");
    const isUnexpected = problem?.code === "INTERNAL" && caller !== undefined;
    const isRefusal = status >= 400 && !isDrained;
    if (isRefusal && !isUnexpected && !this.#admits(answered)) return;
    const fields = {
      requestId,
      method,
      path: loggedPath(path),
      status,
      durationMs: Math.round(durationMs),
      ...(caller?.keyId && { actor: caller.actor }),
    };
    if (!isRefusal) {
      this.#logger.debug({ event: "request_answered", ...fields }, "request answered");
      return;
    }
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
    for (const lines of this.#tenants.values()) lines.close();
  }

  #admits({ caller, method, path, status }: Answered): boolean {
    if (!caller) return this.#strangers.admits();
    const { keyId, namespace, actor } = caller;
    // Programs of this machine, which cannot be distinguished.
    if (keyId === null) return true;
    let lines = this.#tenants.get(namespace);
    if (!lines) {
      lines = new TenantLines(this.#clock, (leftOut) => {
        this.#tenants.delete(namespace);
        if (leftOut === 0) return;
        const fields = { event: "requests_left_out", namespace, leftOut };
        this.#logger.warn(fields, "refused requests of a tenant are left out of the log");
      });
      this.#tenants.set(namespace, lines);
    }
    const [, first = "", second = ""] = path.split("/", 3);
    return lines.admits(`${actor} ${method} ${status} ${first}/${second}`);
  }
}

/** The lines of one tenant in the second that begins with the first of them. */
class TenantLines {
  readonly #timer: Timer;
  readonly #end: () => void;
  readonly #ofKinds = new Map<string, number>();
  #written = 0;
  #leftOut = 0;

  /** @param onEnd receives how many were left out */
  constructor(clock: Env["clock"], onEnd: (leftOut: number) => void) {
    this.#end = () => onEnd(this.#leftOut);
    this.#timer = clock.timer(1_000, this.#end, { background: true });
  }

  admits(kind: string): boolean {
    const before = this.#ofKinds.get(kind) ?? 0;
    if (before === MOST_OF_ONE_KIND || this.#written === MOST_PER_SECOND) {
      this.#leftOut += 1;
      return false;
    }
    this.#ofKinds.set(kind, before + 1);
    this.#written += 1;
    return true;
  }

  close(): void {
    this.#timer.cancel();
    this.#end();
  }
}

/** Some routes have a lease id in the path, and clients may send one to any path, in any encoding. */
export function loggedPath(path: string): string {
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
