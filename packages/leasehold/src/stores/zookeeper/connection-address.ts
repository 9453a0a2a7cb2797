/**
 * Parses the address of the ensemble from a URL:
 * `zookeeper://user:password@a:2181,b,c/chroot?sessionTimeoutMs=15000`, or `zookeepers://` for TLS.
 */
import {
  checkArray,
  checkInteger,
  InvalidOptionError,
  StoreMisconfiguredError,
} from "../../lease/index.js";
import {
  checkCertificates,
  TLS_PARAMETERS,
  type TlsFiles,
  type TlsOptions,
  tlsFilesOf,
} from "../../store-kit/tls.js";
import {
  type ParameterTable,
  readParameters,
  wholeNumber,
} from "../../store-kit/url-parameters.js";

/** Options of `zookeeper()`. */
export interface ZooKeeperOptions {
  /** Host names or IPv4 addresses, with their ports if not 2181. The client may use any of them. */
  readonly servers: readonly string[];
  /** The znode that contains everything, such as `/locks`. Default: the root. Created if missing. */
  readonly chroot?: string | undefined;
  /**
   * How long, in milliseconds, the ensemble waits for a silent process before it frees the leases of
   * that process. A lease lasts at most three quarters of it. Default 40,000. The servers may shorten
   * it (to 20 ticks); request at least 3 ticks.
   */
  readonly sessionTimeoutMs?: number | undefined;
  /** `user:password` of the scheme `digest`. If set, only this user may access the znodes. Default: none, and all may. */
  readonly auth?: string | undefined;
  /** Speaks TLS, with these certificates; `{}` for those that Node trusts. Default: no TLS, except by `zookeepers://`. */
  readonly tls?: TlsOptions | undefined;
}

/** What a URL says. */
export interface ZooKeeperAddress extends ZooKeeperOptions {
  /** Absent without TLS. */
  readonly files?: TlsFiles;
}

export const DEFAULT_SESSION_TIMEOUT_MS = 40_000;
const SHORTEST_SESSION_MS = 300;
const LONGEST_SESSION_MS = 3_600_000;

const PARAMETERS: ParameterTable = {
  sessionTimeoutMs: wholeNumber(SHORTEST_SESSION_MS, LONGEST_SESSION_MS),
};

/**
 * @throws STORE_MISCONFIGURED for an invalid URL, INVALID_OPTION for an invalid option in it
 */
export function optionsOf(url: string): ZooKeeperAddress {
  const [, scheme = "", auth, hosts = "", path = "", query = ""] =
    /^(zookeepers?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(url) ?? [];
  const servers = hosts.split(",");
  try {
    if (scheme === "") throw new Error("no server");
    const chroot = decodeURIComponent(path).replace(/\/$/, "");
    return {
      servers,
      ...(chroot && { chroot }),
      ...(auth && { auth: decodeURIComponent(auth) }),
      ...parametersOf(query, scheme.toLowerCase() === "zookeepers"),
    };
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    // Omits the cause, which quotes the URL with the password.
    throw new StoreMisconfiguredError(
      "the ZooKeeper URL is invalid: a server is missing, or an escape or its form is wrong; write zookeeper://a:2181,b:2181,c:2181/chroot, with user:password@ before the servers where needed",
    );
  }
}

export function hostAndPort(server: string): { readonly host: string; readonly port: number } {
  const [host = "", port = "2181"] = server.split(":");
  return { host, port: Number(port) };
}

function parametersOf(
  query: string,
  isTls: boolean,
): Pick<ZooKeeperAddress, "sessionTimeoutMs" | "files"> {
  const scheme = isTls ? "zookeepers:" : "zookeeper:";
  const known = isTls ? { ...PARAMETERS, ...TLS_PARAMETERS } : PARAMETERS;
  const parameters = readParameters(scheme, query, known);
  const value = parameters.get("sessionTimeoutMs");
  return {
    ...(value !== null && { sessionTimeoutMs: Number(value) }),
    ...(isTls && { files: tlsFilesOf(parameters) }),
  };
}

/** A host, with or without its port. */
const SERVER = /^[^:\s,/\\]+(?::([1-9]\d{0,4}))?$/;

/** @throws INVALID_OPTION */
export function checkOptions(options: ZooKeeperOptions): void {
  const { servers, chroot = "", sessionTimeoutMs = DEFAULT_SESSION_TIMEOUT_MS, auth } = options;
  checkArray("servers", servers);
  if (servers.length === 0)
    throw new InvalidOptionError("servers", "must contain at least one server");
  for (const server of servers) {
    const found = SERVER.exec(server);
    // The driver would throw at such a port outside of any call.
    if (!found || Number(found[1] ?? 0) > 65_535) {
      throw new InvalidOptionError(
        "servers",
        "must each be a host name or IPv4 address, and :port from 1 to 65535",
      );
    }
  }
  if (chroot !== "" && !/^(\/(?!\.{1,2}(\/|$))[^/\0]+)+$/.test(chroot)) {
    throw new InvalidOptionError("chroot", "must be the path of a znode, such as /locks");
  }
  checkInteger("sessionTimeoutMs", sessionTimeoutMs, SHORTEST_SESSION_MS, LONGEST_SESSION_MS);
  if (auth !== undefined && !/^[^:]+:/.test(auth)) {
    throw new InvalidOptionError("auth", "must be user:password");
  }
  if (options.tls !== undefined) checkCertificates(options.tls);
}
