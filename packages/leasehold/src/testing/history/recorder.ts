/** A store that writes down what it is asked and what it answers, request by request. */

import type { Failed, LeaseStore } from "../../core/index.js";
import { type Clock, invariant } from "../../env/index.js";
import type { HistoryEntry, Operation } from "./entry.js";

/** What several clients of one store have done; pass it to each {@link recordHistory}. */
export class History {
  readonly #entries: HistoryEntry[] = [];
  readonly #open = new Set<HistoryEntry>();

  /** In the order of the answers; requests without one yet follow, as unknown. */
  entries(): HistoryEntry[] {
    return [...this.#entries, ...this.#open];
  }

  /** @internal A request leaves. */
  begin(entry: HistoryEntry): void {
    this.#open.add(entry);
  }

  /** @internal Its answer is there. */
  end(began: HistoryEntry, entry: HistoryEntry): void {
    this.#open.delete(began);
    this.#entries.push(entry);
  }
}

/**
 * The store, recorded: each request of a batch becomes an entry of `history` with the times before
 * the call and after its answer. An outcome `failed` is a `fail` where it says that nothing was
 * applied, and else, as a call that throws, `unknown`. Reading, watching and collecting pass
 * unrecorded; collecting forgets records, which the checkers do not reckon with.
 * @param clock monotonic, and the same for all that write into one history
 * @param options.client stands in the entries; default `client`
 * @param options.history default a new one
 * @param options.tries how often the store has sent anything so far, where it sends a request again
 *   after a lost answer by itself (a counting `fetch` of the HTTP store): histories are judged sooner and
 *   more strictly by it. The client must then ask one thing at a time. Default: nobody counts
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
