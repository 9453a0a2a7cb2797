/** ZooKeeper, an ensemble of three. */
import {
  missingZooKeeper,
  startEnsemble,
} from "../../../../tests/support/engines/zookeeper-engine.js";
import { pick } from "../draws.js";
import { engine } from "../faults/engine.js";
import { membersKinds } from "../faults/members.js";
import { endSession, epochOf, sessionsOf } from "../faults/sessions.js";
import type { Engine, StoreSettings } from "../site.js";

const SESSION_MS = 4_000;

export const zookeeper: StoreSettings = {
  name: "zookeeper",
  // A dead holder's grants end with its session, whose last sign of life may be younger than they are.
  ttlMs: 2_500,
  lifeMs: SESSION_MS,
  epsilonMs: 2_000,
  deadWaiter: { ticketMs: 6_000, costMs: 2_500 },
  missing: missingZooKeeper,
  async open(): Promise<Engine> {
    const servers = await startEnsemble(3);
    const leader = async () => {
      for (const server of servers) if ((await server.mode()) === "leader") return server;
      return undefined;
    };
    return {
      version: `ZooKeeper, ${servers.length} servers`,
      kinds: [
        ...membersKinds("ZooKeeper", servers, async (one) => (await one.mode()) === "leader"),
        engine("session ended by force", async (_, random) => {
          const at = await leader();
          const sessions = at ? await sessionsOf(at.port) : [];
          if (!at || sessions.length === 0) return false;
          await endSession(at.port, pick(random, sessions));
          return true;
        }),
      ],
      // Counted in the upper half of what is said of the last transaction.
      epoch: async () => epochOf(servers[0]!.port),
      portsFor: () => servers.map(({ port }) => port),
      urlOf: (ports) =>
        `zookeeper://${ports.map((port) => `127.0.0.1:${port}`).join(",")}/chaos?sessionTimeoutMs=${SESSION_MS}`,
      async remove() {
        await Promise.all(servers.map((server) => server.remove()));
      },
    };
  },
};
