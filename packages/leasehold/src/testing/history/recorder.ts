/** A store that records each request and its outcome. */

import { type Clock, invariant } from "../../env/index.js";
import type { Failed, LeaseStore } from "../../lease/index.js";
import type { HistoryEntry, Operation } from "./entry.js";

/**
 * The requests of several clients of one store. Pass it to each {@link recordHistory}.
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { History, recordHistory } from "leasehold/testing";
 *
 * const stores = await openStores("memory:");
 * const options = { history: new History(), client: "c1" };
 * recordHistory(stores.leases, { monotonic: () => performance.now() }, options);
 * console.log(options.history.entries());
 * await stores.close();
 * ```
 */
export class History {
  readonly #entries: HistoryEntry[] = [];
  readonly #open = new Set<HistoryEntry>();

  /** In the order of the answers. Requests without an answer follow, as `unknown`. */
  entries(): HistoryEntry[] {
    return [...this.#entries, ...this.#open];
  }

  /** @internal Call it before a request is sent. */
  begin(entry: HistoryEntry): void {
    this.#open.add(entry);
  }

  /** @internal Call it when the request's answer has arrived. */
  end(began: HistoryEntry, entry: HistoryEntry): void {
    this.#open.delete(began);
    this.#entries.push(entry);
  }
}

/**
 * Wraps a store and records each request of a batch as an entry of `history`, with the times before the
 * call and after its answer. An outcome `failed` becomes `fail` if nothing was applied, otherwise `unknown`.
 * A call that throws becomes `unknown` too. Reads, watches and collections are not recorded. Do not collect
 * during a history: collecting deletes records, and the checkers do not account for that.
 * @param clock monotonic, and the same for all clients of one history
 * @param options.client the client's name in the entries; default `client`
 * @param options.history default: a new one
 * @param options.tries returns how many requests the store has sent so far. Use it for a store that repeats
 *   a request after a lost answer, such as the HTTP store with a counting `fetch`. The checkers then need
 *   fewer steps and are stricter. The client must send one request at a time. Default: tries are not counted
 * @example
 * ```ts
 * import { connect, openStores } from "leasehold";
 * import { recordHistory } from "leasehold/testing";
 *
 * const stores = await openStores("memory:");
 * const { store, history } = recordHistory(stores.leases, { monotonic: () => performance.now() });
 * const leasehold = await connect(store);
 * await leasehold.run("billing", () => {});
 * console.log(history.entries().map(({ operation }) => operation));
 * await leasehold.close();
 * await stores.close();
 * ```
 */
export function recordHistory(
  store: LeaseStore,
  clock: Pick<Clock, "monotonic">,
  options: {
    readonly client?: string;
    readonly history?: History;
    readonly tries?: () => number;
  } = {},
): { readonly store: LeaseStore; readonly history: History } {
  const { client = "client", history = new History(), tries } = options;

  const recorded = <Request, Outcome extends { readonly status: string }, Options>(
    operation: Operation,
    call: (requests: readonly Request[], options?: Options) => Promise<(Outcome | Failed)[]>,
  ) => {
    return async (requests: readonly Request[], callOptions?: Options) => {
      const invokeMs = clock.monotonic();
      // The types of request, outcome and operation go together, as in the port.
      const entryOf = (request: Request, what: object) =>
        ({ client, operation, request, invokeMs, ...what }) as unknown as HistoryEntry;
      const unanswered = (error: string) => ({
        returnMs: null,
        result: "unknown",
        outcome: null,
        error,
      });
      const calls = requests.map((request) => {
        const begun = entryOf(request, unanswered("no answer yet"));
        return { request, begun };
      });
      for (const { begun } of calls) history.begin(begun);
      const before = tries?.() ?? 0;
      const end = (whatOf: (index: number) => object) => {
        const counted = tries ? { tries: tries() - before } : {};
        for (const [index, { request, begun }] of calls.entries()) {
          history.end(begun, entryOf(request, { ...counted, ...whatOf(index) }));
        }
      };
      try {
        const outcomes = await call(requests, callOptions);
        const returnMs = clock.monotonic();
        end((index) => {
          const outcome = outcomes[index];
          invariant(outcome, "one outcome per request");
          if (!isFailed(outcome)) return { returnMs, result: "ok", outcome };
          const { applied, error } = outcome;
          if (applied === "maybe") return unanswered(error.message);
          return { returnMs, result: "fail", outcome: null, error: error.message };
        });
        return outcomes;
      } catch (error) {
        end(() => unanswered(String(error)));
        throw error;
      }
    };
  };

  const recording: LeaseStore = {
    capabilities: store.capabilities,
    acquire: recorded("acquire", (requests, call) => store.acquire(requests, call)),
    renew: recorded("renew", (requests, call) => store.renew(requests, call)),
    release: recorded("release", (requests, call) => store.release(requests, call)),
    revoke: recorded("revoke", (requests, call) => store.revoke(requests, call)),
    get: (keys) => store.get(keys),
    list: (query) => store.list(query),
    watch: (namespace, watching) => store.watch(namespace, watching),
    collect: (olderThanMs) => store.collect(olderThanMs),
    close: () => store.close(),
  };
  return { store: recording, history };
}

function isFailed(outcome: { readonly status: string }): outcome is Failed {
  return outcome.status === "failed";
}
