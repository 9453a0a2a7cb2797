/** Which tasks, and which grants on them, a reader asks for. */
import type { LeaseState } from "../lease/index.js";
import type { TaskState } from "./values.js";

/** Which tasks of a namespace to list. */
export interface TaskQuery {
  readonly namespace: string;
  /** Only tasks with one of these ids, at most 200; default any. Unlike `get`, this reads no payload as a whole. */
  readonly ids?: readonly string[];
  readonly states?: readonly TaskState[];
  readonly queue?: string;
  readonly kind?: string;
  /** Without pending tasks that are due now, by the store's clock. Default false. */
  readonly excludeDue?: boolean;
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** Which leases of tasks to list. */
export interface TaskLeaseQuery {
  readonly namespace: string;
  /** Only grants in one of these states; default any. */
  readonly states?: readonly LeaseState[];
  /** Only grants with a heartbeat; default false. */
  readonly renewedOnly?: boolean;
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}
