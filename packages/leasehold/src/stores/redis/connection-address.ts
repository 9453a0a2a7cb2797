/**
 * Parses the address of Redis from a URL: `redis://user:password@host:port/database`, the nodes of a cluster separated
 * by commas, or `redis+sentinel://user:password@sentinel:port,sentinel2/name/database`.
 */
import { readFile } from "node:fs/promises";
import { checkParameters, InvalidOptionError, StoreMisconfiguredError } from "../../core/index.js";

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Paths of PEM files. */
interface Files {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
}

/** Options of `tls.connect`. */
export type Tls = Readonly<Record<string, unknown>>;

/** Of the Sentinels themselves, which may have other users than Redis. */
interface Sentinel {
  /** Of the primary, as in `sentinel monitor NAME`. */
  readonly name: string;
  readonly username: string | null;
  readonly password: string | null;
}

export interface RedisAddress {
  /** Servers, or Sentinels; at least one. */
  readonly hosts: readonly Address[];
  readonly sentinel: Sentinel | null;
  readonly username: string;
  readonly password: string;
  readonly database: number;
  /** Null without TLS. */
  readonly tls: Files | null;
  /** Not checked. */
  readonly format: string | null;
}

const URL_SHAPE =
  /^(redis|rediss)(\+sentinel)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;
const TLS_PARAMETERS = ["cacert", "cert", "key"];
const SENTINEL_PARAMETERS = ["sentinelUsername", "sentinelPassword"];
const [REDIS_PORT, SENTINEL_PORT] = [6_379, 26_379];

/** No message contains a password. @throws LeaseholdError */
export function addressOf(url: string): RedisAddress {
  const [, scheme = "", suffix, auth = "", hosts = "", path = "", query = ""] =
    URL_SHAPE.exec(url) ?? [];
  const parameters = new URLSearchParams(query);
  const isSentinel = suffix !== undefined;
  const isTls = scheme.toLowerCase() === "rediss";
  const known = [
    "format",
    ...(isTls ? TLS_PARAMETERS : []),
    ...(isSentinel ? SENTINEL_PARAMETERS : []),
  ];
  checkParameters(`${scheme}${suffix ?? ""}:`, parameters.keys(), known);
  const [name = "", database = ""] = isSentinel ? path.split(/\/(.*)/s) : ["", path];
  try {
    const [username = "", password = ""] = auth.split(/:(.*)/s).map(decodeURIComponent);
    if (scheme === "") throw new Error("no scheme");
    return {
      hosts: hosts.split(",").map((host) => hostOf(host, isSentinel ? SENTINEL_PORT : REDIS_PORT)),
      sentinel: isSentinel ? sentinelOf(decodeURIComponent(name), parameters) : null,
      username,
      password,
      database: databaseOf(database),
      tls: isTls ? filesOf(parameters) : null,
      format: parameters.get("format"),
    };
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    // Omits the cause, which quotes the URL with the password.
    throw new StoreMisconfiguredError(
      isSentinel
        ? "the Redis URL is invalid: write redis+sentinel://user:password@sentinel:port,sentinel2:port/name/database, with the name that the Sentinels monitor, and percent-encode special characters of the password"
        : "the Redis URL is invalid: write redis://user:password@host:port/database, separate the nodes of a cluster by commas, and percent-encode special characters of the password",
    );
  }
}

/** Reads the certificates. @throws STORE_MISCONFIGURED if a file cannot be read */
export async function tlsOf({ tls }: RedisAddress): Promise<Tls | null> {
  if (tls === null) return null;
  const { ca, cert, key } = tls;
  const options = { ca, cert, key };
  const read = Object.entries(options).map(async ([option, path]) => {
    return path === null ? [] : [[option, await contentOf(path)] as const];
  });
  return Object.fromEntries((await Promise.all(read)).flat());
}

async function contentOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    throw new StoreMisconfiguredError(`the URL of Redis names the file ${path}: ${code}`, error);
  }
}

function filesOf(parameters: URLSearchParams): Files {
  const [ca, cert, key] = [parameters.get("cacert"), parameters.get("cert"), parameters.get("key")];
  if ((cert === null) !== (key === null)) {
    throw new InvalidOptionError("url", "must name both ?cert= and ?key=, or neither");
  }
  return { ca, cert, key };
}

function sentinelOf(name: string, parameters: URLSearchParams): Sentinel {
  if (name === "") throw new Error("no name");
  const [username, password] = [
    parameters.get("sentinelUsername"),
    parameters.get("sentinelPassword"),
  ];
  return { name, username, password };
}

function hostOf(text: string, defaultPort: number): Address {
  const { hostname, port } = new URL(`redis://${text || "localhost"}`);
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || defaultPort) };
}

function databaseOf(text: string): number {
  const database = text === "" ? 0 : Number(text);
  if (!Number.isInteger(database) || database < 0) throw new Error("no number");
  return database;
}
