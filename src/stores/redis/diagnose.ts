/** What in the settings of a server could cost leases that were granted. */
import type { Diagnosis } from "../source.js";

/** @param info as INFO says it, of one node */
export function diagnoseRedis(name: string, info: ReadonlyMap<string, string>): Diagnosis[] {
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
