/** The grants of this client, as it knows them. */
import type { Grant, Key } from "../../core/index.js";
import { contenderOf, contenderPrefix, type Paths } from "./keys.js";
import type { Own } from "./own.js";
import type { ContenderRecord } from "./records.js";

export type OwnGrants = Own<OwnGrant>;
export interface OwnGrant {
  readonly id: string;
  /** With its lease id: whoever has this has the right. */
  readonly grant: Grant;
  readonly record: ContenderRecord;
  /** What was granted. */
  readonly ttlMs: number;
  /** By this process's monotonic clock: others may have it from then on. */
  untilMs: number;
  /** Its znode as it was last seen; null while nobody knows whether there is one. */
  node: OwnNode | null;
}
export interface OwnNode {
  readonly path: string;
  /** Of the session. */
  readonly owner: string;
  readonly token: number;
  readonly version: number;
  /** Of the lock's znode, which names this grant as its last. */
  readonly lockVersion: number;
  readonly grantedAtMs: number;
  readonly renewedAtMs: number | null;
}

/** Names a grant, and how its znode's name begins. */
export function idOf(paths: Paths, key: Key, leaseId: string): string {
  return `${paths.lock(key)}/${contenderPrefix(contenderOf(leaseId))}`;
}
