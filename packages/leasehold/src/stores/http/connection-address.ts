/** Parses the addresses of servers from a URL: `https://KEY@a:4040,b:4040/base?cacert=/etc/ca.pem`. */
import { InvalidOptionError } from "../../lease/index.js";
import {
  checkExpanded,
  checkOneScheme,
  type ParameterTable,
  readParameters,
} from "../../store-kit/url-parameters.js";

export interface Address {
  /** Of each server, with the base path and without a trailing slash; at least one. */
  readonly baseUrls: readonly string[];
  readonly isTls: boolean;
  readonly apiKey: string | undefined;
  readonly parameters: URLSearchParams;
}

/** Before the hosts, the hosts, and after them. `new URL` does not support lists of hosts. */
const URL_SHAPE = /^([^/?#]*\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s;

/**
 * No message contains the key.
 * @param tlsParameters that a URL with TLS may have
 * @throws InvalidOptionError
 */
export function addressOf(url: string | URL, tlsParameters: ParameterTable = {}): Address {
  checkOneScheme("url", String(url));
  checkExpanded("url", String(url));
  const [, begin = "", hosts = "", end = ""] = URL_SHAPE.exec(String(url)) ?? [];
  const urls = hosts.split(",").map((host) => parsed(begin + host + end));
  const [{ protocol, username, password, hash, search }] = urls as [URL];
  const isTls = protocol === "https:";
  if (!isTls && protocol !== "http:") throw wrong("must begin with http: or https:");
  if (password || hash) throw wrong("must not contain a password or a fragment");
  if (urls.some(({ port }) => port === "0")) throw wrong("must not name port 0");
  const parameters = readParameters(protocol, search.slice(1), isTls ? tlsParameters : {});
  const baseUrls = urls.map(({ origin, pathname }) => origin + pathname.replace(/\/+$/, ""));
  return { baseUrls, isTls, apiKey: username === "" ? undefined : decoded(username), parameters };
}

function parsed(url: string): URL {
  // Without //, `new URL` takes the path for the host.
  if (/^https?:\/\/[^/?#]|^(?!https?:)/i.test(url) && URL.canParse(url)) return new URL(url);
  throw wrong("must be like http://host:port");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrong("contains a key that is not percent-encoded");
  }
}

function wrong(problem: string): InvalidOptionError {
  return new InvalidOptionError("url", problem);
}
