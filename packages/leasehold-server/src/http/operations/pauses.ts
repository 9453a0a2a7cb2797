/**
 * The pauses that this instance knows. A store that holds both a resource's lease and its pause refuses
 * the grant itself. This class covers the rest: prefixes, queues, and resources whose leases are in
 * another store than the pauses.
 *
 *   pauses.list ── before the first grant, then every second ──▶ known ──▶ acquire: held by "paused"
 *   PUT, DELETE /v1/pauses ── at once on the instance called ────┘    └──▶ claim: finds nothing
 *
 * - Other instances may still grant for about a second. For an immediate effect, pause the resource
 *   itself on a store that holds both.
 * - An instance that cannot read the pauses continues with those it knows. If it has never read them, it
 *   grants nothing.
 */

import type { Env } from "leasehold";
import type { Control, Key, Pause, PauseKey } from "leasehold/internal";
import { nextTurn, type Repeating, repeat } from "leasehold/internal";

const REFRESH_MS = 1_000;
/** A name that no queue can have. */
const NOWHERE = "";

/** The names that are paused in one namespace, by kind. */
type Known = Readonly<Record<Pause["kind"], Set<string>>>;

export class Pauses {
  readonly #control: Pick<Control, "pauses" | "leasesApart"> | undefined;
  readonly #refreshing: Repeating | undefined;
  /** By namespace; null until the first read. */
  #known: ReadonlyMap<string, Known> | null = null;
  #first: Promise<void> | undefined;
  /** The read under way, or the last one. */
  #reading: Promise<void> = Promise.resolve();
  /** The read that begins next; undefined: no caller waits for one. */
  #next: Promise<void> | undefined;

  /** @param control undefined: there are no pauses */
  constructor(control: Pick<Control, "pauses" | "leasesApart"> | undefined, env: Env) {
    this.#control = control;
    if (!control) return;
    this.#refreshing = repeat(env, "read the pauses", REFRESH_MS, () => this.refresh());
  }

  /**
   * Reads the pauses, including every change that was made before this call. Callers share reads: at most one
   * is under way, and one follows it for all callers that came meanwhile.
   */
  refresh(): Promise<void> {
    this.#next ??= this.#readNext();
    return this.#next;
  }

  async #readNext(): Promise<void> {
    // Callers of the same turn share a read, even if the store answers within the turn.
    await Promise.all([nextTurn(), this.#reading.catch(() => {})]);
    this.#next = undefined;
    this.#reading = this.#read();
    await this.#reading;
  }

  async #read(): Promise<void> {
    if (!this.#control) return;
    this.#known = byNamespace(await this.#control.pauses.list(null));
  }

  /** Whether the tenant has this pause, or fewer than `most` of all kinds, as far as this instance knows. */
  async hasRoom({ namespace, kind, name }: PauseKey, most: number): Promise<boolean> {
    if (!this.#known) await this.#firstRead();
    const known = this.#known?.get(namespace);
    if (!known || known[kind].has(name)) return true;
    return known.resource.size + known.prefix.size + known.queue.size < most;
  }

  /**
   * Whether this server must refuse grants of the resource. It returns a promise only until the first
   * read has succeeded; the promise rejects if the read fails.
   */
  covers(key: Key): boolean | Promise<boolean> {
    if (!this.#control) return false;
    return this.#known ? this.#covers(key) : this.#firstRead().then(() => this.#covers(key));
  }

  /**
   * The queues that are not paused; if all are, a queue without tasks, so that a repeated claim still
   * returns its tasks.
   */
  async openQueues(namespace: string, queues: readonly string[]): Promise<readonly string[]> {
    if (!this.#control) return queues;
    if (!this.#known) await this.#firstRead();
    const paused = this.#known?.get(namespace)?.queue;
    if (!paused) return queues;
    const open = queues.filter((queue) => !paused.has(queue));
    return open.length > 0 ? open : [NOWHERE];
  }

  async stop(): Promise<void> {
    await this.#refreshing?.stop();
  }

  #covers({ namespace, resource }: Key): boolean {
    const paused = this.#known?.get(namespace);
    if (!paused) return false;
    if (this.#control?.leasesApart && paused.resource.has(resource)) return true;
    for (const prefix of paused.prefix) if (resource.startsWith(prefix)) return true;
    return false;
  }

  #firstRead(): Promise<void> {
    this.#first ??= this.refresh().finally(() => {
      this.#first = undefined;
    });
    return this.#first;
  }
}

function byNamespace(pauses: readonly Pause[]): ReadonlyMap<string, Known> {
  const all = new Map<string, Known>();
  for (const { namespace, kind, name } of pauses) {
    const known = all.get(namespace) ?? {
      resource: new Set(),
      prefix: new Set(),
      queue: new Set(),
    };
    all.set(namespace, known);
    known[kind].add(name);
  }
  return all;
}
