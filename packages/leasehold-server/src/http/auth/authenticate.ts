/**
 * Finds the caller of a request by its API key.
 *
 *   Authorization: Bearer lh_<id>_<secret>
 *        └─▶ record by id (at most 5 s old) ─▶ digests equal? ─▶ still valid? ─▶ caller
 *
 * - The instance that revokes a key refuses it at once, the others within 5 s.
 * - While the control store is unavailable, the server accepts a key whose record it read in the last 5 s. For
 *   renewals and releases it accepts records of the last 10 minutes, so that holders do not lose their leases
 *   because another database is unavailable. All other requests get 503.
 * - The server caches unknown ids too, in bounded memory, and limits how many keys it reads at once. So an
 *   attacker that guesses keys puts little load on the store. An address reads fewer keys than others may still begin
 *   to read. So one that guesses uses half of the limit, two use a third each, and a new key of another is read.
 * - A request with a key that needs none is served as the key's caller too, or refused: never as anyone.
 * - With `ifAny`, the server checks every 2 s whether a key was ever created. From then on it requires keys for
 *   good, also after restarts: when the last key has ended, it refuses all requests. While it cannot check, it accepts
 *   requests without a key as long as it accepts those with one.
 */

import type { Env } from "leasehold";
import { LeaseholdError } from "leasehold";
import {
  type ApiKeyRecord,
  type ApiKeyStore,
  equalDigests,
  parseApiKeyText,
  type Repeating,
  repeat,
  withTimeout,
} from "leasehold/internal";
import { LOOPBACK_HOSTS } from "../../protocol/index.js";
import { Counts } from "../counts.js";
import { ProblemError, tooMany, unauthenticated } from "../problems.js";
import { BootstrapToken } from "./bootstrap.js";
import type { Caller } from "./caller.js";
import { checkHost, checkKeyless, type TrustedHosts } from "./keyless.js";
import { networkOf } from "./network-of.js";
import type { Oidc } from "./oidc/oidc.js";

/** `none`: every caller is an admin; `ifAny`: the same until the first key; `keys`: a key is required. */
export type Auth = "none" | "ifAny" | "keys";

/** Timeout of a read of a key. It is independent of a request's budget, because requests share the read. */
const READ_MS = 5_000;
/** The same for a renewal or release that can use a stale record instead. */
const READ_WITH_STALE_MS = 250;
const FRESH_MS = 5_000;
const STALE_MS = 600_000;
/** A request that uses a record older than this also refreshes it, in the background. */
const AGEING_MS = 2_500;
const CHECK_FOR_KEYS_MS = 2_000;
/** A check reads an ageing record anew and the next one sees it, so a key that ends is noticed within 5 s. */
const CHECK_WAITING_MS = 1_000;
const MAX_CACHED_KEYS = 10_000;
const MAX_CACHED_UNKNOWN = 1_000;
/** Of keys that are not known: one address begins half of them. */
const MAX_CONCURRENT_READS = 200;

const NO_KEYS =
  "no such key: this server requires no API key, and does not know the one in the request. Send none, or create one with leasehold keys create";

export interface AuthOptions {
  readonly auth: Auth;
  /** Undefined if the server has no key store. */
  readonly keys: ApiKeyStore | undefined;
  /** The caller of all requests while no key is required. */
  readonly anyone: Caller;
  /** Host names that requests must use while no key is required. Default: any with `none`, otherwise loopback. */
  readonly hosts: TrustedHosts | undefined;
  /** Creates the first key; undefined: none. */
  readonly bootstrapToken?: string | undefined;
  /** Callers by tokens of an issuer, and by sessions of the console; undefined: none. */
  readonly oidc?: Oidc | undefined;
  /** Receives the id of each valid key that a request has. */
  readonly noteUsed?: ((keyId: string) => void) | undefined;
}

interface CachedRead<T> {
  readonly value: T;
  /** When the read began. */
  readonly atMs: number;
}

export class Authenticator {
  readonly #keys: ApiKeyStore | undefined;
  readonly #auth: Auth;
  readonly #env: Env;
  readonly #anyone: Caller;
  readonly #noteUsed: ((keyId: string) => void) | undefined;
  readonly #hosts: TrustedHosts;
  readonly #known = new Map<string, CachedRead<ApiKeyRecord>>();
  readonly #unknown = new Map<string, CachedRead<null>>();
  readonly #reading = new Map<string, Promise<CachedRead<ApiKeyRecord | null>>>();
  /** Reads of keys that are not known, by the network of the caller; empty: unknown. */
  readonly #guesses = new Counts<string>();
  /** Null until the first check. */
  #requiresKeys: boolean | null;
  /** When the last check that has found no key began. */
  #keylessMs = -Infinity;
  #checking: Promise<void> | undefined;
  /** The checks of requests that wait, with their keys. */
  readonly #watching = new Map<() => Promise<void>, string | null>();
  readonly #keyCheck: Repeating | undefined;
  readonly #bootstrap: BootstrapToken | undefined;
  readonly #oidc: Oidc | undefined;

  constructor(
    { auth, keys, anyone, hosts, bootstrapToken, noteUsed, oidc }: AuthOptions,
    env: Env,
  ) {
    this.#noteUsed = noteUsed;
    this.#auth = auth;
    this.#oidc = oidc;
    this.#keys = keys;
    this.#env = env;
    this.#anyone = anyone;
    this.#hosts = hosts ?? (auth === "none" ? "any" : LOOPBACK_HOSTS);
    if (keys && bootstrapToken !== undefined) {
      this.#bootstrap = new BootstrapToken(bootstrapToken, keys);
    }
    this.#requiresKeys = auth === "keys" ? true : auth === "none" || !keys ? false : null;
    if (this.#requiresKeys === null) {
      this.#keyCheck = repeat(env, "check for keys", CHECK_FOR_KEYS_MS, () => this.#checkForKeys());
    }
  }

  /**
   * @param acceptsStale for renewals and releases: a record of the last 10 minutes suffices
   * @param remoteAddress of the connection, if the host of the app tells it
   * @throws UNAUTHENTICATED; FORBIDDEN for an untrusted host; STORE_UNAVAILABLE if the key cannot be read
   */
  async callerOf(request: Request, acceptsStale: boolean, remoteAddress?: string): Promise<Caller> {
    const keylessForMs = this.#env.clock.monotonic() - this.#keylessMs;
    if (!this.#requiresKeys && this.#keyCheck && keylessForMs >= FRESH_MS) {
      await this.#checkAgainForKeys(acceptsStale && keylessForMs < STALE_MS);
    }
    const header = request.headers.get("authorization");
    const [, text = ""] = /^Bearer +([!-~]+) *$/i.exec(header ?? "") ?? [];
    const signedIn = this.#oidc && (await this.#oidc.callerOf(text, request));
    if (signedIn) return signedIn;
    if (!this.#requiresKeys && !this.#isKey(text)) {
      this.#checkKeyless(request, remoteAddress);
      return this.#anyone;
    }
    if (this.#bootstrap?.matches(text)) {
      return { ...this.#anyone, actor: "bootstrap", bootstrap: this.#bootstrap };
    }
    const named = parseApiKeyText(text);
    if (!named) {
      const orToken = this.#oidc ? ", or a JSON Web Token of its issuer" : "";
      throw unauthenticated(
        header === null
          ? `the request has no API key: send the header Authorization: Bearer lh_ID_SECRET${orToken}`
          : this.#requiresKeys
            ? `the Authorization header has no API key of this server: send Bearer lh_ID_SECRET${orToken}`
            : NO_KEYS,
        header !== null,
      );
    }
    const record = await this.#recordOf(named.id, acceptsStale, remoteAddress);
    if (!record || !equalDigests(record.value.digest, named.digest)) {
      throw unauthenticated(this.#requiresKeys ? "no such key" : NO_KEYS);
    }
    return this.#callerWith(record);
  }

  /**
   * The caller with this key, which something else than its secret proves.
   * @throws as {@link callerOf}
   */
  async callerOfKey(id: string, acceptsStale: boolean, remoteAddress?: string): Promise<Caller> {
    const record = await this.#recordOf(id, acceptsStale, remoteAddress);
    if (!record) throw unauthenticated("the key of this client certificate does not exist");
    return this.#callerWith(record);
  }

  #callerWith(record: CachedRead<ApiKeyRecord>): Caller {
    this.#checkStillValid(record);
    const { id, namespace, role, prefixes, queues } = record.value;
    this.#noteUsed?.(id);
    return { namespace, role, prefixes, queues, actor: `key:${id}`, keyId: id };
  }

  /** With `none`, the host authenticates callers, may be behind a proxy, and may serve pages of other origins. */
  #checkKeyless(request: Request, remoteAddress: string | undefined): void {
    if (this.#auth !== "none") {
      checkKeyless(request, this.#hosts, remoteAddress);
    } else if (this.#hosts !== "any") {
      checkHost(request.url, this.#hosts);
      const origin = request.headers.get("origin");
      if (origin !== null) checkHost(origin, this.#hosts);
    }
  }

  /**
   * Whether a caller that needs no key has sent one all the same. It expects the key's tenant, and must not
   * get another. With `none`, other tokens are credentials of the host or of a proxy.
   */
  #isKey(text: string): boolean {
    return text !== "" && (this.#auth !== "none" || text.startsWith("lh_"));
  }

  /**
   * Checks the caller of a long request again.
   * @param acceptsStale as for the first check
   * @throws UNAUTHENTICATED if its key has ended; STORE_UNAVAILABLE if the key cannot be read
   */
  async checkAgain(caller: Caller, acceptsStale = false): Promise<void> {
    const { keyId, bootstrap, untilMs } = caller;
    if (bootstrap) return;
    if (untilMs !== undefined) return this.#oidc?.checkNotOver(caller);
    if (keyId === null) {
      if (this.#requiresKeys) throw unauthenticated("requests now need an API key", false);
      return;
    }
    const record = await this.#recordOf(keyId, acceptsStale);
    if (!record) throw unauthenticated("this key is gone");
    this.#checkStillValid(record);
  }

  /** Returns whether the caller's key is still valid. For streams. */
  isStillValid(caller: Caller): Promise<boolean> {
    return this.checkAgain(caller).then(
      () => true,
      () => false,
    );
  }

  /**
   * For a request that waits: a signal that aborts with the request's own, at once when this instance changes the
   * caller's key, and within 5 s when the key ends otherwise. Call `stop` at the end of the wait.
   */
  watch(
    caller: Caller,
    request: AbortSignal,
  ): { readonly signal: AbortSignal; readonly stop: () => void } {
    const ended = new AbortController();
    const end = () => ended.abort();
    if (request.aborted) end();
    request.addEventListener("abort", end);
    const { clock } = this.#env;
    const check = async () => {
      timer.cancel();
      if (!(await this.isStillValid(caller))) end();
      else if (this.#watching.has(check)) timer = later();
    };
    const later = () => clock.timer(CHECK_WAITING_MS, () => void check(), { background: true });
    let timer = later();
    this.#watching.set(check, caller.keyId);
    const stop = () => {
      this.#watching.delete(check);
      request.removeEventListener("abort", end);
      timer.cancel();
    };
    return { signal: ended.signal, stop };
  }

  /** Drops a key from the cache, after a change through this instance. */
  forget(keyId: string): void {
    this.#known.delete(keyId);
    this.#reading.delete(keyId);
    for (const [check, watched] of this.#watching) if (watched === keyId) void check();
  }

  async stop(): Promise<void> {
    await this.#keyCheck?.stop();
  }

  #checkStillValid({ value, atMs }: CachedRead<ApiKeyRecord>): void {
    const { revoked, remainingMs, namespace, id } = value;
    const denied = { namespace, actor: `key:${id}` };
    if (revoked) throw unauthenticated("this key was revoked", true, { denied });
    const passedMs = this.#env.clock.monotonic() - atMs;
    if (remainingMs !== null && remainingMs <= passedMs) {
      throw unauthenticated("this key has expired", true, { denied });
    }
  }

  async #recordOf(
    id: string,
    acceptsStale = false,
    remoteAddress = "",
  ): Promise<CachedRead<ApiKeyRecord> | null> {
    const nowMs = this.#env.clock.monotonic();
    const known = this.#known.get(id);
    const ageMs = known ? nowMs - known.atMs : Infinity;
    // The next request retries a failed read.
    if (known && ageMs >= AGEING_MS) this.#read(id).catch(() => {});
    if (known && ageMs < FRESH_MS) return known;
    const unknown = this.#unknown.get(id);
    if (unknown && nowMs - unknown.atMs < FRESH_MS) return null;
    if (!known && !this.#reading.has(id)) this.#readUnknown(id, networkOf(remoteAddress));
    const stale = acceptsStale && known && ageMs < STALE_MS ? known : undefined;
    try {
      const reading = this.#inTime(this.#read(id), stale ? READ_WITH_STALE_MS : READ_MS);
      const { value, atMs } = await reading;
      return value && { value, atMs };
    } catch (error) {
      if (stale) return stale;
      throw error;
    }
  }

  /** Begins a read, for {@link #read} to share. */
  #readUnknown(id: string, network: string): void {
    const guesses = this.#guesses;
    if (guesses.of(network) >= MAX_CONCURRENT_READS - guesses.total) {
      const detail = "the server is reading too many keys at once: retry in 1 s";
      throw tooMany("capacity", detail, 1_000);
    }
    guesses.add(network, 1);
    const settled = () => guesses.add(network, -1);
    this.#read(id).then(settled, settled);
  }

  /** Concurrent requests share a read. */
  #read(id: string): Promise<CachedRead<ApiKeyRecord | null>> {
    const shared = this.#reading.get(id);
    if (shared) return shared;
    const atMs = this.#env.clock.monotonic();
    const lookup = this.#keys?.find(id) ?? Promise.resolve(null);
    const reading = lookup.then((value) => ({ value, atMs }));
    this.#reading.set(id, reading);
    const settled = (found?: CachedRead<ApiKeyRecord | null>) => {
      // Ignore a read that began before the key was changed.
      if (this.#reading.get(id) !== reading) return;
      this.#reading.delete(id);
      if (found) this.#remember(id, found);
    };
    reading.then(settled, () => settled());
    return reading;
  }

  #remember(id: string, { value, atMs }: CachedRead<ApiKeyRecord | null>): void {
    this.#known.delete(id);
    if (value) put(this.#known, id, { value, atMs }, MAX_CACHED_KEYS);
    else put(this.#unknown, id, { value, atMs }, MAX_CACHED_UNKNOWN);
  }

  /** Rejects without what the store reported, such as its address: the caller may have no key. */
  async #inTime<T>(reading: Promise<T>, timeoutMs = READ_MS): Promise<T> {
    const unchecked = (cause?: unknown) =>
      new ProblemError(
        "STORE_UNAVAILABLE",
        "the key cannot be checked: the control store is unavailable; nothing was done. Retry later",
        { cause },
      );
    const giveUp = () => {
      throw unchecked();
    };
    try {
      const { clock } = this.#env;
      return await withTimeout(clock, timeoutMs, reading, giveUp, { background: true });
    } catch (error) {
      throw error instanceof LeaseholdError ? unchecked(error) : error;
    }
  }

  /** @throws STORE_UNAVAILABLE if it cannot, unless the last check suffices */
  async #checkAgainForKeys(lastSuffices: boolean): Promise<void> {
    try {
      await this.#inTime(this.#checkForKeys(), lastSuffices ? READ_WITH_STALE_MS : READ_MS);
    } catch (error) {
      if (!lastSuffices) throw error;
    }
  }

  #checkForKeys(): Promise<void> {
    if (this.#requiresKeys) return Promise.resolve();
    this.#checking ??= this.#readWhetherKeysExisted().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #readWhetherKeysExisted(): Promise<void> {
    const atMs = this.#env.clock.monotonic();
    const existed = (await this.#keys?.existed()) ?? false;
    if (existed) {
      this.#env.logger.info({ event: "keys_required" }, "an API key exists: requests now need one");
    }
    this.#requiresKeys = existed;
    if (!existed) this.#keylessMs = atMs;
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
