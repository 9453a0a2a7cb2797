/**
 * API keys: who may do what in which namespace. The text of a key is shown once, when it is made:
 *
 *   lh_<id: 12 hex digits>_<secret: 128 random bits as 32 hex digits>
 *
 * What is stored is the id, by which the record is found, and the SHA-256 of the secret. A secret of
 * 128 random bits cannot be guessed from its digest, so that no slow hash is needed.
 */

import { InvalidOptionError, type Page } from "../core/index.js";
import { digestOf, newLeaseId, type Random } from "../env/index.js";

/**
 * viewer reads; holder takes, renews and releases leases, and works on tasks, under its own prefixes;
 * operator reads, and ends what others hold; admin does all that, and manages keys and limits.
 */
export const ROLES = ["viewer", "holder", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];

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
   */
  readonly prefixes: readonly string[];
  readonly createdAt: string;
  /** Null: never. */
  readonly expiresAt: string | null;
  /** What is left of its time by the store's clock; null: no end; 0: it has ended. */
  readonly remainingMs: number | null;
  /** Whether somebody ended it before its time. */
  readonly revoked: boolean;
}

/** A key as the store keeps it. */
export interface KeyRecord extends ApiKey {
  /** SHA-256 of the secret, 64 hex digits. */
  readonly digest: string;
}

export interface NewKey extends Pick<ApiKey, "id" | "namespace" | "name" | "role" | "prefixes"> {
  readonly digest: string;
  /** From the store's now on; null: no end. */
  readonly lifetimeMs: number | null;
}

/**
 * Good keys of one namespace: more than programs and people need, and where a loop that makes keys
 * ends. Those that have ended do not count: they are collected.
 */
export const MOST_KEYS = 1_000;
/** How long keys that have ended are kept, for whoever looks for one that is in a log. */
export const KEEP_ENDED_KEYS_MS = 30 * 24 * 3_600_000;

export interface KeyQuery {
  /** Null: of all. */
  readonly namespace: string | null;
  /** At most this many; default 100. */
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
}

/** Reads keys; what changes them is an {@link Act}. */
export interface KeyStore {
  /** By its id, ended ones too; null when there is none. */
  find(id: string): Promise<KeyRecord | null>;
  /**
   * The newest first; ended ones too. Never with a digest.
   * @throws InvalidOptionError for a cursor that no page has given
   */
  list(query: KeyQuery): Promise<Page<ApiKey>>;
  /** Whether there is any key that has not ended, in any namespace. */
  any(): Promise<boolean>;
  /** Deletes keys that ended more than `olderThanMs` ago; how many. No act: it ends nobody's right. */
  collect(olderThanMs: number): Promise<number>;
}

export interface KeyRotation extends Pick<ApiKey, "namespace" | "id"> {
  readonly overlapMs: number;
  readonly successor: Pick<KeyRecord, "id" | "digest">;
}

export type RotateOutcome =
  | { readonly status: "rotated"; readonly old: ApiKey; readonly key: ApiKey }
  /** The namespace has no such key, or it has ended. */
  | { readonly status: "notGood" }
  /** There are {@link MOST_KEYS} without the successor. */
  | { readonly status: "full" };

/** Changes of keys, within an act. Each is one step: nothing comes between its looks and its changes. */
export interface KeyActs {
  /** Null when the namespace has {@link MOST_KEYS} that are good. */
  add(key: NewKey): Promise<ApiKey | null>;
  /**
   * Adds a key with the rights of one that is good, and as long a life; ends that one in `overlapMs`
   * from the store's now on, if it would live longer; 0: now, as revoked.
   */
  rotate(rotation: KeyRotation): Promise<RotateOutcome>;
  /** Ends a key now. Null when the namespace has none of this id; one that has ended stays as it is. */
  revoke(namespace: string, id: string): Promise<ApiKey | null>;
}

/** @throws InvalidOptionError, for stores: the cursor comes from no page of keys */
export function unknownKeyCursor(): never {
  throw new InvalidOptionError("cursor", "must come from a page of keys");
}

/** The namespace has as many good keys as it may. */
export class TooManyKeysError extends Error {
  override readonly name = "TooManyKeysError";

  constructor() {
    super(`at most ${MOST_KEYS} keys of one tenant at once: revoke those that nobody uses`);
  }
}

export interface KeyText {
  readonly id: string;
  /** The whole key, to be shown once and stored nowhere. */
  readonly text: string;
  readonly digest: string;
}

export function newKeyText(random: Random): KeyText {
  const id = newLeaseId(random).slice(0, 12);
  const secret = newLeaseId(random);
  return { id, text: `lh_${id}_${secret}`, digest: digestOf(secret) };
}

/** What a text that may be a key says; null when it has not the form of one. */
export function parseKeyText(text: string): Pick<KeyText, "id" | "digest"> | null {
  const [, id, secret] = /^lh_([0-9a-f]{12})_([0-9a-f]{32})$/.exec(text) ?? [];
  return id !== undefined && secret !== undefined ? { id, digest: digestOf(secret) } : null;
}

/** Whether two digests are equal, in a time that does not tell where they differ. */
export function equalDigests(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let different = 0;
  for (let at = 0; at < a.length; at += 1) different |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return different === 0;
}
