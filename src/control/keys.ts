/**
 * API keys: who may do what in which namespace. The text of a key is shown once, when it is made:
 *
 *   lh_<id: 12 hex digits>_<secret: 128 random bits as 32 hex digits>
 *
 * What is stored is the id, by which the record is found, and the SHA-256 of the secret. A secret of
 * 128 random bits cannot be guessed from its digest, so that no slow hash is needed.
 */
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

/** Reads keys; what changes them is an {@link Act}. */
export interface KeyStore {
  /** By its id, ended ones too; null when there is none. */
  find(id: string): Promise<KeyRecord | null>;
  /** Of a namespace, or of all; the newest first; ended ones too. Never with a digest. */
  list(namespace: string | null): Promise<readonly ApiKey[]>;
  /** Whether there is any key that has not ended, in any namespace. */
  any(): Promise<boolean>;
}

/** Changes of keys, within an act. */
export interface KeyActs {
  add(key: NewKey): Promise<ApiKey>;
  /**
   * Ends a key in `inMs` from the store's now on, if it would live longer; 0: now, as revoked.
   * Null when the namespace has none of this id.
   */
  end(namespace: string, id: string, inMs: number): Promise<ApiKey | null>;
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
