/** Parses the addresses of servers from a URL: `https://KEY@a:4040,b:4040/base?cacert=/etc/ca.pem`. */
import { checkParameters, InvalidOptionError } from "../../core/index.js";

/** Paths of PEM files. */
export interface Files {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
}

export interface Address {
  /** Of each server, with the base path and without a trailing slash; at least one. */
  readonly baseUrls: readonly string[];
  readonly apiKey: string | undefined;
  readonly files: Files;
}

const URL_SHAPE = /^(\w+):\/\/(?:([^/?#]*)@)?([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?$/s;
const TLS_PARAMETERS = ["cacert", "cert", "key"];

/**
 * `new URL` does not support lists of hosts. No message contains the key.
 * @throws InvalidOptionError
 */
export function addressOf(url: string | URL): Address {
  const [, scheme = "", login = "", hosts = "", path = "", query = "", fragment] =
    URL_SHAPE.exec(String(url).trim()) ?? [];
  const protocol = scheme.toLowerCase();
  if (protocol === "") throw new InvalidOptionError("url", "must be like http://host:port");
  if (protocol !== "http" && protocol !== "https") {
    throw new InvalidOptionError("url", "must begin with http: or https:");
  }
  const [key = "", password = ""] = login.split(/:(.*)/s);
  if (password !== "" || fragment !== undefined) {
    throw new InvalidOptionError("url", "must not contain a password or a fragment");
  }
  const parameters = new URLSearchParams(query);
  checkParameters(
    `${protocol}:`,
    parameters.keys(),
    protocol === "https" ? TLS_PARAMETERS : [],
  );
  return {
    baseUrls: hosts.split(",").map((host) => baseUrlOf(`${protocol}://${host}${path}`)),
    apiKey: key === "" ? undefined : decoded(key),
    files: filesOf(parameters),
  };
}

function baseUrlOf(url: string): string {
  if (!URL.canParse(url)) {
    throw new InvalidOptionError("url", "must be like http://host:port, or http://a:port,b:port");
  }
  const { origin, pathname } = new URL(url);
  return origin + pathname.replace(/\/+$/, "");
}

function filesOf(parameters: URLSearchParams): Files {
  const [ca, cert, key] = [parameters.get("cacert"), parameters.get("cert"), parameters.get("key")];
  if ((cert === null) !== (key === null)) {
    throw new InvalidOptionError("url", "must name both ?cert= and ?key=, or neither");
  }
  return { ca, cert, key };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidOptionError("url", "contains a key that is not percent-encoded");
  }
}
