/**
 * A guard admits writes by their fencing token. It refuses a token that is smaller than one it has admitted.
 * While a write runs, a newer holder waits. So a write of an older holder never follows one of a newer holder.
 *
 *   older  token 10 ─▶ passes ── writes ──▶ done
 *   newer  token 11      └ waits until that is done ─▶ passes ── writes ──▶
 *   older  token 10 ────────────────────────────────────▶ refused (STALE_TOKEN)
 *
 * An equal token is the same grant, and passes. Tokens compare within one lease store only.
 */

import { guarded, guardedTelemetry, type Telemetry } from "../env/index.js";
import {
  checkFunction,
  checkInteger,
  checkKnown,
  checkName,
  StaleTokenError,
  warnOfTaskToken,
} from "../lease/index.js";

/** A refused write: its holder has lost the lease, and a newer holder has written. */
export interface Refusal {
  readonly namespace: string;
  readonly resource: string;
  /** The token that was refused. */
  readonly token: number;
  /** The largest token that was admitted before. */
  readonly lastToken: number;
}

/** Options of `memoryGuard`, `sqlGuard` and `redisGuard`. */
export interface GuardOptions {
  /** The namespace of the leases. Default `default`. */
  namespace?: string;
  /** Called for every refusal, for example to log it. Its errors are ignored, also those of an async function. Default: no callback. */
  onRefused?: (refusal: Refusal) => void;
  /** Counts the refusals: a value from `leasehold/telemetry`. Default: they are not counted. */
  telemetry?: Telemetry;
}

/**
 * Guards a write by `resource` and `token`.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { memoryGuard } from "leasehold/fence";
 *
 * const leasehold = await connect("memory:");
 * const guard = memoryGuard();
 * await leasehold.run("billing", ({ resource, token }) =>
 *   guard.guard(resource, token, () => console.log("written")),
 * );
 * await leasehold.close();
 * ```
 */
export interface Guard {
  /** The number of refused writes. */
  readonly refusals: number;
  /**
   * Calls `work`. Newer holders wait until it has ended.
   * @throws STALE_TOKEN, before the work begins; INVALID_OPTION; errors of `work`
   */
  guard<T>(resource: string, token: number, work: () => T | PromiseLike<T>): Promise<T>;
}

/** @throws INVALID_OPTION */
export function checkFenced(namespace: string, resource: string, token: number): void {
  checkName("resource", resource);
  checkName("namespace", namespace);
  checkInteger("token", token, 1, Number.MAX_SAFE_INTEGER);
  warnOfTaskToken(resource, token);
}

/** Counts and reports refusals; every guard has one. */
export class Refusals {
  #count = 0;
  readonly #options: GuardOptions;
  readonly #telemetry: Telemetry | undefined;

  /** @param more the options of this kind of guard beside those of all guards */
  constructor(options: GuardOptions, more: Readonly<Record<string, true>> = {}) {
    checkKnown(options, { namespace: true, onRefused: true, telemetry: true, ...more });
    const { onRefused } = options;
    if (onRefused !== undefined) checkFunction("onRefused", onRefused);
    this.#options = options;
    this.#telemetry = options.telemetry && guardedTelemetry(options.telemetry);
  }

  get namespace(): string {
    return this.#options.namespace ?? "default";
  }

  get count(): number {
    return this.#count;
  }

  /** Returns the error to throw, even if the callback throws. */
  refuse(resource: string, token: number, lastToken: number): StaleTokenError {
    this.#count += 1;
    this.#telemetry?.count("leasehold.fence.refusals", {});
    const report = () => {
      return this.#options.onRefused?.({ namespace: this.namespace, resource, token, lastToken });
    };
    // An error of the callback must not mask the refusal.
    guarded(report, () => {});
    return new StaleTokenError(resource, token, lastToken);
  }
}

interface Place {
  lastToken: number;
  /** Settles when all admitted writes have ended. */
  busy: Promise<unknown>;
}

/**
 * A guard in this process's memory, for data that only this process writes. It loses its tokens when the
 * process ends. If the data outlives the process, use a guard that does so too.
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { memoryGuard } from "leasehold/fence";
 *
 * const guard = memoryGuard({ onRefused: ({ token }) => console.log("refused", token) });
 * await guard.guard("billing", 11, () => console.log("written"));
 * await guard.guard("billing", 10, () => "never called").catch(({ code }) => console.log(code));
 * console.log(guard.refusals);
 * ```
 */
export function memoryGuard(options: GuardOptions = {}): Guard {
  const refusals = new Refusals(options);
  const places = new Map<string, Place>();
  return {
    get refusals() {
      return refusals.count;
    },
    async guard(resource, token, work) {
      checkFenced(refusals.namespace, resource, token);
      checkFunction("work", work);
      const place = places.get(resource) ?? { lastToken: 0, busy: Promise.resolve() };
      places.set(resource, place);
      const running = place.busy.then(() => {
        if (token < place.lastToken) throw refusals.refuse(resource, token, place.lastToken);
        place.lastToken = token;
        return work();
      });
      place.busy = running.catch(() => {});
      return running;
    },
  };
}
