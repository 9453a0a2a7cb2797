/** In Node: a client's own certificates, and the proxies that the environment names. Both need the package undici. */
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { loadDriver, StoreMisconfiguredError } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import type { HttpTls, Transport, TransportOptions } from "./index.js";

/** @throws STORE_MISCONFIGURED if a file cannot be read, a certificate is invalid, or undici is missing */
export async function openTransport(
  options: TransportOptions,
  { logger }: Env,
): Promise<Transport | null> {
  const tls = options.isTls ? await tlsOf(options) : {};
  const hasTls = Object.keys(tls).length > 0;
  const proxy = proxyOf(process.env);
  if (!hasTls && proxy === undefined) return null;
  const loading = loadDriver(
    "undici",
    () => import("undici"),
    (undici) => (undici.EnvHttpProxyAgent ? undici : undefined),
  );
  const undici = await loading.catch((error: unknown) => {
    if (hasTls) throw error;
    logger.warn({ err: error }, `${proxy} names a proxy, which is not used: npm install undici`);
    return null;
  });
  if (undici === null) return null;
  const { Agent, EnvHttpProxyAgent, fetch } = undici;
  const dispatcher = proxy === undefined ? new Agent({ connect: tls }) : proxied();
  function proxied() {
    try {
      // It reads NO_PROXY too.
      return new EnvHttpProxyAgent({ connect: tls, requestTls: tls });
    } catch {
      // The cause quotes the URL of the proxy, which may have a password.
      throw new StoreMisconfiguredError(`${proxy} must be like http://user:password@proxy:3128`);
    }
  }
  const ours = (url: string, init: Parameters<typeof fetch>[1]) =>
    fetch(url, { ...init, dispatcher });
  return {
    // The same function as the global one, in another version.
    fetch: ours as unknown as typeof globalThis.fetch,
    isDirect: proxy === undefined,
    close: () => void dispatcher.destroy().catch(() => {}),
  };
}

/** The variable that names a proxy. */
function proxyOf(environment: NodeJS.ProcessEnv): string | undefined {
  const names = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"];
  return names.find((name) => environment[name]);
}

async function tlsOf({ tls, files }: TransportOptions): Promise<HttpTls> {
  const { LEASEHOLD_CACERT, LEASEHOLD_CERT, LEASEHOLD_CERT_KEY } = process.env;
  if (!LEASEHOLD_CERT !== !LEASEHOLD_CERT_KEY) {
    throw new StoreMisconfiguredError("set both LEASEHOLD_CERT and LEASEHOLD_CERT_KEY, or neither");
  }
  const ca = tls.ca ?? (await contentOf(files.ca ?? LEASEHOLD_CACERT));
  // A certificate and its key come from one place.
  const paths = files.cert === null ? [LEASEHOLD_CERT, LEASEHOLD_CERT_KEY] : [files.cert, files.key];
  const [cert, key] = tls.cert === undefined ? await Promise.all(paths.map(contentOf)) : [tls.cert, tls.key];
  const given = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
  try {
    createSecureContext(given);
  } catch (error) {
    const { message } = error as Error;
    throw new StoreMisconfiguredError(`the certificates for the server are invalid: ${message}`, error);
  }
  return given;
}

async function contentOf(path: string | null | undefined): Promise<string | undefined> {
  if (!path) return undefined;
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    throw new StoreMisconfiguredError(`the file ${path} for TLS to the server: ${code}`, error);
  }
}
