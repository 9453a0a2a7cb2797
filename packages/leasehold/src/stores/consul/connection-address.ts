/** Parses the address of Consul from a URL: `consul://a:8500,b:8500/prefix?dc=dc1`. */
import { InvalidOptionError } from "../../lease/index.js";
import {
  asksForTls,
  TLS_PARAMETERS,
  TLS_SWITCH,
  type TlsFiles,
  tlsFilesOf,
} from "../../store-kit/tls.js";
import {
  anyText,
  oneOf,
  originOf,
  type ParameterTable,
  readParameters,
  wholeNumber,
} from "../../store-kit/url-parameters.js";

const DEFAULT_PREFIX = "leasehold";
const DEFAULT_SESSION_TTL_MS = 20_000;
/** The limits of Consul itself. */
const SHORTEST_SESSION_MS = 10_000;
const LONGEST_SESSION_MS = 86_400_000;

const PARAMETERS: ParameterTable = {
  dc: anyText,
  token: anyText,
  sessionTtlMs: wholeNumber(SHORTEST_SESSION_MS, LONGEST_SESSION_MS),
  ...TLS_SWITCH,
  // The layout of `consul lock` is the only one.
  format: oneOf("consul-lock"),
};

export interface Address {
  /** `http://host:port` of agents of one datacenter; at least one. */
  readonly agents: readonly string[];
  /** Of all keys, with a trailing slash. */
  readonly prefix: string;
  /** Default: the datacenter of the agent. */
  readonly datacenter: string | null;
  /** Of Consul's ACLs. */
  readonly token: string | null;
  readonly sessionTtlMs: number;
  /** Null without TLS. */
  readonly files: TlsFiles | null;
}

const URL_SHAPE = /^(consuls?):\/\/([^@/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;

/** `new URL` does not support lists of hosts. No message contains the token. @throws InvalidOptionError */
export function addressOf(url: string): Address {
  const [, scheme = "", hosts = "", path = "", query = ""] = URL_SHAPE.exec(url) ?? [];
  if (scheme === "") {
    throw new InvalidOptionError(
      "url",
      "must be like consul://host:8500/prefix, with an ACL token as ?token= and not before the host",
    );
  }
  const isTls = asksForTls(url, "consuls", query);
  const [web, port] = isTls ? (["https", 8501] as const) : (["http", 8500] as const);
  const agents = hosts.split(",").map((host) => originOf(host, web, port));
  const known = isTls ? { ...PARAMETERS, ...TLS_PARAMETERS } : PARAMETERS;
  const parameters = readParameters("consul:", query, known);
  return {
    agents,
    prefix: `${decoded(path).replace(/^\/+|\/+$/g, "") || DEFAULT_PREFIX}/`,
    datacenter: parameters.get("dc"),
    token: parameters.get("token") ?? tokenOfEnvironment(),
    sessionTtlMs: Number(parameters.get("sessionTtlMs") ?? DEFAULT_SESSION_TTL_MS),
    files: isTls ? tlsFilesOf(parameters) : null,
  };
}

/** As Consul's own programs do. Browsers have no environment. */
function tokenOfEnvironment(): string | null {
  return globalThis.process?.env?.CONSUL_HTTP_TOKEN || null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidOptionError("url", "must have its path percent-encoded");
  }
}
