/**
 * What a guard is: it refuses whoever is older than somebody it has let through, and while one is let
 * through, nobody newer passes. So no write of an older holder can follow that of a newer one.
 *
 *   older  token 10 ─▶ passes ── writes ──▶ done
 *   newer  token 11      └ waits until that is done ─▶ passes ── writes ──▶
 *   older  token 10 ────────────────────────────────────▶ refused (STALE_TOKEN)
 *
 * An equal token is the same grant, and passes. Tokens compare within one lease store only.
 */

import { checkInteger, checkName, InvalidOptionError, StaleTokenError } from "../core/index.js";
import type { Telemetry } from "../env/index.js";

/** Somebody came too late, or still writes after its lease has ended. */
export interface Refusal {
  readonly namespace: string;
  readonly resource: string;
  /** That was refused. */
  readonly token: number;
  /** That has passed before. */
  readonly lastToken: number;
}

export interface GuardOptions {
  /** The tenant whose resources these are, as the leases'. Default `default`. */
  namespace?: string;
  /** Told of every refusal: to count and to log. Default: nobody is. */
  onRefused?: (refusal: Refusal) => void;
  /** Counts the refusals: of `leasehold/telemetry`. Default: nothing does. */
  telemetry?: Telemetry;
}

/** Guards a write by `resource` and `token`. */
export interface Guard {
  /** How many it has refused. */
  readonly refusals: number;
  /**
   * Does the work while nobody newer passes.
   * @throws STALE_TOKEN, before the work begins; INVALID_OPTION; what the work threw
   */
  guard<T>(resource: string, token: number, work: () => T | PromiseLike<T>): Promise<T>;
}

/** @throws INVALID_OPTION */
export function checkFenced(namespace: string, resource: string, token: number): void {
  checkName("resource", resource);
  checkName("namespace", namespace);
  checkInteger("token", token, 1, Number.MAX_SAFE_INTEGER);
}

/** Counts and reports; every guard has one. */
export class Refusals {
  #count = 0;
  readonly #options: GuardOptions;

  constructor(options: GuardOptions) {
    const { onRefused } = options;
    if (onRefused !== undefined && typeof onRefused !== "function") {
      throw new InvalidOptionError("onRefused", "must be a function");
    }
    this.#options = options;
  }

  get namespace(): string {
    return this.#options.namespace ?? "default";
  }

  get count(): number {
    return this.#count;
  }

  /** The error to throw. A listener that throws changes nothing of it. */
  refuse(resource: string, token: number, lastToken: number): StaleTokenError {
    this.#count += 1;
    this.#options.telemetry?.count("leasehold.fence.refusals", {});
    try {
      this.#options.onRefused?.({ namespace: this.namespace, resource, token, lastToken });
    } catch {
      // It was told.
    }
    return new StaleTokenError(resource, token, lastToken);
  }
}

interface Place {
  lastToken: number;
  /** Settles when all that were let in have ended. */
  busy: Promise<unknown>;
}

/**
 * A guard in this process's memory: for what this process alone writes to. It forgets with the process:
 * where a write outlives it, so must the guard.
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
