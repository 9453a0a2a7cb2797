/** Consul, a cluster of three servers. */
import {
  type ConsulServer,
  missingConsul,
  startConsulCluster,
} from "../../../../tests/support/engines/consul-engine.js";
import { pick } from "../draws.js";
import { engine } from "../faults/engine.js";
import { membersKinds } from "../faults/members.js";
import type { Engine, StoreSettings } from "../site.js";

/** The shortest. */
const SESSION_MS = 10_000;

export const consul: StoreSettings = {
  name: "consul",
  ttlMs: 3_000,
  // A session that is not renewed ends after two TTLs.
  lifeMs: 2 * SESSION_MS,
  epsilonMs: 2_000,
  deadWaiter: { ticketMs: 2 * SESSION_MS + 2_000, costMs: 2_500 },
  missing: missingConsul,
  async open(): Promise<Engine> {
    const servers = await startConsulCluster(3);
    return {
      version: `Consul, ${servers.length} servers`,
      kinds: [
        ...membersKinds("Consul", servers, (one) => one.isLeader()),
        engine("session ended by force", async (_, random) => {
          const found = await sessionsOf(servers);
          if (!found || found.sessions.length === 0) return false;
          const { ID } = pick(random, found.sessions);
          await found.server.api("PUT", `session/destroy/${ID}`);
          return true;
        }),
      ],
      epoch: () => epochOf(servers),
      portsFor: () => servers.map(({ port }) => port),
      urlOf: (ports) => {
        const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
        return `consul://${hosts}/chaos?sessionTtlMs=${SESSION_MS}`;
      },
      async remove() {
        await Promise.all(servers.map((server) => server.remove()));
      },
    };
  },
};

async function sessionsOf(servers: readonly ConsulServer[]) {
  for (const server of servers) {
    const found = await server.api("GET", "session/list").catch(() => null);
    if (found) return { server, sessions: found as readonly { readonly ID: string }[] };
  }
  return null;
}

/** The leader and Raft's term, as the leader itself says. */
async function epochOf(servers: readonly ConsulServer[]): Promise<string> {
  for (const server of servers) {
    if (!(await server.isLeader())) continue;
    const { Stats } = (await server.api("GET", "agent/self")) as {
      readonly Stats?: { readonly raft?: { readonly term?: string } };
    };
    return `${server.name} ${Stats?.raft?.term ?? ""}`;
  }
  return "";
}
