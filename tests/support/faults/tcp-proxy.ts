/**
 * A TCP proxy between any client and any server, which does on the way what networks do, while a test
 * runs and as it says: to one connection or to all, those to come included.
 *
 *   client ──▶ toServer ──▶ server        each direction is a queue of its own:
 *   client ◀── toClient ◀── server        blackhole? hold? delay? slice? then on it goes
 *
 * It knows bytes, not messages. What must be cut between two requests is said between two requests.
 */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import type { Random } from "../../../packages/leasehold/src/env/index.js";
import { seededRandom } from "../../../packages/leasehold/src/testing/index.js";
import { type Counts, ProxiedConnection, type TcpFaults } from "./tcp-connection.js";

export type { Counts, Direction, TcpFaults } from "./tcp-connection.js";

export interface TcpProxyOptions {
  /** Of the server. */
  readonly port: number;
  /** Of the server. Default 127.0.0.1. */
  readonly host?: string;
  /** Decides the jitter of delays. Default: seed 1. */
  readonly random?: Random;
}

/** Faults of the proxy itself hit every connection, and the lasting ones those to come as well. */
export interface TcpProxy extends TcpFaults {
  /** Of 127.0.0.1, where clients connect. */
  readonly port: number;
  /** Those that are open, in the order in which they came. */
  readonly connections: readonly ProxiedConnection[];
  /** What has happened so far, on all connections: shows that a fault did occur. */
  readonly counts: Readonly<Counts>;
  /** Resolves when `holds` is true of the counts, looked at each time that one of them grows. */
  until(holds: (counts: Readonly<Counts>) => boolean): Promise<void>;
  /** Resets what is open and refuses connections, until `heal()`. @returns how many were reset */
  refuse(): number;
  /** Connections to come reach this port, as those to an address that has moved. Those that are open stay. */
  redirect(port: number): void;
  /** Ends every connection and the proxy. What waits for a dropped answer or a count rejects. */
  close(): Promise<void>;
}

/** Starts on a free port of the loopback. */
export async function openTcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const { host = "127.0.0.1", random = seededRandom(1) } = options;
  let { port } = options;
  const both = () => ({ toServer: 0, toClient: 0 });
  const counts: Counts = {
    connections: 0,
    unreachable: 0,
    resets: 0,
    broken: 0,
    answersDropped: 0,
    duplicatedBytes: 0,
    duplicatesAnsweredBytes: 0,
    forwardedBytes: both(),
    vanishedBytes: both(),
    heldBytes: both(),
    delayedChunks: both(),
    pieces: both(),
    halfCloses: both(),
  };
  const open = new Set<ProxiedConnection>();
  const watching = new Set<{ look(): void; fail(error: Error): void }>();
  const changed = () => {
    for (const { look } of watching) look();
  };
  /** The lasting faults, to be repeated on connections to come. */
  const lasting = new Map<string, (connection: TcpFaults) => void>();
  const each = <T>(act: (connection: ProxiedConnection) => T): T[] => [...open].map(act);
  const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0);
  const last = (key: string, act: (connection: TcpFaults) => void) => {
    lasting.set(key, act);
    each(act);
  };
  /** While an answer is to be dropped, of whichever connection gets one first. */
  let dropFrom: ((connection: ProxiedConnection) => void) | undefined;

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client: Socket) => {
    counts.connections += 1;
    const connection = new ProxiedConnection(client, {
      port,
      host,
      random,
      counts,
      changed,
      closed: () => open.delete(connection),
    });
    open.add(connection);
    for (const act of lasting.values()) act(connection);
    dropFrom?.(connection);
    changed();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");

  return {
    port: address.port,
    counts,
    get connections() {
      return [...open];
    },
    until: (holds) =>
      new Promise((resolve, reject) => {
        const watcher = {
          look() {
            if (!holds(counts)) return;
            watching.delete(watcher);
            resolve();
          },
          fail: reject,
        };
        watching.add(watcher);
        watcher.look();
      }),
    redirect(to) {
      port = to;
    },
    reset: () => sum(each((one) => one.reset())),
    refuse() {
      // The sockets that it has accepted are not the server's own.
      server.close();
      return sum(each((one) => one.reset()));
    },
    halfClose: (direction) => sum(each((one) => one.halfClose(direction))),
    blackhole: (direction) => last(`blackhole ${direction}`, (one) => one.blackhole(direction)),
    delay: (direction, delayMs, jitterMs) =>
      last(`delay ${direction}`, (one) => one.delay(direction, delayMs, jitterMs)),
    slice: (direction, bytes) => last(`slice ${direction}`, (one) => one.slice(direction, bytes)),
    hold: (direction) => last(`hold ${direction}`, (one) => one.hold(direction)),
    letGo(direction) {
      lasting.delete(`hold ${direction}`);
      each((one) => one.letGo(direction));
    },
    duplicate: () => last("duplicate", (one) => one.duplicate()),
    dropNextAnswer(isWhole) {
      if (dropFrom) return Promise.reject(new Error("an answer is to be dropped already"));
      const dropped = new Promise<void>((resolve, reject) => {
        const watcher = { look: () => {}, fail: reject };
        watching.add(watcher);
        dropFrom = (connection) => {
          connection.dropNextAnswer(isWhole).then(
            () => {
              dropFrom = undefined;
              watching.delete(watcher);
              each((other) => other.keepAnswers());
              resolve();
            },
            // It has ended without an answer, and leaves the fault to the others.
            () => {},
          );
        };
        each(dropFrom);
      });
      // The proxy may close first: a caller that ignores the promise gets no unhandled rejection.
      dropped.catch(() => {});
      return dropped;
    },
    heal() {
      lasting.clear();
      each((one) => one.heal());
      if (!server.listening) server.listen(address.port, "127.0.0.1");
    },
    async close() {
      // Of one that refuses, with an error that says that it is closed.
      const closed = new Promise((resolve) => server.close(resolve));
      each((one) => one.end());
      for (const { fail } of watching) fail(new Error("the proxy is closed"));
      await closed;
    },
  };
}
