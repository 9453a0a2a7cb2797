/**
 * The session that holds all keys of this client. Consul ends a session that is not renewed, and deletes its
 * keys. It ends at the leader's timer, between one and two times its TTL after the last renewal; a new leader
 * starts all timers over:
 *
 *   sent      answered            trusted until       the earliest end      ended by
 *    ├───────────●──────────────────────┤ TTL ───────────────┤ 2 x TTL ·········▶
 *
 * A renewal changes nothing in Raft, so a leader that was deposed without noticing answers it too. Its successor
 * counts 2 x TTL from its own election, and a leader notices within seconds that it has lost the majority. So the
 * client trusts the session for one TTL after it sent the last answered renewal.
 *
 * A session belongs to a node of the catalog and ends with it. By default this is the node of the agent that made
 * it, which a cluster removes some seconds after a server has died, though the holder renews at another server. So
 * sessions belong to a node of their own, which no agent runs on. They have no health checks: with Consul's default
 * check, a session would end with the health of its node while its holder trusts it.
 */

import { type Repeating, repeat, withTimeout } from "../../env/index.js";
import { StoreUnavailableError } from "../../lease/index.js";
import type { ConsulClient } from "./connection.js";
import { closed, parsed } from "./failures.js";

/** The node of all sessions, in the catalog. */
export const NODE = "leasehold";
/** A node needs an address. Nothing connects to this one. */
const NODE_ADDRESS = "127.0.0.1";
/** A session is renewed this often while anything depends on it. */
const RENEWALS_PER_TTL = 3;
const CLOSING_MS = 2_000;

export class Sessions {
  readonly #client: ConsulClient;
  readonly #renewals: Repeating;
  #id: string | null = null;
  #lastsUntilMs = Number.NEGATIVE_INFINITY;
  #opening: Promise<string> | undefined;
  #renewing: Promise<void> | undefined;

  #closed = false;

  /**
   * @param isNeeded whether anything depends on the session, so that it is renewed
   */
  constructor(
    client: ConsulClient,
    readonly isNeeded: () => boolean,
  ) {
    this.#client = client;
    const { env, sessionTtlMs } = client.connection;
    this.#renewals = repeat(env, "Consul session", sessionTtlMs / RENEWALS_PER_TTL, async () => {
      if (this.#id !== null && this.isNeeded()) await this.#renew(this.#id);
    });
  }

  /** The id of the session; null if there is none. */
  get id(): string | null {
    return this.#id;
  }

  /** Until then the session surely lasts, by this process's monotonic clock. */
  get lastsUntilMs(): number {
    return this.#lastsUntilMs;
  }

  /**
   * Returns the id of a session that lasts at least `ttlMs` from now: makes one if there is none.
   * @throws LeaseholdError; no key has changed then
   */
  async take(ttlMs: number, deadlineMs: number): Promise<string> {
    const { clock } = this.#client.connection.env;
    for (;;) {
      if (this.#closed) throw closed();
      const id = this.#id ?? (await this.#within(deadlineMs, this.#open()));
      if (this.#lastsUntilMs - clock.monotonic() >= ttlMs) return id;
      await this.#within(deadlineMs, this.#renew(id));
    }
  }

  /** Called when Consul says that a session has ended. */
  lost(id: string): void {
    if (this.#id !== id) return;
    const { env, agents } = this.#client.connection;
    // One that nothing depended on has ended for want of renewals.
    if (this.isNeeded()) {
      const store = `Consul at ${agents.join(",")}`;
      env.logger.warn({ store }, "the session has ended, with all its leases");
    }
    this.#id = null;
    this.#lastsUntilMs = Number.NEGATIVE_INFINITY;
  }

  /** Ends the session, which frees all its keys. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#renewals.stop();
    await this.#opening?.catch(() => {});
    const id = this.#id;
    this.#id = null;
    if (id === null) return;
    const path = `session/destroy/${id}`;
    const deadlineMs = this.#client.deadline(CLOSING_MS);
    // It ends by itself if this fails.
    await this.#client.call({ method: "PUT", path, deadlineMs, repeatable: true }).catch(() => {});
  }

  #open(): Promise<string> {
    this.#opening ??= this.#create().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #create(): Promise<string> {
    const { env, sessionTtlMs } = this.#client.connection;
    await this.#registerNode();
    const body = JSON.stringify({
      Name: "leasehold",
      Node: NODE,
      TTL: `${sessionTtlMs}ms`,
      Behavior: "delete",
      LockDelay: "0s",
      NodeChecks: [],
    });
    const sentMs = env.clock.monotonic();
    // A session of a lost answer holds nothing, and ends by itself.
    const { text } = await this.#client.call({
      method: "PUT",
      path: "session/create",
      body,
      repeatable: true,
    });
    const { ID: id } = parsed<{ readonly ID: string }>(text);
    this.#id = id;
    this.#lastsUntilMs = sentMs + sessionTtlMs;
    return id;
  }

  /** Changes nothing if the catalog has the node, and then needs no right to it. */
  async #registerNode(): Promise<void> {
    const { datacenter } = this.#client.connection;
    const body = JSON.stringify({
      Node: NODE,
      Address: NODE_ADDRESS,
      SkipNodeUpdate: true,
      // This endpoint ignores `?dc=`.
      ...(datacenter !== null && { Datacenter: datacenter }),
    });
    const path = "catalog/register";
    await this.#client.call({ method: "PUT", path, body, repeatable: true });
  }

  #renew(id: string): Promise<void> {
    this.#renewing ??= this.#extend(id).finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #extend(id: string): Promise<void> {
    const { env, sessionTtlMs } = this.#client.connection;
    const sentMs = env.clock.monotonic();
    const { status } = await this.#client.call({
      method: "PUT",
      path: `session/renew/${id}`,
      accepts: [404],
      repeatable: true,
    });
    if (status === 404) this.lost(id);
    else if (this.#id === id) this.#lastsUntilMs = sentMs + sessionTtlMs;
  }

  /** Callers share a call, but each has a deadline of its own. */
  #within<T>(deadlineMs: number, shared: Promise<T>): Promise<T> {
    const { clock } = this.#client.connection.env;
    return withTimeout(clock, Math.max(0, deadlineMs - clock.monotonic()), shared, () => {
      const why = "Consul failed: no session was confirmed within the timeout";
      throw new StoreUnavailableError(why, { outcome: "none" });
    });
  }
}
