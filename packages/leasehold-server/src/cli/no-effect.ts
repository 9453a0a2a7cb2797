/** Options of a server that change nothing with its store and its keys. */
import type { Logger, Stores } from "leasehold";
import type { ServerLimits } from "../http/index.js";
import type { KeysState } from "./exposure.js";

interface Given {
  readonly insecureNoKeys?: boolean;
  readonly oidcIssuer?: string;
  readonly limits?: Partial<ServerLimits>;
}

/** Logs a warning for each given option that has no effect, and says why. */
export function warnOfNoEffect(
  logger: Pick<Logger, "warn">,
  { insecureNoKeys = false, oidcIssuer, limits = {} }: Given,
  { control, leases }: Pick<Stores, "control" | "leases">,
  keys: KeysState,
): void {
  const warn = (option: string, why: string) =>
    logger.warn({ event: "no_effect", option }, `${option} has no effect: ${why}`);
  const hasKeys = keys === "valid";
  if (insecureNoKeys && hasKeys) {
    warn("--insecure-no-keys", "there is an API key, so every request needs one");
  }
  const { ratePerSecond, shortestTtlMs, longestTtlMs } = limits;
  if (typeof ratePerSecond === "number" && !hasKeys && oidcIssuer === undefined) {
    const remedy = control
      ? "there is none yet: create one with `leasehold keys create`"
      : "this store keeps none: name a database that does (PostgreSQL, PGlite) with --control";
    warn(
      "--limits ratePerSecond",
      `it limits the requests of tenants with API keys, and ${remedy}`,
    );
  }
  const { minMs, maxMs } = leases.capabilities.ttl;
  if (shortestTtlMs !== undefined && shortestTtlMs < minMs) {
    warn("--limits shortestTtlMs", `the store grants no lease for less than ${minMs} ms`);
  }
  if (longestTtlMs !== undefined && longestTtlMs > maxMs) {
    warn("--limits longestTtlMs", `the store grants no lease for more than ${maxMs} ms`);
  }
}
