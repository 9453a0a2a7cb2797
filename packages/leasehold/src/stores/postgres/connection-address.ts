/**
 * Reads the URL of a PostgreSQL server, or of several:
 *
 *   postgres://user:password@a:5432,b:5432/app?sslmode=verify-full
 *   postgres://user:password@/app?host=/var/run/postgresql          a socket of Unix, as in libpq
 */
import type { Address } from "../../env/index.js";
import { InvalidOptionError, StoreMisconfiguredError } from "../../lease/index.js";
import type { TlsFiles } from "../../store-kit/tls.js";
import { isEncoded, readParameters } from "../../store-kit/url-parameters.js";
import { DRIVER_PARAMETERS, OWN_PARAMETERS, settleTimes, settleTls } from "./url-parameters.js";

export interface ServerAddress {
  /** One URL for each server, as pg reads it. */
  readonly urls: readonly [string, ...string[]];
  /** For messages: without the password. */
  readonly name: string;
  /** The schema of the tables. Default: `leasehold`. */
  readonly schema: string | undefined;
  readonly isPolled: boolean;
  /** Of TLS. pg reads them again for each connection. */
  readonly files: TlsFiles;
  /** Where the first server answers; null for a socket of Unix. */
  readonly first: Address | null;
}

const URL_SHAPE = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#@]*)(\/[^?#@]*)?(?:\?([^#]*))?$/i;

/** No message contains the password. @throws STORE_MISCONFIGURED, INVALID_OPTION */
export function readAddress(text: string): ServerAddress {
  const [, scheme, login = "", authority = "", path = "", query = ""] =
    URL_SHAPE.exec(text.trim()) ?? [];
  if (scheme === undefined) throw invalid("its form is wrong");
  if (!isEncoded(login + authority + path)) throw invalid("a % begins no escape: write it as %25");
  const parameters = readParameters("postgres:", query, OWN_PARAMETERS, DRIVER_PARAMETERS);
  const before = {
    host: authority !== "",
    port: /:\d+(,|$)/.test(authority),
    user: /^[^:@]/.test(login),
    password: login.includes(":"),
  };
  for (const [name, isNamed] of Object.entries(before)) {
    if (!isNamed || !parameters.has(name)) continue;
    throw new InvalidOptionError(`url: ?${name}`, "is named before the path too: remove one");
  }
  settleTls(parameters);
  settleTimes(parameters);
  const [schema, watch] = [take(parameters, "schema"), take(parameters, "watch")];
  const hosts = hostsOf(authority, take(parameters, "host"), take(parameters, "port"));
  const rest = parameters.size === 0 ? "" : `?${parameters.toString()}`;
  const servers = hosts.map((host) => parsed(`${scheme}${login}${host}${path}${rest}`));
  const [first, ...others] = servers as [URL, ...URL[]];
  const file = (name: string) => parameters.get(name);
  return {
    urls: [first.href, ...others.map(({ href }) => href)],
    name: `PostgreSQL at ${hosts.join(",")}${path}`,
    schema: schema ?? undefined,
    isPolled: watch !== null,
    files: { ca: file("sslrootcert"), cert: file("sslcert"), key: file("sslkey") },
    first: locate(first),
  };
}

function take(parameters: URLSearchParams, name: string): string | null {
  const value = parameters.get(name);
  parameters.delete(name);
  return value;
}

/** Each with its port, as in front of a path. */
function hostsOf(authority: string, named: string | null, port: string | null): string[] {
  const hosts = named === null ? authority.split(",") : named.split(",").map(inAuthority);
  const ports = port?.split(",") ?? [];
  if (ports.length > 1 && ports.length !== hosts.length) {
    throw new InvalidOptionError("url: ?port", "must name one port, or one for each host");
  }
  return ports.length === 0 ? hosts : hosts.map((host, at) => `${host}:${ports[at] ?? port}`);
}

function inAuthority(host: string): string {
  if (host.startsWith("/")) return encodeURIComponent(host);
  if (/^[\da-f:.]*:[\da-f:.]*$/i.test(host)) return `[${host}]`;
  if (/^([\w.-]+|\[[\da-f:.]+\])$/i.test(host)) return host;
  throw new InvalidOptionError(
    "url: ?host",
    "must be a name, an address, or the folder of a socket with its whole path",
  );
}

function parsed(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || url.port === "0") throw invalid("a host or a port is wrong");
  if (!url.hostname) throw invalid("a host is missing");
  return url;
}

/** Null for a socket of Unix. */
function locate({ hostname, port }: URL): Address | null {
  if (/^%2f/i.test(hostname)) return null;
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 5432) };
}

/** Without the cause, which quotes the URL with the password. */
function invalid(problem: string): StoreMisconfiguredError {
  return new StoreMisconfiguredError(
    `the PostgreSQL URL is invalid: ${problem}; write postgres://user:password@host:port/database, or ?host=/folder in place of the host for a socket, and percent-encode special characters of the password`,
  );
}
