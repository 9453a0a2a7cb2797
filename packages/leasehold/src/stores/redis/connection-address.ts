/**
 * Parses the address of Redis from a URL: `redis://user:password@host:port/database`, the nodes of a cluster separated
 * by commas, or `redis+sentinel://user:password@sentinel:port,sentinel2/name/database`.
 */
import { InvalidOptionError, StoreMisconfiguredError } from "../../lease/index.js";
import { TLS_PARAMETERS, type TlsFiles, tlsFilesOf } from "../../store-kit/tls.js";
import {
  anyText,
  oneOf,
  type ParameterTable,
  readParameters,
} from "../../store-kit/url-parameters.js";

export const FORMATS = ["redlock", "redis-semaphore"] as const;
/** The clients whose locks Leasehold contends with. */
export type Format = (typeof FORMATS)[number];

export interface Address {
  readonly host: string;
  readonly port: number;
}

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
  readonly tls: TlsFiles | null;
  readonly format: Format | null;
}

const URL_SHAPE =
  /^(redis|rediss)(\+sentinel)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;
const PARAMETERS: ParameterTable = { format: oneOf(...FORMATS) };
const SENTINEL_PARAMETERS: ParameterTable = {
  sentinelUsername: anyText,
  sentinelPassword: anyText,
};
const [REDIS_PORT, SENTINEL_PORT] = [6_379, 26_379];

/** No message contains a password. @throws LeaseholdError */
export function addressOf(url: string): RedisAddress {
  const [, scheme = "", suffix, auth = "", hosts = "", path = "", query = ""] =
    URL_SHAPE.exec(url) ?? [];
  const isSentinel = /^rediss?\+sentinel:/i.test(url);
  const isTls = scheme.toLowerCase() === "rediss";
  const [name = "", database = ""] = isSentinel ? path.split(/\/(.*)/s) : ["", path];
  try {
    if (scheme === "") throw new Wrong("its form is wrong");
    const [username = "", password = ""] = auth.split(/:(.*)/s).map(decodeURIComponent);
    const port = isSentinel ? SENTINEL_PORT : REDIS_PORT;
    const addresses = hosts.split(",").map((host) => hostOf(host, port));
    const parameters = readParameters(`${scheme}${suffix ?? ""}:`, query, {
      ...PARAMETERS,
      ...(isTls && TLS_PARAMETERS),
      ...(isSentinel && SENTINEL_PARAMETERS),
    });
    return {
      hosts: addresses,
      sentinel: isSentinel ? sentinelOf(decodeURIComponent(name), parameters) : null,
      username,
      password,
      database: databaseOf(database),
      tls: isTls ? tlsFilesOf(parameters) : null,
      format: FORMATS.find((format) => format === parameters.get("format")) ?? null,
    };
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    // Omits the cause, which quotes the URL with the password.
    const problem = error instanceof Wrong ? error.message : "a host, a port or an escape is wrong";
    const form = isSentinel
      ? "redis+sentinel://user:password@sentinel:port,sentinel2:port/name/database, with the name that the Sentinels monitor"
      : "redis://user:password@host:port/database, separate the nodes of a cluster by commas";
    throw new StoreMisconfiguredError(
      `the Redis URL is invalid: ${problem}; write ${form}, and percent-encode special characters of the password`,
    );
  }
}

/** What is wrong with a URL, without a part of it. */
class Wrong extends Error {}

function sentinelOf(name: string, parameters: URLSearchParams): Sentinel {
  if (name === "") throw new Wrong("it has no name of a primary");
  const [username, password] = [
    parameters.get("sentinelUsername"),
    parameters.get("sentinelPassword"),
  ];
  return { name, username, password };
}

function hostOf(text: string, defaultPort: number): Address {
  const { hostname, port } = new URL(`redis://${text}`);
  if (hostname === "" || Number(port || defaultPort) === 0)
    throw new Wrong("a host is missing, or a port is 0");
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || defaultPort) };
}

function databaseOf(text: string): number {
  if (!/^\d*$/.test(text)) throw new Wrong("the database must be a number, such as /1");
  return Number(text);
}
