/** Checks for states of the cluster that could stop Consul from granting leases, or make it forget them. */
import type { Diagnosis } from "../source.js";
import type { ConsulClient } from "./connection.js";
import { NODE } from "./connection-session.js";

export async function diagnoseConsul(client: ConsulClient): Promise<readonly Diagnosis[]> {
  const [self, leader, peers, node] = await Promise.all([
    // A token of least rights may not read it.
    client.call({ method: "GET", path: "agent/self", accepts: [403], repeatable: true }),
    client.call({ method: "GET", path: "status/leader", repeatable: true }),
    client.call({ method: "GET", path: "status/peers", repeatable: true }),
    // Empty if the token may not read it.
    client.call({ method: "GET", path: `health/node/${NODE}`, repeatable: true }),
  ]);
  const address = JSON.parse(leader.text) as string;
  const servers = (JSON.parse(peers.text) as readonly string[]).length;
  const version =
    self.status === 200 ? versionOf(self.text) : "unknown: the token lacks agent:read";
  return [
    { what: "version", value: version, verdict: "fine", remedy: null },
    address
      ? { what: "leader", value: address, verdict: "fine", remedy: null }
      : {
          what: "leader",
          value: "none",
          verdict: "wrong",
          remedy:
            "nothing is granted without a majority of the servers: consul operator raft list-peers",
        },
    servers >= 3
      ? { what: "servers", value: String(servers), verdict: "fine", remedy: null }
      : {
          what: "servers",
          value: String(servers),
          verdict: "doubtful",
          remedy: "the loss of one server stops all grants: run three or five",
        },
    {
      what: "session",
      value: `${client.connection.sessionTtlMs} ms`,
      verdict: "fine",
      remedy: null,
    },
    (JSON.parse(node.text) as readonly object[]).length === 0
      ? { what: "session node", value: NODE, verdict: "fine", remedy: null }
      : {
          what: "session node",
          value: `${NODE}, with health checks`,
          verdict: "wrong",
          remedy: `an agent has the name ${NODE}, and the end of its node ends all leases: give it another node_name`,
        },
  ];
}

function versionOf(text: string): string {
  const { Config } = JSON.parse(text) as { readonly Config?: { readonly Version?: string } };
  return Config?.Version ?? "unknown";
}
