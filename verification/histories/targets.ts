/** What histories are made on: a store as several clients reach it, and what goes wrong on the way. */
import type { LeaseStores, Random } from "leasehold";
import { type LeaseStore, StoreUnavailableError } from "leasehold";
import type { Failed } from "leasehold/internal";
import { sleep, systemClock, systemEnv } from "leasehold/internal";
import { http } from "leasehold/stores/http";
import { memory } from "leasehold/stores/memory";
import { openPostgres } from "leasehold/stores/postgres";
import type { LinearizabilityOptions } from "leasehold/testing";
import { createApp, listen } from "leasehold-server";
import { type Counts, openTcpProxy, type TcpProxy } from "../../tests/support/faults/tcp-proxy.js";
import { TEST_LIMITS } from "../../tests/support/server/test-limits.js";

export interface HistorySize {
  /** At most this many clients, each with at most so many requests. */
  readonly clients: number;
  readonly requests: number;
}

/** Where the ends of grants are vague or many answers are lost, a longer history has too many orders to try. */
export const SHORT: HistorySize = { clients: 6, requests: 50 };

/** How a target differs from a store that grants any whole millisecond and answers each request once. */
export interface TargetTraits {
  /** Whether its clients repeat a request whose answer was lost, before they answer. */
  readonly repeats?: boolean;
  /** What the engine grants, where that is not any whole millisecond, and how late it frees. */
  readonly ttl?: LinearizabilityOptions["ttl"];
  readonly lateMs?: number;
  /** Default: the longest that are made. */
  readonly size?: HistorySize;
  /** The shortest ttl that is asked for; the longest is three times as long. Default 100. */
  readonly shortestTtlMs?: number;
}

export interface HistoryTarget extends TargetTraits {
  readonly name: string;
  open(clients: number, random: Random): Promise<OpenedTarget>;
}

export interface OpenedTarget {
  /** One for each client. */
  readonly stores: readonly LeaseStore[];
  /** How often the store of a client has sent anything, where its clients repeat what they ask. */
  readonly tries?: (client: number) => number;
  /** The same leases, with nothing in between. */
  readonly direct: LeaseStore;
  /** Makes faults until `stopped` returns true, then heals those that last. */
  disturb(stopped: () => boolean): Promise<void>;
  /** What has gone wrong so far, by kind. */
  faults(): Readonly<Record<string, number>>;
  close(): Promise<void>;
}

/** Memory behind a slow line that loses requests and answers. */
export const memoryTarget: HistoryTarget = {
  name: "memory",
  async open(clients, random) {
    const { leases, close } = await memory().open(systemEnv);
    const lost = { requests: 0, answers: 0 };
    const line = () => sleep(systemClock, random.float() ** 4 * 120);
    const failed = (applied: Failed["applied"]): Failed => {
      const error = new StoreUnavailableError("lost on the way", { outcome: "unknown" });
      return { status: "failed", applied, retryable: true, error };
    };
    const far =
      <Request, Outcome>(call: (requests: readonly Request[]) => Promise<Outcome[]>) =>
      async (requests: readonly Request[]): Promise<(Outcome | Failed)[]> => {
        await line();
        if (random.float() < 0.03) {
          lost.requests += 1;
          return requests.map(() => failed("maybe"));
        }
        const outcomes = await call(requests);
        await line();
        if (random.float() >= 0.05) return outcomes;
        lost.answers += 1;
        return requests.map(() => failed("maybe"));
      };
    const store: LeaseStore = {
      capabilities: leases.capabilities,
      acquire: far((requests) => leases.acquire(requests)),
      renew: far((requests) => leases.renew(requests)),
      release: far((requests) => leases.release(requests)),
      revoke: far((requests) => leases.revoke(requests)),
      get: (keys) => leases.get(keys),
      list: (query) => leases.list(query),
      watch: (namespace, options) => leases.watch(namespace, options),
      collect: (olderThanMs) => leases.collect(olderThanMs),
      close: () => leases.close(),
    };
    return {
      stores: Array.from({ length: clients }, () => store),
      direct: leases,
      disturb: async () => {},
      faults: () => ({ ...lost }),
      close,
    };
  },
};

/** An engine reached through the fault proxy by several stores, each used by some of the clients. */
export function proxiedTarget({
  port,
  open,
  ...traits
}: TargetTraits & {
  readonly name: string;
  /** Of the engine. */
  readonly port: number;
  open(port: number): Promise<LeaseStores>;
}): HistoryTarget {
  return {
    ...traits,
    async open(clients, random) {
      const direct = await open(port);
      const proxy = await openTcpProxy({ port, random });
      const opened = await Promise.all(
        Array.from({ length: 3 + Math.floor(random.float() * 3) }, () => open(proxy.port)),
      );
      return {
        stores: Array.from({ length: clients }, (_, at) => opened[at % opened.length]!.leases),
        direct: direct.leases,
        disturb: (stopped) => disturb(proxy, random, stopped),
        faults: () => faultsOf(proxy.counts),
        async close() {
          await Promise.all([direct, ...opened].map((stores) => stores.close()));
          await proxy.close();
        },
      };
    },
  };
}

/** @param url of a database */
export function postgresTarget(url: string): HistoryTarget {
  return proxiedTarget({
    name: "postgres",
    size: SHORT,
    port: Number(new URL(url).port),
    open: (port) => openPostgres({ url: polling(url, port) }, systemEnv),
  });
}

/** Servers of ours on one database, reached through the fault proxy, each by some of the clients. */
export function httpTarget(url: string): HistoryTarget {
  return {
    name: "http",
    size: SHORT,
    async open(clients, random) {
      const direct = await openPostgres({ url: polling(url, new URL(url).port) }, systemEnv);
      const servers = await Promise.all([0, 1].map(() => openServer(direct, random)));
      const tries = Array.from({ length: clients }, () => 0);
      const stores = await Promise.all(
        tries.map((_, at) => {
          const { proxy } = servers[at % servers.length]!;
          const counting: typeof fetch = (...request) => {
            tries[at]! += 1;
            return fetch(...request);
          };
          return http({ url: `http://127.0.0.1:${proxy.port}`, fetch: counting }).open(systemEnv);
        }),
      );
      return {
        stores: stores.map(({ leases }) => leases),
        tries: (at) => tries[at]!,
        direct: direct.leases,
        async disturb(stopped) {
          await Promise.all(servers.map(({ proxy }) => disturb(proxy, random, stopped)));
        },
        faults: () => sums(servers.map(({ proxy }) => faultsOf(proxy.counts))),
        async close() {
          await Promise.all(stores.map((store) => store.close()));
          await Promise.all(servers.map((server) => server.close()));
          await direct.close();
        },
      };
    },
  };
}

async function openServer(stores: Awaited<ReturnType<typeof openPostgres>>, random: Random) {
  const app = createApp({ ...stores, auth: "none", version: "0.0.0", limits: TEST_LIMITS });
  const server = await listen({ app, port: 0 });
  const proxy = await openTcpProxy({ port: server.port, random });
  return {
    proxy,
    async close() {
      await proxy.close();
      await server.close();
    },
  };
}

/** Notifications are not wanted here. */
function polling(url: string, port: number | string): string {
  const own = new URL(url);
  own.port = String(port);
  own.searchParams.set("watch", "poll");
  return own.href;
}

/** One fault after the other, with some calm in between; the longest outlive every ttl. */
async function disturb(proxy: TcpProxy, random: Random, stopped: () => boolean): Promise<void> {
  const between = (least: number, most: number) => least + random.float() * (most - least);
  const pause = (least: number, most: number) => sleep(systemClock, between(least, most));
  const one = () => proxy.connections[Math.floor(random.float() * proxy.connections.length)];
  const direction = () => (random.float() < 0.5 ? "toServer" : "toClient");
  const kinds: readonly (() => Promise<void> | void)[] = [
    () => void one()?.reset(),
    () => void proxy.reset(),
    () => void one()?.halfClose(direction()),
    // No answer may come any more before the history ends.
    () => void proxy.dropNextAnswer().catch(() => {}),
    () => void proxy.dropNextAnswer().catch(() => {}),
    async () => {
      proxy.delay(direction(), between(5, 100), 5);
      await pause(50, 400);
      proxy.heal();
    },
    async () => {
      const way = direction();
      const connections = random.float() < 0.5 ? [one()] : proxy.connections;
      for (const connection of connections) connection?.hold(way);
      await pause(50, 500);
      for (const connection of connections) connection?.letGo(way);
    },
    async () => {
      const connection = one();
      connection?.blackhole(direction());
      await pause(50, 400);
      // What has vanished does not come back: the bytes behind it would mean something else.
      connection?.reset();
    },
    async () => {
      proxy.slice(direction(), Math.ceil(between(1, 40)));
      await pause(20, 100);
      proxy.heal();
    },
  ];
  while (!stopped()) {
    await pause(20, 150);
    await kinds[Math.floor(random.float() * kinds.length)]!();
  }
  proxy.heal();
}

function faultsOf(counts: Readonly<Counts>): Record<string, number> {
  const both = (name: "halfCloses" | "vanishedBytes" | "heldBytes" | "delayedChunks" | "pieces") =>
    counts[name].toServer + counts[name].toClient;
  return {
    resets: counts.resets,
    "answers dropped": counts.answersDropped,
    "half-closes": both("halfCloses"),
    "bytes vanished": both("vanishedBytes"),
    "bytes held": both("heldBytes"),
    "chunks delayed": both("delayedChunks"),
    pieces: both("pieces"),
  };
}

/** By name. */
export function sums(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const total: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
  }
  return total;
}
