/**
 * Authenticates the key of a request.
 *
 *   Authorization: Bearer lh_<id>_<secret>
 *        └─▶ record by id (at most 5 s old) ─▶ digests equal? ─▶ still valid? ─▶ caller
 *
 * - The instance that revokes a key refuses it at once, the others within 5 s.
 * - While the control store is unavailable, records of the last 5 s still count. For renewals and
 *   releases, records of the last 10 minutes count, so that holders do not lose their leases because
 *   another database is unavailable. After that the server returns 503.
 * - Unknown ids are cached too, in bounded memory, and few keys are read at once. So guessing keys puts
 *   little load on the store.
 * - With `ifAny`, the server checks every 2 s whether there is a key. Once it requires keys it does so
 *   until it stops: when the last key has ended, all requests are refused.
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

/** `none`: every caller is an admin; `ifAny`: the same until there is a key; `keys`: a key is required. */
export type Auth = "none" | "ifAny" | "keys";

/** Timeout of a read of the control store, regardless of the request's budget, because requests share it. */
const READ_MS = 5_000;
/** Timeout for requests that may use an older record. */
const READ_WITH_STALE_MS = 250;
const FRESH_MS = 5_000;
const STALE_MS = 600_000;
/** Records older than this are refreshed in the background while they still count. */
const AGEING_MS = 2_500;
const CHECK_FOR_KEYS_MS = 2_000;
const MAX_KNOWN = 10_000;
const MAX_UNKNOWN = 1_000;
/** Maximum number of concurrent reads of keys. */
const MAX_READING = 100;

export interface AuthOptions {
  readonly auth: Auth;
  /** Undefined: there are no keys. */
  readonly keys: KeyStore | undefined;
  /** The caller of requests without a key, while none is required. */
  readonly anyone: Caller;
  /** Host names that requests without a key must use; undefined: any. */
  readonly hosts: readonly string[] | undefined;
}

interface Found<T> {
  readonly value: T;
  /** When the read began. */
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
  /** Null until the first check. */
  #requiresKeys: boolean | null;
  #checking: Promise<void> | undefined;
  readonly #keyCheck: Repeating | undefined;

  constructor({ auth, keys, anyone, hosts }: AuthOptions, env: Env) {
    this.#keys = keys;
    this.#env = env;
    this.#anyone = anyone;
    this.#hosts = hosts;
    this.#requiresKeys = auth === "keys" ? true : auth === "none" || !keys ? false : null;
    if (this.#requiresKeys === null) {
      this.#keyCheck = repeat(env, "check for keys", CHECK_FOR_KEYS_MS, () => this.#checkForKeys());
    }
  }

  /**
   * @param keeps whether the request renews or releases what its caller holds
   * @throws UNAUTHENTICATED; FORBIDDEN for an untrusted host; STORE_UNAVAILABLE if the key cannot be read
   */
  async callerOf(request: Request, keeps: boolean): Promise<Caller> {
    if (this.#requiresKeys === null) await this.#inTime(this.#checkForKeys());
    if (!this.#requiresKeys) {
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
          : "the authorization header has no key of this server: send Bearer lh_ID_SECRET",
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
   * Protects a local server from web pages in a browser on the same machine: from their requests, which
   * carry the page's origin, and from DNS rebinding, which uses the page's host name.
   */
  #checkHosts({ url, headers }: Request): void {
    if (!this.#hosts) return;
    const origin = headers.get("origin");
    for (const from of origin === null ? [url] : [url, origin]) {
      const host = URL.canParse(from) ? new URL(from).hostname : from;
      if (this.#hosts.includes(host)) continue;
      const known = this.#hosts.join(", ");
      throw new ProblemError("FORBIDDEN", `without a key, requests must use ${known}, not ${host}`);
    }
  }

  /** Whether the caller's key is still valid. For long requests and streams. */
  async holds({ keyId }: Caller): Promise<boolean> {
    if (keyId === null) return !this.#requiresKeys;
    try {
      const record = await this.#recordOf(keyId);
      if (!record) return false;
      this.#checkNotOver(record);
      return true;
    } catch {
      return false;
    }
  }

  /** Drops a key from the cache, after a change through this instance. */
  forget(keyId: string): void {
    this.#known.delete(keyId);
    this.#reading.delete(keyId);
  }

  async stop(): Promise<void> {
    await this.#keyCheck?.stop();
  }

  #checkNotOver({ value: { revoked, remainingMs }, atMs }: Found<KeyRecord>): void {
    if (revoked) throw unauthenticated("this key was revoked");
    const passedMs = this.#env.clock.monotonic() - atMs;
    if (remainingMs !== null && remainingMs <= passedMs) {
      throw unauthenticated("this key has expired");
    }
  }

  async #recordOf(id: string, keeps = false): Promise<Found<KeyRecord> | null> {
    const nowMs = this.#env.clock.monotonic();
    const known = this.#known.get(id);
    const ageMs = known ? nowMs - known.atMs : Infinity;
    // The next request retries a failed read.
    if (known && ageMs >= AGEING_MS) this.#read(id).catch(() => {});
    if (known && ageMs < FRESH_MS) return known;
    const unknown = this.#unknown.get(id);
    if (unknown && nowMs - unknown.atMs < FRESH_MS) return null;
    if (!known && !this.#reading.has(id) && this.#reading.size >= MAX_READING) {
      throw tooMany("OVERLOADED", "too many keys are read at once", 1_000);
    }
    const stale = keeps && known && ageMs < STALE_MS ? known : undefined;
    try {
      const reading = this.#inTime(this.#read(id), stale ? READ_WITH_STALE_MS : READ_MS);
      const { value, atMs } = await reading;
      return value && { value, atMs };
    } catch (error) {
      if (stale) return stale;
      throw error;
    }
  }

  /** Concurrent requests share a read. */
  #read(id: string): Promise<Found<KeyRecord | null>> {
    const underWay = this.#reading.get(id);
    if (underWay) return underWay;
    const atMs = this.#env.clock.monotonic();
    const finding = this.#keys?.find(id) ?? Promise.resolve(null);
    const reading = finding.then((value) => ({ value, atMs }));
    this.#reading.set(id, reading);
    const settled = (found?: Found<KeyRecord | null>) => {
      // Ignore a read from before the key was changed.
      if (this.#reading.get(id) !== reading) return;
      this.#reading.delete(id);
      if (found) this.#remember(id, found);
    };
    reading.then(settled, () => settled());
    return reading;
  }

  #remember(id: string, { value, atMs }: Found<KeyRecord | null>): void {
    this.#known.delete(id);
    if (value) put(this.#known, id, { value, atMs }, MAX_KNOWN);
    else put(this.#unknown, id, { value, atMs }, MAX_UNKNOWN);
  }

  async #inTime<T>(reading: Promise<T>, timeoutMs = READ_MS): Promise<T> {
    const giveUp = () => {
      throw new ProblemError(
        "STORE_UNAVAILABLE",
        "keys cannot be read: the control store is unavailable; nothing was done",
      );
    };
    try {
      const { clock } = this.#env;
      return await withTimeout(clock, timeoutMs, reading, giveUp, { background: true });
    } catch (error) {
      throw error instanceof LeaseholdError ? storeProblem(error, true) : error;
    }
  }

  #checkForKeys(): Promise<void> {
    if (this.#requiresKeys) return Promise.resolve();
    this.#checking ??= this.#readWhetherKeysExist().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #readWhetherKeysExist(): Promise<void> {
    const any = (await this.#keys?.any()) ?? false;
    if (any && this.#requiresKeys !== true) {
      this.#env.logger.info({ event: "keys_required" }, "an API key exists: requests now need one");
    }
    this.#requiresKeys = any;
  }
}

/** Adds an entry as the newest, and drops the oldest if there are too many. */
function put<T>(kept: Map<string, T>, id: string, found: T, most: number): void {
  kept.delete(id);
  kept.set(id, found);
  if (kept.size <= most) return;
  for (const oldest of kept.keys()) {
    kept.delete(oldest);
    return;
  }
}

/** @param sent whether the request had credentials (RFC 6750) */
function unauthenticated(detail: string, sent = true): ProblemError {
  const challenge = 'Bearer realm="leasehold"';
  return new ProblemError("UNAUTHENTICATED", detail, {
    headers: { "www-authenticate": sent ? `${challenge}, error="invalid_token"` : challenge },
  });
}
