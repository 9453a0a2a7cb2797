/**
 * From the key that a request carries to its caller.
 *
 *   Authorization: Bearer lh_<id>_<secret>
 *        └─▶ record by id (read at most 5 s ago) ─▶ digests equal? ─▶ not over? ─▶ caller
 *
 * - A key that is revoked is refused within 5 s by every instance, at once by the one that is told.
 * - While the control store does not answer, keys read within the last 5 s still count, and for what
 *   keeps a lease those of the last 10 minutes: nobody loses one because another database is away.
 *   Then 503.
 * - Ids that nobody has are remembered too, a bounded number, and few keys are looked for at once:
 *   guessing costs the store little.
 * - Where keys are asked for as soon as there is one, that is looked for every 2 s. An instance that
 *   has begun to ask goes on until it ends: when the last key is over, nobody comes in.
 */

import type { Env } from "leasehold";
import { LeaseholdError } from "leasehold";
import {
  equalDigests,
  type KeyRecord,
  type KeyStore,
  parseKeyText,
  type Repeating,
  repeat,
  withTimeout,
} from "leasehold/internal";
import { ProblemError, storeProblem, tooMany } from "../problems.js";
import type { Caller } from "./caller.js";

/** `none`: anybody is an admin; `ifAny`: as long as there is no key; `keys`: nobody without one. */
export type Auth = "none" | "ifAny" | "keys";

/** Of a look into the control store, whatever the request's own budget: others wait for it too. */
const READ_MS = 5_000;
/** Of one for whom a record that is older would do. */
const READ_TO_KEEP_MS = 250;
const FRESH_MS = 5_000;
const KEEPING_MS = 600_000;
/** From this age on a record is read again while it still counts, so that nobody waits for it. */
const AGEING_MS = 2_500;
const LOOK_FOR_KEYS_MS = 2_000;
const MOST_KNOWN = 10_000;
const MOST_UNKNOWN = 1_000;
/** Of keys that are looked for at once. */
const MOST_READING = 100;

export interface AuthOptions {
  readonly auth: Auth;
  /** Undefined: there are none. */
  readonly keys: KeyStore | undefined;
  /** The caller where no key is asked for. */
  readonly anyone: Caller;
  /** By which such a caller must have named this server; undefined: any name. */
  readonly hosts: readonly string[] | undefined;
}

interface Found<T> {
  readonly value: T;
  /** When the reading began. */
  readonly atMs: number;
}

export class Authenticator {
  readonly #keys: KeyStore | undefined;
  readonly #env: Env;
  readonly #anyone: Caller;
  readonly #hosts: readonly string[] | undefined;
  readonly #known = new Map<string, Found<KeyRecord>>();
  readonly #unknown = new Map<string, Found<null>>();
  readonly #reading = new Map<string, Promise<Found<KeyRecord | null>>>();
  /** Null: nobody has looked yet. */
  #asks: boolean | null;
  #looking: Promise<void> | undefined;
  readonly #look: Repeating | undefined;

  constructor({ auth, keys, anyone, hosts }: AuthOptions, env: Env) {
    this.#keys = keys;
    this.#env = env;
    this.#anyone = anyone;
    this.#hosts = hosts;
    this.#asks = auth === "keys" ? true : auth === "none" || !keys ? false : null;
    if (this.#asks === null) {
      this.#look = repeat(env, "look for keys", LOOK_FOR_KEYS_MS, () => this.#lookForKeys());
    }
  }

  /**
   * @param keeps whether the request keeps what its caller has
   * @throws UNAUTHENTICATED; FORBIDDEN for a host that is not known; STORE_UNAVAILABLE when it cannot
   *   be known
   */
  async callerOf(request: Request, keeps: boolean): Promise<Caller> {
    if (this.#asks === null) await this.#inTime(this.#lookForKeys());
    if (!this.#asks) {
      this.#checkHosts(request);
      return this.#anyone;
    }
    const header = request.headers.get("authorization");
    const [, text = ""] = /^Bearer +([!-~]+) *$/i.exec(header ?? "") ?? [];
    const named = parseKeyText(text);
    if (!named) {
      throw unauthenticated(
        header === null
          ? "send authorization: Bearer KEY, with a key of this server"
          : "what authorization says is no key of this server: Bearer lh_ID_SECRET",
        header !== null,
      );
    }
    const record = await this.#recordOf(named.id, keeps);
    if (!record || !equalDigests(record.value.digest, named.digest)) {
      throw unauthenticated("no such key");
    }
    this.#checkNotOver(record);
    const { id, namespace, role, prefixes } = record.value;
    return { namespace, role, prefixes, actor: `key:${id}`, keyId: id };
  }

  /**
   * A web page of somebody else must not send a browser here that runs on this machine: neither by its
   * own requests, which name their origin, nor under a name of its own that leads to this address.
   */
  #checkHosts({ url, headers }: Request): void {
    if (!this.#hosts) return;
    const origin = headers.get("origin");
    for (const from of origin === null ? [url] : [url, origin]) {
      const host = URL.canParse(from) ? new URL(from).hostname : from;
      if (this.#hosts.includes(host)) continue;
      const known = this.#hosts.join(", ");
      throw new ProblemError("FORBIDDEN", `without keys only ${known} may be asked, not ${host}`);
    }
  }

  /** Whether a caller who was let in would still be, for what lasts long. */
  async holds({ keyId }: Caller): Promise<boolean> {
    if (keyId === null) return !this.#asks;
    try {
      const record = await this.#recordOf(keyId);
      if (!record) return false;
      this.#checkNotOver(record);
      return true;
    } catch {
      return false;
    }
  }

  /** The key was changed through this instance. */
  forget(keyId: string): void {
    this.#known.delete(keyId);
    this.#reading.delete(keyId);
  }

  async stop(): Promise<void> {
    await this.#look?.stop();
  }

  #checkNotOver({ value: { revoked, remainingMs }, atMs }: Found<KeyRecord>): void {
    if (revoked) throw unauthenticated("this key was revoked");
    const passedMs = this.#env.clock.monotonic() - atMs;
    if (remainingMs !== null && remainingMs <= passedMs) {
      throw unauthenticated("this key's time is over");
    }
  }

  async #recordOf(id: string, keeps = false): Promise<Found<KeyRecord> | null> {
    const nowMs = this.#env.clock.monotonic();
    const known = this.#known.get(id);
    const ageMs = known ? nowMs - known.atMs : Infinity;
    // A reading that fails is tried again by whoever comes next.
    if (known && ageMs >= AGEING_MS) this.#read(id).catch(() => {});
    if (known && ageMs < FRESH_MS) return known;
    const unknown = this.#unknown.get(id);
    if (unknown && nowMs - unknown.atMs < FRESH_MS) return null;
    if (!known && !this.#reading.has(id) && this.#reading.size >= MOST_READING) {
      throw tooMany("OVERLOADED", "too many keys are looked for at once", 1_000);
    }
    const wouldDo = keeps && known && ageMs < KEEPING_MS ? known : undefined;
    try {
      const reading = this.#inTime(this.#read(id), wouldDo ? READ_TO_KEEP_MS : READ_MS);
      const { value, atMs } = await reading;
      return value && { value, atMs };
    } catch (error) {
      if (wouldDo) return wouldDo;
      throw error;
    }
  }

  /** Those who ask at the same time share one. */
  #read(id: string): Promise<Found<KeyRecord | null>> {
    const underWay = this.#reading.get(id);
    if (underWay) return underWay;
    const atMs = this.#env.clock.monotonic();
    const finding = this.#keys?.find(id) ?? Promise.resolve(null);
    const reading = finding.then((value) => ({ value, atMs }));
    this.#reading.set(id, reading);
    const settled = (found?: Found<KeyRecord | null>) => {
      // What was read before the key was changed does not count.
      if (this.#reading.get(id) !== reading) return;
      this.#reading.delete(id);
      if (found) this.#remember(id, found);
    };
    reading.then(settled, () => settled());
    return reading;
  }

  #remember(id: string, { value, atMs }: Found<KeyRecord | null>): void {
    this.#known.delete(id);
    if (value) put(this.#known, id, { value, atMs }, MOST_KNOWN);
    else put(this.#unknown, id, { value, atMs }, MOST_UNKNOWN);
  }

  async #inTime<T>(reading: Promise<T>, timeoutMs = READ_MS): Promise<T> {
    const giveUp = () => {
      throw new ProblemError("STORE_UNAVAILABLE", "keys cannot be read now; nothing was done");
    };
    try {
      const { clock } = this.#env;
      return await withTimeout(clock, timeoutMs, reading, giveUp, { background: true });
    } catch (error) {
      throw error instanceof LeaseholdError ? storeProblem(error, true) : error;
    }
  }

  #lookForKeys(): Promise<void> {
    if (this.#asks) return Promise.resolve();
    this.#looking ??= this.#lookNow().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookNow(): Promise<void> {
    const any = (await this.#keys?.any()) ?? false;
    if (any && this.#asks !== true) {
      this.#env.logger.info({ event: "keys_asked_for" }, "there are keys: requests need one");
    }
    this.#asks = any;
  }
}

/** As the newest; the oldest goes when there are too many. */
function put<T>(kept: Map<string, T>, id: string, found: T, most: number): void {
  kept.delete(id);
  kept.set(id, found);
  if (kept.size <= most) return;
  for (const oldest of kept.keys()) {
    kept.delete(oldest);
    return;
  }
}

/** @param sent whether there was something that could have been a key (RFC 6750) */
function unauthenticated(detail: string, sent = true): ProblemError {
  const challenge = 'Bearer realm="leasehold"';
  return new ProblemError("UNAUTHENTICATED", detail, {
    headers: { "www-authenticate": sent ? `${challenge}, error="invalid_token"` : challenge },
  });
}
