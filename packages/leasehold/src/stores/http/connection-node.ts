/** In Node: a client's own certificates, and the proxies that the environment names. Both need the package undici. */
import type { Env } from "../../env/index.js";
import { InvalidOptionError, StoreMisconfiguredError } from "../../lease/index.js";
import { checkFetchPorts } from "../../store-kit/blocked-ports.js";
import { driverError } from "../../store-kit/driver.js";
import { checkServer, expectedHttp, openServer } from "../../store-kit/opening-server.js";
import {
  checkCertificates,
  TLS_PARAMETERS,
  type TlsFiles,
  type TlsOptions,
  tlsFilesOf,
} from "../../store-kit/tls.js";
import { openTls } from "../../store-kit/tls-connections.js";
import type { Fetch } from "./connection.js";
import { type Address, addressOf } from "./connection-address.js";
import { fetchWithToken, type TokenSource, Tokens } from "./connection-token.js";
import type { HttpOptions, InNode } from "./opening.js";

/** What the options and the URL say. */
interface Asked {
  readonly isTls: boolean;
  readonly tls: TlsOptions;
  readonly files: TlsFiles;
}

export const IN_NODE: InNode = {
  parameters: TLS_PARAMETERS,
  transport(options, address) {
    const asked = askedOf(options, address);
    return async (env) => {
      const own = options.fetch ? null : await openUndici(asked, env);
      const fetch = own?.fetch ?? options.fetch ?? globalThis.fetch;
      // Another fetch may reach its server by other ways.
      const isDirect = own ? !own.isProxied : fetch === globalThis.fetch;
      const expected = expectedHttp(address.baseUrls);
      return {
        fetch,
        async first(request) {
          if (!isDirect) return request();
          await checkServer(expected);
          return openServer(expected, env, request(), async () => {});
        },
        token: options.fetch ? undefined : tokenFile(process.env["LEASEHOLD_TOKEN_FILE"]),
        close: () => own?.close(),
      };
    };
  },
};

/** Reads the file again each time, because the program that renews the token replaces it. */
function tokenFile(path: string | undefined): TokenSource | undefined {
  if (!path) return undefined;
  return async () => {
    const { readFile } = await import("node:fs/promises");
    return (await readFile(path, "utf8")).trim();
  };
}

/** The fetch of undici. */
interface OfUndici {
  readonly fetch: typeof globalThis.fetch;
  readonly isProxied: boolean;
  close(): void;
}

/** Servers, for what else is read from them, such as their metrics. */
export interface Reached {
  /** Of each, without a trailing slash. */
  readonly baseUrls: readonly string[];
  readonly apiKey: string | undefined;
  readonly fetch: Fetch;
  close(): void;
}

/** @throws INVALID_OPTION, STORE_MISCONFIGURED */
export async function reachServers(url: string, env: Env): Promise<Reached> {
  const address = addressOf(url, IN_NODE.parameters);
  checkFetchPorts("url", address.baseUrls);
  const transport = await IN_NODE.transport({ url }, address)(env);
  const { baseUrls, apiKey } = address;
  const { token } = transport;
  const tokens = token && apiKey === undefined ? new Tokens(token, env) : undefined;
  const fetch: Reached["fetch"] = tokens
    ? (at, init) => fetchWithToken(tokens, transport.fetch, at, init)
    : transport.fetch;
  return { baseUrls, apiKey, fetch, close: () => transport.close() };
}

/** @throws InvalidOptionError */
function askedOf({ tls = {}, fetch }: HttpOptions, { isTls, parameters }: Address): Asked {
  checkCertificates(tls);
  const { ca, cert } = tls;
  if ((ca ?? cert) && !isTls) {
    throw new InvalidOptionError("tls", "needs a URL that begins with https:");
  }
  const files = tlsFilesOf(parameters);
  if (fetch && (ca ?? cert ?? files.ca ?? files.cert)) {
    throw new InvalidOptionError(
      "fetch",
      "brings its own certificates: leave out tls, ?cacert=, ?cert= and ?key=",
    );
  }
  return { isTls, tls, files };
}

/**
 * Returns null if the global fetch is enough.
 * @throws STORE_MISCONFIGURED if a file cannot be read, a certificate is invalid, or undici is missing
 */
async function openUndici(asked: Asked, { logger }: Env): Promise<OfUndici | null> {
  const { isTls, tls, files } = asked;
  const secureContext = isTls ? await openTls(tls, filesOf(files), "the server") : null;
  const proxy = proxyOf(process.env);
  if (secureContext === null && proxy === undefined) return null;
  const undici = await importUndici().catch((error: unknown) => {
    if (secureContext) throw error;
    logger.warn(
      { err: error, variable: proxy },
      "a proxy is named, but not used: npm install undici",
    );
    return null;
  });
  if (undici === null) return null;
  const { Agent, EnvHttpProxyAgent, fetch } = undici;
  const connect = secureContext ? { secureContext } : {};
  const newProxied = () => {
    try {
      // It reads NO_PROXY too.
      return new EnvHttpProxyAgent({ connect, requestTls: connect });
    } catch {
      // The cause quotes the URL of the proxy, which may have a password.
      throw new StoreMisconfiguredError(`${proxy} must be like http://user:password@proxy:3128`);
    }
  };
  const dispatcher = proxy === undefined ? new Agent({ connect }) : newProxied();
  const ours = (url: string, init: Parameters<typeof fetch>[1]) =>
    fetch(url, { ...init, dispatcher });
  return {
    // The same function as the global one, in another version.
    fetch: ours as unknown as typeof globalThis.fetch,
    isProxied: proxy !== undefined,
    close: () => void dispatcher.destroy().catch(() => {}),
  };
}

async function importUndici() {
  try {
    return await import("undici");
  } catch (error) {
    throw driverError("undici", error);
  }
}

/** The variable that names a proxy. */
function proxyOf(environment: NodeJS.ProcessEnv): string | undefined {
  const names = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"];
  return names.find((name) => environment[name]);
}

/** The files of the URL, or else those that the environment names. */
function filesOf({ ca, cert, key }: TlsFiles): TlsFiles {
  const { LEASEHOLD_CACERT, LEASEHOLD_CERT, LEASEHOLD_CERT_KEY } = process.env;
  if (!LEASEHOLD_CERT !== !LEASEHOLD_CERT_KEY) {
    throw new StoreMisconfiguredError("set both LEASEHOLD_CERT and LEASEHOLD_CERT_KEY, or neither");
  }
  return {
    ca: ca ?? (LEASEHOLD_CACERT || null),
    // A certificate and its key come from one place.
    cert: cert ?? (LEASEHOLD_CERT || null),
    key: cert ? key : LEASEHOLD_CERT_KEY || null,
  };
}
