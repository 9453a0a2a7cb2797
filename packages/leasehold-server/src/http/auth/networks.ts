/**
 * From which networks the callers of a tenant may send requests. A refusal is in the audit, once an hour for each key and
 * network: a key that was stolen can send any number of requests, and entries are kept for ever.
 */
import type { Clock, Logger } from "leasehold";
import type { AuditLog } from "leasehold/internal";
import { networkOf } from "../limits/networks.js";
import { ProblemError } from "../problems.js";
import type { Caller } from "./caller.js";
import type { AddressList } from "./client-address.js";

/** The addresses from which a tenant may be used; undefined: all. */
export type AllowedFrom = (namespace: string) => AddressList | undefined;

const AUDITED_EVERY_MS = 3_600_000;
/** Refusals that are remembered. Each is a key that someone uses from elsewhere, and its network. */
const MOST_REMEMBERED = 1_000;

interface Surroundings {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Undefined: the server has no audit. */
  readonly audit: Pick<AuditLog, "append"> | undefined;
}

export class Networks {
  readonly #allowedFrom: AllowedFrom;
  readonly #env: Surroundings;
  /** When refusals were last written, by actor and network, the oldest first. */
  readonly #written = new Map<string, number>();

  constructor(allowedFrom: AllowedFrom, env: Surroundings) {
    this.#allowedFrom = allowedFrom;
    this.#env = env;
  }

  /**
   * @param address of the client; undefined: unknown, which no list has
   * @throws FORBIDDEN
   */
  check({ namespace, actor }: Caller, address: string | undefined, route: string | null): void {
    const allowed = this.#allowedFrom(namespace);
    if (!allowed || (address !== undefined && allowed.has(address))) return;
    const from = address ?? "an unknown address";
    this.#note(namespace, actor, from, route);
    throw new ProblemError(
      "FORBIDDEN",
      `the tenant "${namespace}" may not be used from ${from}: the operator of this server allows other networks`,
    );
  }

  #note(namespace: string, actor: string, from: string, route: string | null): void {
    const { clock, logger, audit } = this.#env;
    const key = JSON.stringify([namespace, actor, networkOf(from)]);
    const nowMs = clock.monotonic();
    if (nowMs - (this.#written.get(key) ?? -Infinity) < AUDITED_EVERY_MS) return;
    this.#written.delete(key);
    const [oldest] = this.#written.keys();
    if (this.#written.size >= MOST_REMEMBERED) {
      // A thousand of them in an hour are no longer news: neither audit nor log shall grow with them.
      if (nowMs - (this.#written.get(oldest ?? "") ?? 0) < AUDITED_EVERY_MS) return;
      this.#written.delete(oldest ?? "");
    }
    this.#written.set(key, nowMs);
    const fields = { event: "address_refused", namespace, actor, address: from };
    logger.warn(fields, "a key was used from a network that its tenant does not allow");
    const details = JSON.stringify({ route });
    const entry = { namespace, actor, action: "access.refuse", target: from, reason: null };
    audit?.append([{ ...entry, phase: "done", details }]).catch((err: unknown) => {
      logger.warn({ err, namespace, actor }, "a refused address could not be entered in the audit");
    });
  }
}
