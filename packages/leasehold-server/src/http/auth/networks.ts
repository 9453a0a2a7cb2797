/**
 * From which networks the callers of a tenant may send requests. A refusal is in the audit, once an hour for each key and
 * network: a key that was stolen can send any number of requests, and entries are kept for ever.
 */
import type { Clock, Logger } from "leasehold";
import type { AuditLog } from "leasehold/internal";
import { Counts } from "../counts.js";
import { ProblemError } from "../problems.js";
import type { Caller } from "./caller.js";
import type { AddressList } from "./client-address.js";
import { networkOf } from "./network-of.js";

/** The addresses from which a tenant may be used; undefined: all. */
export type AllowedFrom = (namespace: string) => AddressList | undefined;

const AUDITED_EVERY_MS = 3_600_000;
/**
 * Refusals of one tenant that are remembered. Each is a key that someone uses from elsewhere, and its network. No tenant uses
 * up what others have: their refusals would be missing.
 */
const MOST_OF_TENANT = 1_000;
/** Those of one caller, which can have thousands of networks in IPv6. */
const MOST_OF_CALLER = 100;

interface Written {
  /** When, by actor and network, the oldest first. */
  readonly refusals: Map<string, { readonly actor: string; readonly atMs: number }>;
  readonly callers: Counts<string>;
}

interface Surroundings {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Undefined: the server has no audit. */
  readonly audit: Pick<AuditLog, "append"> | undefined;
}

export class Networks {
  readonly #allowedFrom: AllowedFrom;
  readonly #env: Surroundings;
  /** By tenant. */
  readonly #written = new Map<string, Written>();

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
    if (!this.#isNews(namespace, actor, networkOf(from), clock.monotonic())) return;
    const fields = { event: "address_refused", namespace, actor, address: from };
    logger.warn(fields, "a key was used from a network that its tenant does not allow");
    const details = JSON.stringify({ route });
    const entry = { namespace, actor, action: "access.refuse", target: from, reason: null };
    audit?.append([{ ...entry, phase: "done", details }]).catch((err: unknown) => {
      logger.warn({ err, namespace, actor }, "a refused address could not be entered in the audit");
    });
  }

  /** Remembers the refusal if it is to be written. */
  #isNews(namespace: string, actor: string, network: string, nowMs: number): boolean {
    const known = this.#written.get(namespace);
    const { refusals, callers } = known ?? { refusals: new Map(), callers: new Counts<string>() };
    for (const [old, { actor: by, atMs }] of refusals) {
      if (nowMs - atMs < AUDITED_EVERY_MS) break;
      refusals.delete(old);
      callers.add(by, -1);
    }
    const key = JSON.stringify([actor, network]);
    if (refusals.has(key)) return false;
    // More of them in an hour are no news: neither audit nor log shall grow with them.
    if (refusals.size >= MOST_OF_TENANT || callers.of(actor) >= MOST_OF_CALLER) return false;
    refusals.set(key, { actor, atMs: nowMs });
    callers.add(actor, 1);
    this.#written.set(namespace, { refusals, callers });
    return true;
  }
}
