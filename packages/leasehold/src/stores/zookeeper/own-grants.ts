/** The grants of this client, as it knows them. */
import type { Grant, Key } from "../../core/index.js";
import type { Own } from "../../core/own.js";
import { contenderOf, contenderPrefix, type Paths } from "./keys.js";
import type { ContenderRecord } from "./records.js";

export type OwnGrants = Own<OwnGrant>;
export interface OwnGrant {
  readonly id: string;
  /** Includes the lease id, which proves the right to the grant. */
  readonly grant: Grant;
  /** As last written to its znode. */
  record: ContenderRecord;
  /** The granted token and TTL. */
  readonly ttlMs: number;
  /** Expiry by this process's monotonic clock. */
  untilMs: number;
  /** Its znode as last seen; null while its existence is unknown. */
  node: OwnNode | null;
}
export interface OwnNode {
  readonly path: string;
  /** The session of the grant. */
  readonly owner: string;
  readonly token: number;
  readonly version: number;
  /** Version of the lock's znode, which records this grant as its last. */
  readonly lockVersion: number;
  readonly grantedAtMs: number;
  readonly renewedAtMs: number | null;
}

/** Identifies a grant; the prefix of its znode's name. */
export function idOf(paths: Paths, key: Key, leaseId: string): string {
  return `${paths.lock(key)}/${contenderPrefix(contenderOf(leaseId))}`;
}
