/** What in the settings of a server could cost leases that were granted. */
import { StoreMisconfiguredError } from "../../core/index.js";
import type { Diagnosis } from "../source.js";
import type { Servers } from "./connection-servers.js";

export type Info = ReadonlyMap<string, string>;

/** The answer to INFO, of one node. */
export async function infoOf(
  servers: Servers,
  node: string | undefined,
  deadlineMs: number,
): Promise<Info> {
  const text = String(await servers.tell(node, deadlineMs, "info"));
  const lines = text.split("\r\n").map((line) => line.split(/:(.*)/s) as [string, string]);
  return new Map(lines);
}

export function isCluster(info: Info): boolean {
  return info.get("cluster_enabled") === "1";
}

/**
 * Records have an expiry, long after their lease, so that a policy which spares keys without one spares
 * none of them.
 * @throws STORE_MISCONFIGURED
 */
export function checkSettings(info: Info, name: string): void {
  if (info.get("role") === "slave") {
    throw new StoreMisconfiguredError(`${name} is a replica: give the address of its primary`);
  }
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  if (policy === "noeviction") return;
  throw new StoreMisconfiguredError(
    `${name} has maxmemory-policy ${policy}, under which it may delete leases to make room: ` +
      "CONFIG SET maxmemory-policy noeviction, or keep leases in another Redis",
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
    // Any other was refused when it was opened.
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
              "a restart forgets grants since the last snapshot, so that two may hold the same: CONFIG SET appendonly yes",
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
              "a failover may forget the latest grants, which replicas get late: let what is written to compare tokens",
          }),
    },
  ];
}
