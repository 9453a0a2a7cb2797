/** Stores as a process reaches them: the ports over the simulated network. */

import {
  ClosedError,
  type LeaseStore,
  type LeaseView,
  type Page,
  StoreUnavailableError,
} from "leasehold";
import type { OnceStore, TaskLimits, TaskStore, Ticking } from "leasehold/internal";
import { type CallOptions, type Failed, failedOutcome } from "leasehold/internal";
import type { Machine, Process } from "./machine.js";
import { type Network, REFUSED } from "./network.js";

/** The stores as a process has opened them. */
export interface Opened {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
}

/** What the messages of a call say, as watchers of the network see it. */
export interface Said {
  readonly operation: "acquire" | "renew" | "release" | "revoke" | "get" | "event";
  readonly asked: readonly unknown[];
  /** Undefined in a request. */
  readonly answer?: unknown;
}

/** What a driver would wait for an answer when its caller does not say. */
const TIMEOUT_MS = 5_000;

/** One server's port methods, called over the network. */
class Remote<Port extends object> {
  readonly #network: Network;
  readonly #client: Process;
  readonly #server: Machine;
  readonly #port: () => Port;
  #closed = false;

  /** @param port what the server's present process offers */
  constructor(network: Network, client: Process, server: Machine, port: () => Port) {
    this.#network = network;
    this.#client = client;
    this.#server = server;
    this.#port = port;
  }

  close(): void {
    this.#closed = true;
  }

  /** @throws StoreUnavailableError, saying whether it may have been applied */
  ask<T>(
    serve: (port: Port) => Promise<T>,
    { timeoutMs = TIMEOUT_MS }: CallOptions = {},
    said?: Said,
  ): Promise<T> {
    if (this.#closed) return Promise.reject(new ClosedError("the store"));
    return new Promise((resolve, reject) => {
      const timer = this.#client.env.clock.timer(timeoutMs, () => {
        reject(new StoreUnavailableError("no answer", { outcome: "unknown" }));
      });
      const about = said && {
        request: said,
        answer: (answer: unknown): Said => ({
          operation: said.operation,
          asked: said.asked,
          answer,
        }),
      };
      const offered = () => serve(this.#port());
      const call = this.#network.call<T>(this.#client, this.#server, offered, about);
      void call.then((answer) => {
        timer.cancel();
        if (answer !== REFUSED) return resolve(answer);
        reject(new StoreUnavailableError("connection refused", { outcome: "none" }));
      });
    });
  }

  /** For batches: failures are outcomes, one per request. */
  async each<Request, Outcome>(
    requests: readonly Request[],
    serve: (port: Port) => Promise<Outcome[]>,
    options?: CallOptions,
    operation?: Said["operation"],
  ): Promise<(Outcome | Failed)[]> {
    try {
      return await this.ask(serve, options, operation && { operation, asked: requests });
    } catch (error) {
      return requests.map(() => failedOutcome(error));
    }
  }

  /** Events travel as messages: each may be lost, late or repeated. Ends with the signal. */
  async *watch<Event>(
    subscribe: (port: Port, signal: AbortSignal) => AsyncIterable<Event>,
    signal: AbortSignal,
  ): AsyncGenerator<Event, void, void> {
    const events: Event[] = [];
    let wake: (() => void) | undefined;
    const over = () => wake?.();
    signal.addEventListener("abort", over, { once: true });
    try {
      void this.#follow(subscribe, signal, (event) => {
        events.push(event);
        wake?.();
      });
      while (!signal.aborted) {
        const event = events.shift();
        if (event !== undefined) yield event;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      signal.removeEventListener("abort", over);
    }
  }

  async #follow<Event>(
    subscribe: (port: Port, signal: AbortSignal) => AsyncIterable<Event>,
    signal: AbortSignal,
    push: (event: Event) => void,
  ): Promise<void> {
    const process = this.#server.process;
    if (!process) return;
    for await (const event of subscribe(this.#port(), signal)) {
      // The subscription was the old process's; who watches finds out by its own polls.
      if (this.#server.process !== process) return;
      const arrive = () => this.#client.deliver(() => push(event));
      const said: Said = { operation: "event", asked: [], answer: event };
      this.#network.send(this.#server.name, this.#client.name, arrive, said);
    }
  }
}

export function remoteLeases(
  network: Network,
  client: Process,
  server: Machine,
  store: () => LeaseStore,
): LeaseStore {
  const remote = new Remote(network, client, server, store);
  return {
    capabilities: store().capabilities,
    acquire: (requests, options) =>
      remote.each(requests, (port) => port.acquire(requests), options, "acquire"),
    renew: (requests, options) =>
      remote.each(requests, (port) => port.renew(requests), options, "renew"),
    release: (requests, options) =>
      remote.each(requests, (port) => port.release(requests), options, "release"),
    revoke: (requests, options) =>
      remote.each(requests, (port) => port.revoke(requests), options, "revoke"),
    get: (keys) => {
      const said: Said = { operation: "get", asked: keys };
      return remote.ask<(LeaseView | null)[]>((port) => port.get(keys), {}, said);
    },
    list: (query) => remote.ask<Page<LeaseView>>((port) => port.list(query)),
    watch: (namespace, { signal }) =>
      remote.watch((port, ending) => port.watch(namespace, { signal: ending }), signal),
    collect: (olderThanMs) => remote.ask((port) => port.collect(olderThanMs)),
    close: async () => remote.close(),
  };
}

export function remoteTasks(
  network: Network,
  client: Process,
  server: Machine,
  store: () => TaskStore,
): TaskStore {
  const remote = new Remote(network, client, server, store);
  return {
    capabilities: store().capabilities,
    enqueue: (tasks, options) => remote.each(tasks, (port) => port.enqueue(tasks), options),
    claim: (request, options) =>
      remote.ask((port) => port.claim(request), options).catch(failedOutcome),
    heartbeat: (requests, options) =>
      remote.each(requests, (port) => port.heartbeat(requests), options),
    complete: (requests, options) =>
      remote.each(requests, (port) => port.complete(requests), options),
    fail: (requests, options) => remote.each(requests, (port) => port.fail(requests), options),
    requeue: (requests, options) =>
      remote.each(requests, (port) => port.requeue(requests), options),
    cancel: (tasks) => remote.each(tasks, (port) => port.cancel(tasks)),
    retry: (tasks) => remote.each(tasks, (port) => port.retry(tasks)),
    delete: (tasks) => remote.each(tasks, (port) => port.delete(tasks)),
    get: (task) => remote.ask((port) => port.get(task)),
    list: (query) => remote.ask((port) => port.list(query)),
    counts: (namespace) => remote.ask((port) => port.counts(namespace)),
    results: (tasks, options) => remote.ask((port) => port.results(tasks), options),
    watchResults: (namespace, { signal }) =>
      remote.watch((port, ending) => port.watchResults(namespace, { signal: ending }), signal),
    limits: {
      declare: (request, options) =>
        remote.ask((port) => limitsOf(port).declare(request), options).catch(failedOutcome),
      list: (namespace) => remote.ask((port) => limitsOf(port).list(namespace)),
      remove: (key) => remote.ask((port) => limitsOf(port).remove(key)),
    },
    stats: (query) => remote.ask((port) => port.stats(query)),
    leases: (query) => remote.ask((port) => port.leases(query)),
    reap: () => remote.ask((port) => port.reap()),
    collect: (limit) => remote.ask((port) => port.collect(limit)),
    watch: (namespace, { signal }) =>
      remote.watch((port, ending) => port.watch(namespace, { signal: ending }), signal),
    close: async () => remote.close(),
  };
}

function limitsOf({ limits }: TaskStore): TaskLimits {
  if (!limits) throw new Error("the store keeps limits");
  return limits;
}

/** @param leases of the same process and server */
export function remoteOnce(
  network: Network,
  client: Process,
  server: Machine,
  store: () => OnceStore,
  leases: LeaseStore,
): OnceStore {
  const remote = new Remote(network, client, server, store);
  return {
    leases,
    get: (key) => remote.ask((port) => port.get(key)),
    list: (query) => remote.ask((port) => port.list(query)),
    succeed: (request, options) =>
      remote.ask((port) => port.succeed(request), options).catch(failedOutcome),
    fail: (request, options) =>
      remote.ask((port) => port.fail(request), options).catch(failedOutcome),
    retry: (key) => remote.ask((port) => port.retry(key)),
    delete: (key) => remote.ask((port) => port.delete(key)),
    collect: () => remote.ask((port) => port.collect()),
  };
}

/** What a process needs to tick. */
export function remoteTicking(
  network: Network,
  client: Process,
  server: Machine,
  ticking: () => Ticking,
): Ticking {
  const remote = new Remote(network, client, server, ticking);
  return {
    due: (...page) => remote.ask((port) => port.due(...page)),
    fire: (request, options) =>
      remote.ask((port) => port.fire(request), options).catch(failedOutcome),
  };
}
