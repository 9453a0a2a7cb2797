/** Who can reach a server, and whether it asks them for keys. */
import { isIP } from "node:net";
import type { Logger, Stores } from "leasehold";
import type { Auth } from "../http/index.js";
import { UsageError } from "./failures.js";

export interface Exposure {
  readonly host: string;
  /** The operator has said so. */
  readonly insecureNoKeys?: boolean;
}

/**
 * On this machine alone keys are asked for as soon as there are some; for other machines always,
 * unless the operator has said otherwise.
 * @throws UsageError for a server that others could reach although there is no key
 */
export async function authFor(
  { host, insecureNoKeys = false }: Exposure,
  { control }: Pick<Stores, "control">,
): Promise<Auth> {
  if (isLoopback(host) || insecureNoKeys) return "ifAny";
  if (!control) throw new UsageError(`${REFUSED(host)}: this store keeps none; ${KEEPERS}`);
  if (await control.keys.any()) return "keys";
  throw new UsageError(`${REFUSED(host)}; ${REMEDY}`);
}

/** What an operator should know of a server that has begun to listen. */
export async function sayWhoMayCome(
  logger: Logger,
  { host }: Exposure,
  { control }: Pick<Stores, "control">,
): Promise<void> {
  if (await control?.keys.any()) return;
  if (isLoopback(host)) {
    logger.info(
      {},
      "no API key: any program on this machine may do everything, no other machine may",
    );
  } else {
    logger.warn({ host }, "no API key: whoever reaches this address may do everything");
  }
}

/** By which a server that asks for no key lets itself be called, as they stand in URLs. */
export const LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"] as const;

/** Names and addresses that no other machine reaches. */
function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (bare === "localhost" || bare === "::1") return true;
  return isIP(bare) === 4 && bare.startsWith("127.");
}

const REFUSED = (host: string) =>
  `${host} can be reached by other machines, and there is no API key to ask them for`;
const REMEDY =
  "make one with `leasehold keys create`, serve this machine alone (--host 127.0.0.1), or say --insecure-no-keys: whoever reaches the server may then do everything";
const KEEPERS = `give it a --control database that does (PostgreSQL, PGlite), and ${REMEDY}`;
