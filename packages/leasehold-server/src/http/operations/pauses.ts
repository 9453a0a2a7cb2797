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
import type { Control, Key, Pause } from "leasehold/internal";
import { type Repeating, repeat } from "leasehold/internal";

const REFRESH_MS = 1_000;
/** A name that no queue can have. */
const NOWHERE = "";

interface Known {
  readonly resources: Set<string>;
  readonly prefixes: string[];
  readonly queues: Set<string>;
}

export class Pauses {
  readonly #control: Pick<Control, "pauses" | "leasesApart"> | undefined;
  readonly #refreshing: Repeating | undefined;
  /** By namespace; null until the first read. */
  #known: ReadonlyMap<string, Known> | null = null;
  #first: Promise<void> | undefined;
  #begun = 0;
  #applied = 0;

  /** @param control undefined: there are no pauses */
  constructor(control: Pick<Control, "pauses" | "leasesApart"> | undefined, env: Env) {
    this.#control = control;
    if (!control) return;
    this.#refreshing = repeat(env, "read the pauses", REFRESH_MS, () => this.refresh());
  }

  /** Reads the pauses. Of concurrent reads, the one that began last takes effect. */
  async refresh(): Promise<void> {
    if (!this.#control) return;
    this.#begun += 1;
    const number = this.#begun;
    const known = sorted(await this.#control.pauses.list(null));
    if (number < this.#applied) return;
    this.#applied = number;
    this.#known = known;
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
    const paused = this.#known?.get(namespace)?.queues;
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
    if (this.#control?.leasesApart && paused.resources.has(resource)) return true;
    return paused.prefixes.some((prefix) => resource.startsWith(prefix));
  }

  #firstRead(): Promise<void> {
    this.#first ??= this.refresh().finally(() => {
      this.#first = undefined;
    });
    return this.#first;
  }
}

function sorted(pauses: readonly Pause[]): ReadonlyMap<string, Known> {
  const known = new Map<string, Known>();
  for (const { namespace, kind, name } of pauses) {
    const own = known.get(namespace) ?? { resources: new Set(), prefixes: [], queues: new Set() };
    known.set(namespace, own);
    if (kind === "resource") own.resources.add(name);
    else if (kind === "prefix") own.prefixes.push(name);
    else own.queues.add(name);
  }
  return known;
}
