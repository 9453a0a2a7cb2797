/** Checks server settings that could lose granted leases. */
import { StoreMisconfiguredError } from "../../lease/index.js";
import type { Diagnosis } from "../source.js";
import type { Servers } from "./connection-servers.js";

export type Info = ReadonlyMap<string, string>;

/** The INFO reply of one node. */
export async function infoOf(
  servers: Servers,
  node: string | undefined,
  deadlineMs: number,
): Promise<Info> {
  return infoIn(await servers.commandTo(node, deadlineMs, "info"));
}

/** The lines of a reply of INFO. */
export function infoIn(reply: unknown): Info {
  const lines = String(reply).split("\r\n");
  return new Map(lines.map((line) => line.split(/:(.*)/s) as [string, string]));
}

export function isReplica(info: Info): boolean {
  return info.get("role") === "slave";
}

export function isCluster(info: Info): boolean {
  return info.get("cluster_enabled") === "1";
}

/**
 * Checks that the server keeps leases. Records have an expiry long after their lease, so a policy that
 * evicts only keys with an expiry evicts them too.
 * @throws STORE_MISCONFIGURED
 */
export function checkSettings(info: Info, name: string): void {
  if (info.get("redis_mode") === "sentinel") {
    throw new StoreMisconfiguredError(
      `${name} is a Sentinel: write redis+sentinel://host:port/name, with the name of the primary`,
    );
  }
  if (isReplica(info)) {
    throw new StoreMisconfiguredError(`${name} is a replica: give the address of its primary`);
  }
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  if (policy === "noeviction") return;
  throw new StoreMisconfiguredError(
    `${name} has maxmemory-policy ${policy}, which may evict leases: ` +
      "CONFIG SET maxmemory-policy noeviction, or store leases in another Redis",
  );
}

export function diagnoseRedis(name: string, info: Info): Diagnosis[] {
  const value = (key: string) => info.get(key) ?? "unknown";
  const replicas = Number(info.get("connected_slaves") ?? 0);
  const appends = info.get("aof_enabled") === "1";
  return [
    {
      what: `${name}: redis_version`,
      value: value("redis_version"),
      verdict: "fine",
      remedy: null,
    },
    // Opening the store rejects any other policy.
    {
      what: `${name}: maxmemory-policy`,
      value: value("maxmemory_policy"),
      verdict: "fine",
      remedy: null,
    },
    {
      what: `${name}: appendonly`,
      value: appends ? "yes" : "no",
      ...(appends
        ? { verdict: "fine", remedy: null }
        : {
            verdict: "doubtful",
            remedy:
              "a restart loses grants since the last snapshot, so two clients may hold the same lease: CONFIG SET appendonly yes",
          }),
    },
    {
      what: `${name}: replicas`,
      value: String(replicas),
      ...(replicas === 0
        ? { verdict: "fine", remedy: null }
        : {
            verdict: "doubtful",
            remedy:
              "a failover may lose the latest grants, because replication is asynchronous: let the protected resource compare tokens",
          }),
    },
  ];
}
