/**
 * The leases of one tenant that are in the store at once, for each operation. All tenants share its lanes, and a store may
 * write each lease by itself: the renewals of others would wait for all that one tenant sends. On etcd, 16 connections that
 * renewed 800 leases each cost another tenant all of its leases.
 *
 *   a b c ──▶ [ at most 256 leases, or one request ] ──▶ the lane of the operation
 *
 * The other requests of the tenant wait here, first in, first out.
 */

/** Enough for the store to be busy with those of one tenant: it takes half of them in one call. */
const AT_ONCE = 256;

interface Waiting {
  readonly leases: number;
  readonly begin: () => void;
}

interface Sender {
  inStore: number;
  waiting: Waiting[];
}

export class StoreTurns {
  readonly #senders = new Map<string, Sender>();

  /**
   * @param sender a tenant and an operation; null: callers cannot be distinguished, and nothing waits
   * @param wanted leases; Infinity: it is in the store alone
   */
  async run<T>(sender: string | null, wanted: number, call: () => Promise<T>): Promise<T> {
    if (sender === null) return call();
    const leases = Math.min(wanted, AT_ONCE);
    const of = this.#senders.get(sender) ?? { inStore: 0, waiting: [] };
    this.#senders.set(sender, of);
    if (of.waiting.length === 0 && fits(of, leases)) of.inStore += leases;
    else await new Promise<void>((begin) => of.waiting.push({ leases, begin }));
    try {
      return await call();
    } finally {
      of.inStore -= leases;
      this.#next(sender, of);
    }
  }

  #next(sender: string, of: Sender): void {
    for (let [next] = of.waiting; next && fits(of, next.leases); [next] = of.waiting) {
      of.inStore += next.leases;
      of.waiting.shift();
      next.begin();
    }
    if (of.inStore === 0) this.#senders.delete(sender);
  }
}

function fits({ inStore }: Sender, leases: number): boolean {
  return inStore + leases <= AT_ONCE;
}
