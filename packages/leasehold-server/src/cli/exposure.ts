/** Which machines can reach a server, and whether it requires API keys. */
import { isIP } from "node:net";
import type { Logger, Stores } from "leasehold";
import type { Auth } from "../http/index.js";
import { UsageError } from "./failures.js";

export interface Exposure {
  readonly host: string;
  /** --insecure-no-keys was given. */
  readonly insecureNoKeys?: boolean;
}

/**
 * A server that only this machine reaches requires keys once a key exists. A server that other
 * machines reach always requires keys, unless --insecure-no-keys is given.
 * @throws UsageError if other machines could reach the server and no key exists
 */
export async function authFor(
  { host, insecureNoKeys = false }: Exposure,
  { control }: Pick<Stores, "control">,
): Promise<Auth> {
  if (isLoopback(host) || insecureNoKeys) return "ifAny";
  if (!control)
    throw new UsageError(`${REFUSED(host)}, because this store keeps none: ${KEY_STORES}`);
  if (await control.keys.any()) return "keys";
  throw new UsageError(`${REFUSED(host)}: ${REMEDY}`);
}

/** Logs who may use a server that has begun to listen without an API key. */
export async function logAccess(
  logger: Logger,
  { host }: Exposure,
  { control }: Pick<Stores, "control">,
): Promise<void> {
  if (await control?.keys.any()) return;
  if (isLoopback(host)) {
    logger.info(
      {},
      "no API key: any program on this machine may do everything, other machines have no access",
    );
  } else {
    logger.warn({ host }, "no API key: any caller that reaches this address may do everything");
  }
}

/** Host names that a server without keys accepts, as they appear in URLs. */
export const LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"] as const;

/** Names and addresses that no other machine reaches. */
function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (bare === "localhost" || bare === "::1") return true;
  return isIP(bare) === 4 && bare.startsWith("127.");
}

const REFUSED = (host: string) => `other machines can reach ${host}, and there is no API key`;
const REMEDY =
  "create one with `leasehold keys create --store URL`, serve only this machine (--host 127.0.0.1), or pass --insecure-no-keys, which lets any caller do everything";
const KEY_STORES = `name a database that does (PostgreSQL, PGlite) with --control, and ${REMEDY}`;
