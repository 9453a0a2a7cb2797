/** Which machines can reach a server, and whether it requires API keys. */
import type { Logger, Stores } from "leasehold";
import { randomHex, systemRandom } from "leasehold/internal";
import type { Auth } from "../http/index.js";
import { isLoopback } from "../protocol/index.js";
import { UsageError } from "./failures.js";

export interface Exposure {
  readonly host: string;
  /** --require-keys was given. */
  readonly requireKeys?: boolean;
  /** --insecure-no-keys was given. */
  readonly insecureNoKeys?: boolean;
  /** Whose tokens are accepted beside keys. */
  readonly oidcIssuer?: string;
  /** The authorities of client certificates, and the list that assigns keys to these. */
  readonly tlsClientCa?: string;
  readonly tlsClientKeys?: string;
  readonly tlsClientOptional?: boolean;
}

export interface Access {
  readonly auth: Auth;
  /** Creates the first key: print it. */
  readonly bootstrapToken?: string;
}

/** The API keys of a store: some are valid, all have ended, or there never was one. */
export type KeysState = "valid" | "ended" | "none";

export async function keysStateOf({ control }: Pick<Stores, "control">): Promise<KeysState> {
  if (await control?.keys.any()) return "valid";
  return (await control?.keys.existed()) ? "ended" : "none";
}

/**
 * A server that only this machine reaches requires keys from the first key on. A server that other
 * machines reach always requires keys, unless --insecure-no-keys is given.
 * @throws UsageError if other machines could reach the server and it could not know who they are
 */
export function accessFor(
  { host, requireKeys = false, insecureNoKeys = false, oidcIssuer }: Exposure,
  { control }: Pick<Stores, "control">,
  keys: KeysState,
): Access {
  if (requireKeys && insecureNoKeys) {
    throw new UsageError("--require-keys and --insecure-no-keys exclude each other: give one");
  }
  if (oidcIssuer !== undefined && insecureNoKeys) {
    throw new UsageError("--oidc-issuer and --insecure-no-keys exclude each other: give one");
  }
  if (oidcIssuer !== undefined && !requireKeys) return { auth: "keys" };
  if (requireKeys) {
    if (!control) throw new UsageError(`--require-keys: this store keeps no keys: ${KEY_STORES}`);
    if (keys !== "none") return { auth: "keys" };
    return { auth: "keys", bootstrapToken: `lh_bootstrap_${randomHex(systemRandom, 16)}` };
  }
  if (isLoopback(host) || insecureNoKeys) return { auth: "ifAny" };
  if (!control) {
    throw new UsageError(
      `${REFUSED(host)}, because this store keeps none: ${KEY_STORES}, and ${REMEDY}`,
    );
  }
  if (keys === "valid") return { auth: "keys" };
  throw new UsageError(`${REFUSED(host)}: ${REMEDY}`);
}

/** Logs who may use a server that has begun to listen, if callers with keys are not all who may. */
export function logAccess(
  logger: Logger,
  { host, oidcIssuer, tlsClientCa, tlsClientKeys, tlsClientOptional = false }: Exposure,
  keys: KeysState,
  { bootstrapToken }: Access,
): void {
  if (bootstrapToken !== undefined) {
    const fields = { event: "bootstrap_token" };
    logger.info(fields, "no API key yet: the token on stdout creates the first one, an admin's");
    process.stdout.write(`${bootstrapToken}\n`);
    return;
  }
  if (oidcIssuer !== undefined) {
    logger.info({ issuer: oidcIssuer }, `requests need an API key or a token of ${oidcIssuer}`);
    return;
  }
  if (keys === "valid") return;
  // Where certificates are optional, a caller without one is as any caller is.
  const needsCertificate = tlsClientCa !== undefined && !tlsClientOptional;
  const certified = needsCertificate ? " with a certificate of --tls-client-ca" : "";
  if (keys === "ended" || (needsCertificate && tlsClientKeys !== undefined)) {
    const why =
      keys === "ended" ? "all API keys have ended" : "no API key that a certificate can have";
    logger.warn(
      { event: "no_valid_key" },
      `${why}, so no caller has access: create one on the store with leasehold keys create`,
    );
  } else if (isLoopback(host)) {
    logger.info(
      {},
      `no API key: any program on this machine${certified} may do everything, other machines have no access`,
    );
  } else {
    const caller = `any caller${certified} that reaches this address`;
    logger.warn({ host }, `no API key: ${caller} may do everything`);
  }
}

const REFUSED = (host: string) => `other machines can reach ${host}, and there is no API key`;
const REMEDY =
  "create one with `leasehold keys create --store URL` or with the token that --require-keys prints, serve only this machine (--host 127.0.0.1), or pass --insecure-no-keys, which lets any caller do everything";
const KEY_STORES = "name a database that does (PostgreSQL, PGlite) with --control";
