/**
 * The engine leases that our keys are attached to. etcd ends one, and deletes its keys, when its ttl
 * has passed without a renewal. Ours are never renewed (a KeepAlive is accepted by the leader alone,
 * and by one that has been deposed too): each is fresh when keys are put under it, and a renewal puts
 * the key under a fresher one in a transaction, which consensus decides like any other.
 *
 *   sent        granted                                                    ends, at the earliest
 *    ├─────────────●───────────────────────────────────────────────────────────────┤  ttl + 1 s
 *    ├── taken within this second ──┤
 *                    └── a key put here has the whole ttl before it ──────────────▶┤
 *
 * So one lease serves all grants and renewals of a ttl within a second, as a session of etcd's own
 * clients serves all locks of its process; after that it is dropped, and ends by itself. It is granted
 * a second longer than asked, and later than we count: a grant frees up to a second late, never early.
 */
import type { Clock } from "../../env/index.js";
import { DEFAULT_TIMEOUT_MS, type EtcdClient } from "./connection.js";
import type { LeaseGrantAnswer, TimeToLiveAnswer } from "./connection-api.js";

/** How long keys are put under one lease, and by how much it outlives what is said of them. */
const SPARE_MS = 1_000;

export interface EngineLease {
  /** A positive int64, in decimal digits. */
  readonly id: string;
  /** What it serves: whole seconds. */
  readonly ttlMs: number;
  /** By our monotonic clock: the engine does not end it earlier. */
  readonly endsMs: number;
}

export class EngineLeases {
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  /** By the ttl in whole seconds: the one that may still be taken, or is being granted. */
  readonly #current = new Map<number, Promise<EngineLease>>();
  /** All that we were granted and that may not have ended yet: when they do, by id. */
  readonly #ends = new Map<string, number>();
  /** The shortest ttl that the server grants, less what is spare. */
  #minSeconds = 0;

  constructor(client: EtcdClient) {
    this.#client = client;
    this.#clock = client.connection.env.clock;
  }

  /** Learns the shortest ttl, which depends on the server's election timeout. */
  async probe(timeoutMs = DEFAULT_TIMEOUT_MS): Promise<{ readonly minMs: number }> {
    const { ttlMs } = await this.#grant(0, this.#clock.monotonic() + timeoutMs);
    this.#minSeconds = ttlMs / 1_000;
    return { minMs: ttlMs };
  }

  /**
   * One under which a key lasts for `ttlMs` from now on, or a little longer.
   * @throws CallFailure; whatever it is, nothing has been done to any key
   */
  async take(ttlMs: number, deadlineMs: number): Promise<EngineLease> {
    const seconds = Math.max(this.#minSeconds, Math.ceil(ttlMs / 1_000));
    const untilMs = this.#clock.monotonic() + seconds * 1_000;
    for (;;) {
      const current = this.#current.get(seconds) ?? this.#next(seconds, deadlineMs);
      const lease = await current;
      if (lease.endsMs >= untilMs) return lease;
      if (this.#current.get(seconds) === current) this.#current.delete(seconds);
    }
  }

  /** The server does not know it any more: somebody revoked it, or it ended under way. */
  forget(ids: readonly string[]): void {
    for (const id of ids) this.#ends.delete(id);
    for (const [seconds, current] of this.#current) {
      const drop = ({ id }: EngineLease) => {
        if (ids.includes(id) && this.#current.get(seconds) === current) {
          this.#current.delete(seconds);
        }
      };
      void current.then(drop, () => {});
    }
  }

  /** What is left of one that we know, by our clock: at least that. */
  knownMs(id: string): number | null {
    const endsMs = this.#ends.get(id);
    return endsMs === undefined ? null : Math.max(0, endsMs - this.#clock.monotonic());
  }

  /**
   * What is left of any: at least that. The leader answers by its own clock; as nobody renews our
   * leases, one that has been deposed knows of no later end than its successor.
   */
  async remainingMs(id: string, deadlineMs: number): Promise<number> {
    const knownMs = this.knownMs(id);
    if (knownMs !== null) return knownMs;
    const { TTL } = await this.#client.call<TimeToLiveAnswer>({
      path: "/v3/lease/timetolive",
      body: { ID: id },
      repeatable: true,
      deadlineMs,
    });
    return Math.max(0, Number(TTL ?? 0)) * 1_000;
  }

  #next(seconds: number, deadlineMs: number): Promise<EngineLease> {
    const next = this.#grant(seconds, deadlineMs);
    this.#current.set(seconds, next);
    next.catch(() => {
      if (this.#current.get(seconds) === next) this.#current.delete(seconds);
    });
    return next;
  }

  async #grant(seconds: number, deadlineMs: number): Promise<EngineLease> {
    const body = { TTL: String(seconds + SPARE_MS / 1_000) };
    // Before a repetition, which grants another one: its end is counted from here all the same.
    const sentMs = this.#clock.monotonic();
    const answer = await this.#client.call<LeaseGrantAnswer>({
      path: "/v3/lease/grant",
      body,
      repeatable: true,
      deadlineMs,
    });
    const grantedMs = Number(answer.TTL) * 1_000;
    const lease = { id: answer.ID, ttlMs: grantedMs - SPARE_MS, endsMs: sentMs + grantedMs };
    this.#ends.set(lease.id, lease.endsMs);
    for (const [id, endsMs] of this.#ends) if (endsMs < sentMs) this.#ends.delete(id);
    return lease;
  }
}
