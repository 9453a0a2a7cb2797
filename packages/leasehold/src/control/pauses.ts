/**
 * Pauses: operators close a resource, all resources below a prefix, or a queue of tasks for a while. The
 * store grants no paused resource; its current holder may keep and renew the lease.
 */
export interface Pause {
  readonly namespace: string;
  /**
   * `resource`: on SQL stores kept beside the lease, under its row lock, so that no grant overtakes
   * it; `prefix` and `queue`: refused by every server that knows of it, within seconds.
   */
  readonly kind: "resource" | "prefix" | "queue";
  /** The resource, the prefix (`""`: everything) or the queue. */
  readonly name: string;
  readonly actor: string;
  readonly reason: string;
  /** The store's time, ISO 8601. */
  readonly since: string;
}

/** Those that keep the resource from being granted: its own, and those of prefixes. */
export function pausesOf(resource: string, pauses: readonly Pause[]): readonly Pause[] {
  return pauses.filter(({ kind, name }) =>
    kind === "prefix" ? resource.startsWith(name) : kind === "resource" && name === resource,
  );
}

/** What a pause is set on: a resource, a prefix or a queue of a namespace. */
export type PauseKey = Pick<Pause, "namespace" | "kind" | "name">;

/** Reads the pauses that operators have set. */
export interface PauseStore {
  /** All of a namespace, or of all namespaces; by namespace, kind and name. */
  list(namespace: string | null): Promise<readonly Pause[]>;
}

/** Changes of pauses, within an operator action. */
export interface PauseActs {
  /** Repeated, it keeps its time and takes the new actor and reason. */
  set(pause: Omit<Pause, "since">): Promise<Pause>;
  /** False when it was not paused. */
  clear(key: PauseKey): Promise<boolean>;
}
