/**
 * API keys: who may do what in which namespace. The text of a key is shown once, when it is created:
 *
 *   lh_<id: 12 hex digits>_<secret: 128 random bits as 32 hex digits><checksum: 6 digits of base 62>
 *
 * The checksum is that of all text before it. With it, a program that looks for secrets in files recognizes a key without
 * asking a server. Keys of older releases have none.
 *
 * The store keeps the id, by which it finds the record, and the SHA-256 of the secret. A secret of 128
 * random bits cannot be guessed from its digest, so it needs no slow hash.
 */

import { checksumOf } from "../env/checksum.js";
import { digestOf, type Random, randomHex } from "../env/index.js";
import { InvalidOptionError, type Page } from "../lease/index.js";

/**
 * viewer reads. holder acquires, renews and releases leases and works on tasks, under its own prefixes.
 * operator reads, and ends the leases of others. admin does all of that, and manages keys and limits. scraper reads the
 * metrics, and nothing else.
 */
export type Role = "scraper" | "viewer" | "holder" | "operator" | "admin";
export const ROLES: readonly Role[] = ["scraper", "viewer", "holder", "operator", "admin"];

/** What may be shown of a key. Times are the store's, as ISO 8601. */
export interface ApiKey {
  /** Public: stands in the key, in lists and as the actor in the audit. */
  readonly id: string;
  readonly namespace: string;
  /** For people: whose it is. 1-256 bytes. */
  readonly name: string;
  readonly role: Role;
  /**
   * Of a holder: the resources that it may lease begin with one of these; `""` is any. Tasks have
   * leases named `task:ID`, so a key works on tasks if one of its prefixes is a beginning of `task:`.
   * Of an operator: the resources on which it may act; without any, and without queues, it may act on everything.
   * Of other roles: none, because prefixes do not limit them.
   */
  readonly prefixes: readonly string[];
  /** Of an operator: the queues on whose tasks it may act. Of other roles: none. */
  readonly queues: readonly string[];
  readonly createdAt: string;
  /** Null: never. */
  readonly expiresAt: string | null;
  /** Remaining time by the store's clock; null: no end; 0: it has ended. */
  readonly remainingMs: number | null;
  /** Whether an operator ended it before its expiry. */
  readonly revoked: boolean;
  /** The last use that a server has noted, within a few minutes; null: none. */
  readonly lastUsedAt: string | null;
}

/** A key as the store keeps it. */
export interface ApiKeyRecord extends ApiKey {
  /** SHA-256 of the secret, 64 hex digits. */
  readonly digest: string;
}

/** An API key to create. The store keeps the digest of its secret, not the secret. */
export interface NewApiKey extends Pick<ApiKey, "id" | "namespace" | "name" | "role" | "prefixes"> {
  /** Default: none. */
  readonly queues?: readonly string[] | undefined;
  readonly digest: string;
  /** From the store's now on; null: no end. */
  readonly lifetimeMs: number | null;
}

/**
 * The most live keys of one namespace: more than programs and people need, and a bound for a loop that
 * creates keys. Ended keys do not count: they are collected.
 */
export const MOST_KEYS = 1_000;
/** How long ended keys are kept, so that an operator can look up an id from a log. */
export const KEEP_ENDED_KEYS_MS = 30 * 24 * 3_600_000;
/** A key's use is noted at most so often. Several servers may do so, and a busy key is in use all the time. */
export const NOTE_USED_EVERY_MS = 60_000;

/** Which API keys to list. */
export interface ApiKeyQuery {
  /** Null: of all. */
  readonly namespace: string | null;
  /** At most this many; default 100. */
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
}

/** Reads keys; what changes them is an {@link Act}. */
export interface ApiKeyStore {
  /** By its id, ended ones too; null when there is none. */
  find(id: string): Promise<ApiKeyRecord | null>;
  /**
   * The newest first; ended ones too. Never with a digest.
   * @throws InvalidOptionError for a cursor that is not from a page
   */
  list(query: ApiKeyQuery): Promise<Page<ApiKey>>;
  /** Whether there is any key that has not ended, in any namespace. */
  any(): Promise<boolean>;
  /**
   * Whether a key was ever created, in any namespace: still true when all keys have ended and were collected.
   * A server that has once required keys must not admit callers without one after a restart.
   */
  existed(): Promise<boolean>;
  /**
   * Notes that keys are in use. Of a key that was noted within the last minute, and of one that does not exist, it notes
   * nothing. It changes no right, so it has no audit entry.
   */
  noteUsed(ids: readonly string[]): Promise<void>;
  /**
   * Deletes keys that ended more than `olderThanMs` ago. Returns how many. It revokes no right, so it has
   * no audit entry.
   */
  collect(olderThanMs: number): Promise<number>;
}

/** Replaces a key by a successor. Both are valid for `overlapMs` milliseconds. */
export interface ApiKeyRotation extends Pick<ApiKey, "namespace" | "id"> {
  readonly overlapMs: number;
  readonly successor: Pick<ApiKeyRecord, "id" | "digest">;
}

/** What became of a rotation. */
export type RotateOutcome =
  | { readonly status: "rotated"; readonly old: ApiKey; readonly key: ApiKey }
  /** The namespace has no such key, or it has ended without a successor. */
  | { readonly status: "notGood" }
  /** An earlier rotation made this successor, whether the key has ended since or not. */
  | { readonly status: "rotatedBefore"; readonly successor: string }
  /** There are {@link MOST_KEYS} without the successor. */
  | { readonly status: "full" };

/** Changes of keys, within an operator action. Each reads and writes in one atomic step. */
export interface ApiKeyActs {
  /** Null when the namespace has {@link MOST_KEYS} that are good. */
  add(key: NewApiKey): Promise<ApiKey | null>;
  /**
   * Adds a key with the rights and lifetime of a live key, unless that has a successor already. The old key
   * ends `overlapMs` from the store's now, unless it expires earlier. 0: it is revoked now.
   */
  rotate(rotation: ApiKeyRotation): Promise<RotateOutcome>;
  /** Ends a key now. Null when the namespace has none of this id; one that has ended stays as it is. */
  revoke(namespace: string, id: string): Promise<ApiKey | null>;
}

/** @throws InvalidOptionError, for stores: the cursor comes from no page of keys */
export function unknownApiKeyCursor(): never {
  throw new InvalidOptionError("cursor", "must come from a page of keys");
}

/** The namespace has as many good keys as it may. */
export class TooManyApiKeysError extends Error {
  override readonly name = "TooManyApiKeysError";

  constructor() {
    super(`at most ${MOST_KEYS} keys of one tenant at once: revoke unused keys`);
  }
}

/** An earlier rotation has replaced the key. Its remaining time is not its lifetime. */
export class ApiKeyRotatedError extends Error {
  override readonly name = "ApiKeyRotatedError";

  constructor(
    id: string,
    readonly successor: string,
  ) {
    super(`key ${id} was rotated before: rotate its successor, ${successor}`);
  }
}

export interface ApiKeyText {
  readonly id: string;
  /** The whole key, to be shown once and stored nowhere. */
  readonly text: string;
  readonly digest: string;
}

export function newApiKeyText(random: Random): ApiKeyText {
  const id = randomHex(random, 6);
  const secret = randomHex(random, 16);
  const text = `lh_${id}_${secret}`;
  return { id, text: `${text}${checksumOf(text)}`, digest: digestOf(secret) };
}

/** Of a key without its checksum: its mark, its id and its secret. */
const TEXT_LENGTH = "lh_".length + 12 + "_".length + 32;

/** Parses the text of a key; null if it does not have the form of one, or another checksum. */
export function parseApiKeyText(key: string): Pick<ApiKeyText, "id" | "digest"> | null {
  const text = withoutChecksum(key);
  const [, id, secret] = /^lh_([0-9a-f]{12})_([0-9a-f]{32})$/.exec(text) ?? [];
  return id !== undefined && secret !== undefined ? { id, digest: digestOf(secret) } : null;
}

/** The key itself if its checksum is wrong, or if it has none, as those of earlier releases. */
function withoutChecksum(key: string): string {
  const text = key.slice(0, TEXT_LENGTH);
  return key === text + checksumOf(text) ? text : key;
}

/** Compares two digests in constant time. */
export function equalDigests(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let different = 0;
  for (let at = 0; at < a.length; at += 1) different |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return different === 0;
}
