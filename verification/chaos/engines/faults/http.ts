/** What befalls servers of ours, what is before them and behind them, and workers beside the holders. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import type { PostgresServer } from "../../../../tests/support/engines/postgres-engine.js";
import {
  atOnce,
  type Fault,
  type FaultProxy,
  lost,
  refused,
  twice,
} from "../../../../tests/support/faults/fault-proxy.js";
import type { SupervisedWorker } from "../../tasks/processes.js";
import type { World } from "../../tasks/world.js";
import { pick } from "../draws.js";
import type { Kind, Site } from "../site.js";
import { engine, signalAll, whileSo } from "./engine.js";

const REQUESTS = 12;
const LOOK_MS = 20;

interface Opened {
  readonly world: World;
  readonly postgres: PostgresServer;
  readonly proxies: readonly FaultProxy[];
}

export function httpKinds({ world, postgres, proxies }: Opened): Kind[] {
  const { servers } = world;
  /** To the next requests that come to one server. */
  const requests = (name: string, fault: Fault) =>
    engine(name, async ({ ttlMs }, random) => {
      const proxy = pick(random, proxies);
      const until = proxy.seen.length + REQUESTS;
      proxy.next(...Array.from({ length: REQUESTS }, () => fault));
      for (let ms = 0; ms < 2 * ttlMs && proxy.seen.length < until; ms += LOOK_MS) {
        await delay(LOOK_MS);
      }
      return true;
    });
  return [
    engine("server killed and started", async ({ ttlMs }, random) => {
      const server = pick(random, servers);
      await server.current.end("SIGKILL");
      await delay(1.3 * ttlMs);
      await server.start();
      return true;
    }),
    engine("server stopped and continued", async ({ ttlMs }, random) => {
      await pick(random, servers).current.pause(1.5 * ttlMs);
      return true;
    }),
    engine("both servers restarted", async () => {
      await Promise.all(servers.map((server) => server.current.end("SIGTERM")));
      await Promise.all(servers.map((server) => server.start()));
      return true;
    }),
    engine("streams of events cut", async ({ ttlMs }) => {
      for (let times = 0; times < 4; times += 1) {
        for (const proxy of proxies) proxy.cutStreams();
        await delay(ttlMs / 4);
      }
      return true;
    }),
    requests("answered 503 by a proxy", refused(503)),
    requests("answers cut by a proxy after the act", lost),
    requests("requests delivered twice", twice),
    requests("requests delivered twice at once", atOnce),
    whileSo(
      "PostgreSQL killed behind the servers",
      () => postgres.kill9(),
      () => postgres.start(),
    ),
    whileSo(
      "PostgreSQL stopped behind the servers",
      () => signalAll(postgres.pid!, "SIGSTOP"),
      () => signalAll(postgres.pid!, "SIGCONT"),
    ),
    worker(world, "worker killed", (_, one) => one.kill()),
    worker(world, "worker stopped for 1.5 ttl", async (site, one) => {
      await one.pause(1.5 * site.ttlMs);
      site.pausesPastTtl += 1;
    }),
  ];
}

function worker(
  { workers }: World,
  name: string,
  act: (site: Site, worker: SupervisedWorker) => Promise<void>,
): Kind {
  return {
    name,
    area: "holder",
    async happen(site: Site, random: Random) {
      const working = workers.filter((one) => one.working);
      if (working.length === 0) return false;
      await act(site, pick(random, working));
      return true;
    },
  };
}
