/**
 * What operators have paused, as this instance knows it. A store refuses what it keeps the pause of
 * itself; prefixes, queues, and resources whose leases are kept apart from the pauses are refused here:
 *
 *   pauses.list ── before the first grant, then every second ──▶ known ──▶ acquire: held by "paused"
 *   PUT, DELETE /v1/pauses ── and at once where they were sent ──┘    └──▶ claim: finds nothing
 *
 * - Another instance grants for about a second more: whoever must know that nobody will be granted a
 *   resource pauses the resource itself, on a store that keeps both.
 * - An instance that cannot read them goes on with those it knows. One that has never read them grants
 *   nothing.
 */

import type { Env } from "leasehold";
import type { Control, Key, Pause } from "leasehold/internal";
import { type Repeating, repeat } from "leasehold/internal";

const REFRESH_MS = 1_000;
/** The name of no queue. */
const NOWHERE = "";

interface Known {
  readonly resources: Set<string>;
  readonly prefixes: string[];
  readonly queues: Set<string>;
}

export class Pauses {
  readonly #control: Pick<Control, "pauses" | "leasesApart"> | undefined;
  readonly #refreshing: Repeating | undefined;
  /** By namespace; null: never read. */
  #known: ReadonlyMap<string, Known> | null = null;
  #first: Promise<void> | undefined;
  #begun = 0;
  #applied = 0;

  /** @param control undefined: nothing is ever paused */
  constructor(control: Pick<Control, "pauses" | "leasesApart"> | undefined, env: Env) {
    this.#control = control;
    if (!control) return;
    this.#refreshing = repeat(env, "read the pauses", REFRESH_MS, () => this.refresh());
  }

  /** Reads them anew. Of reads that overtake each other the one that began last counts. */
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
   * Whether this server has to refuse grants of the resource: a promise only before the first read, which
   * rejects when nobody can know.
   */
  covers(key: Key): boolean | Promise<boolean> {
    if (!this.#control) return false;
    return this.#known ? this.#covers(key) : this.#firstRead().then(() => this.#covers(key));
  }

  /**
   * Those that are not paused, or one in which nothing is: a repeated claim then still finds the tasks
   * that it had.
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
