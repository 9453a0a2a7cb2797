/** The part of the task port that counts due tasks by kind and version. */

export interface DueKindsQuery {
  readonly namespace: string;
  /** Only tasks of these queues; default any. */
  readonly queues?: readonly string[];
  /** Only tasks of these kinds; default any. */
  readonly kinds?: readonly string[];
  /** Only tasks that have been due for this long, in milliseconds. */
  readonly dueForMs: number;
  /** At most this many tasks are counted. */
  readonly limit: number;
}
/** The due tasks of one version of a kind in a queue. */
export interface DueKind {
  readonly queue: string;
  readonly kind: string;
  readonly version: number;
  readonly tasks: number;
  /** Since when the oldest of them is due, ISO 8601. */
  readonly dueAt: string;
  /** When one of them was claimed last; null if none was. */
  readonly startedAt: string | null;
}
