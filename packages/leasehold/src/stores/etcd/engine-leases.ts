/**
 * The engine leases that the store's keys are attached to. etcd ends an engine lease, and deletes its
 * keys, when its TTL has passed without a KeepAlive. The store sends no KeepAlive, because even a
 * deposed leader accepts one. Each engine lease is fresh when keys are attached to it. A renewal
 * attaches the key to a fresher one in a transaction, which needs consensus.
 *
 *   sent        granted                                                    earliest end
 *    ├─────────────●───────────────────────────────────────────────────────────────┤  ttl + 1 s
 *    ├── used within this second ───┤
 *                    └── a key put here lasts the whole ttl ──────────────▶┤
 *
 * So one engine lease serves all grants and renewals of one TTL within a second. After that the store
 * abandons it, and it expires. Its TTL is a second longer than requested and counts from before the
 * call, so a grant ends up to a second late, never early.
 */
import type { Clock } from "../../env/index.js";
import { DEFAULT_TIMEOUT_MS, type EtcdClient } from "./connection.js";

/** How long new keys are attached to one engine lease, and by how much it outlives the reported TTL. */
const SPARE_MS = 1_000;

export interface EngineLease {
  /** A positive int64, in decimal. */
  readonly id: string;
  /** The TTL it serves, in whole seconds. */
  readonly ttlMs: number;
  /** By this process's monotonic clock: etcd does not end it earlier. */
  readonly endsMs: number;
}

export class EngineLeases {
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  /** The current engine lease for each TTL in whole seconds. */
  readonly #current = new Map<number, EngineLease>();
  /** Engine leases that are still being granted, by their TTLs in whole seconds. */
  readonly #granting = new Map<number, Promise<EngineLease>>();
  /** When the granted engine leases that may still be alive end, at the earliest and at the latest, by id. */
  readonly #ends = new Map<string, { readonly earliestMs: number; readonly latestMs: number }>();
  #sweptMs = -Infinity;
  /** The shortest TTL that the server grants, minus the margin. */
  #minSeconds = 0;

  constructor(client: EtcdClient) {
    this.#client = client;
    this.#clock = client.connection.env.clock;
  }

  /** Reads the shortest TTL, which depends on the server's election timeout. */
  async probe(timeoutMs = DEFAULT_TIMEOUT_MS): Promise<{ readonly minMs: number }> {
    const { ttlMs } = await this.#grant(0, this.#clock.monotonic() + timeoutMs);
    this.#minSeconds = ttlMs / 1_000;
    return { minMs: ttlMs };
  }

  /**
   * Returns an engine lease under which a key lasts for `ttlMs` from now, or a little longer.
   * @throws CallFailure; no key has changed then
   */
  async take(ttlMs: number, deadlineMs: number): Promise<EngineLease> {
    const current = this.current(ttlMs);
    if (current) return current;
    const seconds = this.#secondsOf(ttlMs);
    const untilMs = this.#clock.monotonic() + seconds * 1_000;
    for (;;) {
      const lease = await (this.#granting.get(seconds) ?? this.#next(seconds, deadlineMs));
      if (lease.endsMs >= untilMs) return lease;
    }
  }

  /** Returns what {@link take} would without a call; null: it would have to call. */
  current(ttlMs: number): EngineLease | null {
    const seconds = this.#secondsOf(ttlMs);
    const lease = this.#current.get(seconds);
    return lease && lease.endsMs >= this.#clock.monotonic() + seconds * 1_000 ? lease : null;
  }

  /** Forgets an engine lease that the server no longer knows: it was revoked, or it ended meanwhile. */
  forget(ids: readonly string[]): void {
    for (const id of ids) this.#ends.delete(id);
    for (const [seconds, { id }] of this.#current) {
      if (ids.includes(id)) this.#current.delete(seconds);
    }
  }

  /** Returns a lower bound of the remaining time of a known engine lease, by this process's clock. */
  knownMs(id: string): number | null {
    const ends = this.#ends.get(id);
    return ends === undefined ? null : Math.max(0, ends.earliestMs - this.#clock.monotonic());
  }

  /** Whether a key lasts as long under `lease` as under the engine lease `id`, as far as that is known without a call. */
  outlasts(lease: EngineLease, id: string): boolean {
    const latestMs = this.#ends.get(id)?.latestMs ?? Number.POSITIVE_INFINITY;
    return lease.id === id || lease.endsMs >= latestMs;
  }

  /** Returns a lower bound of what is left of the engine lease `id` if it may end later than `lease`, and else null. */
  async leftAfter(lease: EngineLease, id: string, deadlineMs: number): Promise<number | null> {
    if (this.outlasts(lease, id)) return null;
    const isKnown = this.#ends.has(id);
    const leftMs = await this.remainingMs(id, deadlineMs);
    // etcd says the whole seconds.
    return isKnown || lease.endsMs - this.#clock.monotonic() < leftMs + 1_000 ? leftMs : null;
  }

  /**
   * Returns a lower bound of the remaining time of any engine lease. The leader responds by its own
   * clock. Leasehold's engine leases are never renewed, so a deposed leader knows no later end than its
   * successor.
   */
  async remainingMs(id: string, deadlineMs: number): Promise<number> {
    const knownMs = this.knownMs(id);
    if (knownMs !== null) return knownMs;
    const { TTL } = await this.#client.call({
      method: "LeaseTimeToLive",
      body: { ID: id },
      repeatable: true,
      deadlineMs,
    });
    return Math.max(0, Number(TTL ?? 0)) * 1_000;
  }

  async #next(seconds: number, deadlineMs: number): Promise<EngineLease> {
    const granting = this.#grant(seconds, deadlineMs);
    this.#granting.set(seconds, granting);
    try {
      const lease = await granting;
      this.#current.set(seconds, lease);
      return lease;
    } finally {
      this.#granting.delete(seconds);
    }
  }

  #secondsOf(ttlMs: number): number {
    return Math.max(this.#minSeconds, Math.ceil(ttlMs / 1_000));
  }

  async #grant(seconds: number, deadlineMs: number): Promise<EngineLease> {
    const body = { TTL: String(seconds + SPARE_MS / 1_000) };
    // Taken before any retry, which would grant another one: its end still counts from here.
    const sentMs = this.#clock.monotonic();
    const answer = await this.#client.call({
      method: "LeaseGrant",
      body,
      repeatable: true,
      deadlineMs,
    });
    const grantedMs = Number(answer.TTL) * 1_000;
    const lease = { id: answer.ID, ttlMs: grantedMs - SPARE_MS, endsMs: sentMs + grantedMs };
    const latestMs = this.#clock.monotonic() + grantedMs;
    this.#ends.set(lease.id, { earliestMs: lease.endsMs, latestMs });
    this.#sweep(sentMs);
    return lease;
  }

  /** Seldom: thousands may be alive. */
  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < SPARE_MS) return;
    this.#sweptMs = nowMs;
    for (const [id, { latestMs }] of this.#ends) if (latestMs < nowMs) this.#ends.delete(id);
  }
}
