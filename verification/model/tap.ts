/** The stores as the network reaches them: each decision goes through a book, and messages are lost on request. */
import type { LeaseStore } from "leasehold";
import { type ClaimOutcome, type Failed, failedOutcome, type TaskStore } from "leasehold/internal";
import {
  type MemoryLeaseState,
  MemoryLeaseStore,
  type MemoryTaskState,
  MemoryTaskStore,
} from "leasehold/internal/memory";
import type { Loss } from "./faults.js";
import type { LeaseBook } from "./lease-book.js";
import type { TaskBook } from "./task-book.js";

/** The client whose calls pass the tap. */
interface Client {
  /** By operation of the store: what becomes of the next calls. */
  readonly losing: Map<string, { readonly message: Loss; times: number }>;
  readonly site: {
    readonly leases: MemoryLeaseState;
    readonly tasks: MemoryTaskState;
    count(what: string): void;
  };
  faulted(): void;
}

/** Of a call whose message is lost: there is no answer. */
const never = <T>() => new Promise<T>(() => {});

const RESET = failedOutcome(new Error("the connection was reset"));

/** Calls the store, unless the request is lost, and answers, unless the reply is. */
async function deliver<T>(
  client: Client,
  operation: string,
  call: () => Promise<T>,
  reset: (answer: T) => T = (answer) => answer,
): Promise<T> {
  const loss = client.losing.get(operation);
  if (!loss) return call();
  loss.times -= 1;
  if (loss.times === 0) client.losing.delete(operation);
  client.faulted();
  client.site.count(`lost ${loss.message} of ${operation}`);
  client.site.count(`lost call of ${operation}`);
  if (loss.message === "request") return never();
  const answer = await call();
  return loss.message === "reset" ? reset(answer) : never();
}

/** Decides the requests of a batch one by one, so that the book sees each at its moment. */
function each<Request, Outcome>(
  client: Client,
  operation: string,
  decide: (request: Request) => Promise<Outcome[]>,
  note: (request: Request, outcome: Outcome) => void,
) {
  return (requests: readonly Request[]): Promise<(Outcome | Failed)[]> => {
    const decideAll = async () => {
      const outcomes: (Outcome | Failed)[] = [];
      for (const request of requests) {
        const [outcome] = await decide(request);
        if (outcome === undefined) throw new Error(`no answer to ${operation}`);
        note(request, outcome);
        outcomes.push(outcome);
      }
      return outcomes;
    };
    return deliver(client, operation, decideAll, (outcomes) => outcomes.map(() => RESET));
  };
}

export function tappedLeases(client: Client, book: LeaseBook): LeaseStore {
  const store = new MemoryLeaseStore(client.site.leases);
  return {
    capabilities: store.capabilities,
    acquire: each(
      client,
      "acquire",
      (request) => store.acquire([request]),
      (request, outcome) => book.acquired(request, outcome),
    ),
    renew: each(
      client,
      "renew",
      (request) => store.renew([request]),
      (request, outcome) => book.renewed(request, outcome),
    ),
    release: each(
      client,
      "release",
      (request) => store.release([request]),
      (request, outcome) => book.released(request, outcome),
    ),
    revoke: each(
      client,
      "revoke",
      (request) => store.revoke([request]),
      (request, outcome) => book.revoked(request, outcome),
    ),
    get: (keys) =>
      deliver(client, "get", async () => {
        const views = await store.get(keys);
        for (const [at, key] of keys.entries()) book.read(key, views[at] ?? null);
        return views;
      }),
    list: (query) => store.list(query),
    watch: (namespace, options) => store.watch(namespace, options),
    collect: (olderThanMs) => store.collect(olderThanMs),
    close: async () => {},
  };
}

export function tappedTasks(client: Client, book: TaskBook): TaskStore {
  const store = new MemoryTaskStore(client.site.tasks);
  return {
    capabilities: store.capabilities,
    enqueue: each(
      client,
      "enqueue",
      (task) => store.enqueue([task]),
      (task, outcome) => book.enqueued(task, outcome),
    ),
    claim: (request) =>
      deliver<ClaimOutcome>(
        client,
        "claim",
        async () => {
          const outcome = await store.claim(request);
          book.claimed(request, outcome);
          return outcome;
        },
        () => RESET,
      ),
    heartbeat: each(
      client,
      "heartbeat",
      (request) => store.heartbeat([request]),
      (request, outcome) => book.heartbeat(request, outcome),
    ),
    complete: each(
      client,
      "complete",
      (request) => store.complete([request]),
      (request, outcome) => book.completed(request, outcome),
    ),
    fail: each(
      client,
      "fail",
      (request) => store.fail([request]),
      (request, outcome) => book.failed(request, outcome),
    ),
    requeue: each(
      client,
      "requeue",
      (request) => store.requeue([request]),
      (request, outcome) => book.requeued(request, outcome),
    ),
    cancel: each(
      client,
      "cancel",
      (key) => store.cancel([key]),
      (key, outcome) => book.cancelled(key, outcome),
    ),
    retry: each(
      client,
      "retry",
      (key) => store.retry([key]),
      (key, outcome) => book.retried(key, outcome),
    ),
    delete: (keys) => store.delete(keys),
    async get(key) {
      const details = await store.get(key);
      book.read(key, details);
      return details;
    },
    list: (query) => store.list(query),
    async counts(namespace) {
      const counts = await store.counts(namespace);
      book.counted(counts);
      return counts;
    },
    results: (keys) => store.results(keys),
    watchResults: (namespace, options) => store.watchResults(namespace, options),
    stats: (query) => store.stats(query),
    leases: (query) => store.leases(query),
    collect: (limit) => store.collect(limit),
    async reap() {
      const reaped = await store.reap();
      book.reaped(reaped);
      return reaped;
    },
    watch: (namespace, options) => store.watch(namespace, options),
    close: async () => {},
  };
}
