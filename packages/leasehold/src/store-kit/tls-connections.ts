/**
 * Connections by TLS with certificates of one's own. The modules of Node are loaded when they are needed, so stores that
 * also run elsewhere may import this file.
 */
import { reasonOf } from "../env/index.js";
import { StoreMisconfiguredError, withoutUndefined } from "../lease/index.js";
import { damagedCertificate } from "./connecting.js";
import type { TlsFiles, TlsOptions } from "./tls.js";

/**
 * Returns the certificates of the option, and of the files those that it leaves out; null where there are none, so that
 * Node's count. A certificate and its key come from one place.
 * @param engine for messages
 * @throws STORE_MISCONFIGURED
 */
export async function openTls(
  tls: TlsOptions | undefined,
  files: TlsFiles | null,
  engine: string,
): Promise<SecureContext | null> {
  const { ca, cert, key } = files ?? NO_FILES;
  const named = { ca: tls?.ca ? null : ca, ...(tls?.cert ? NO_PAIR : { cert, key }) };
  const given: TlsOptions = { ...(await readTls(named, engine)), ...withoutUndefined(tls ?? {}) };
  return Object.keys(given).length > 0 ? secureContextOf(given, engine) : null;
}

const NO_PAIR = { cert: null, key: null };
const NO_FILES: TlsFiles = { ca: null, ...NO_PAIR };

/**
 * Reads the files, each time that a store opens: they may have been replaced.
 * @param engine for the message
 * @throws STORE_MISCONFIGURED if a file cannot be read
 */
export async function readTls(files: TlsFiles, engine: string): Promise<TlsOptions> {
  const read = Object.entries<string | null>({ ...files }).map(async ([option, path]) => {
    return path === null ? [] : [[option, await contentOf(path, engine)] as const];
  });
  return Object.fromEntries((await Promise.all(read)).flat());
}

async function contentOf(path: string, engine: string): Promise<string> {
  const { readFile } = nodeModules()("fs/promises");
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    throw new StoreMisconfiguredError(
      `the file ${path} for TLS to ${engine}: ${code}; correct its path, or make it readable for this user`,
      error,
    );
  }
}

const CERTIFICATE = /-----BEGIN (X509 |TRUSTED )?CERTIFICATE-----/;
const KEY = /-----BEGIN (\w+ )*PRIVATE KEY-----/;

/** Node takes a text without any for none. */
function checkHas(what: string, pem: RegExp, name: string, text: string | undefined): void {
  if (text === undefined || pem.test(text)) return;
  throw new Error(`${name} must have ${what} in PEM`);
}

/** Node leaves out an authority that it cannot read, and would say of each server that its certificate is of another one. */
function checkReadable(name: string, text: string | undefined): void {
  const damaged =
    text === undefined ? null : damagedCertificate(text, nodeModules()("crypto").X509Certificate);
  if (damaged === null) return;
  throw new Error(
    `${name}: its certificate ${damaged} is damaged; copy it whole, with its first and last line, and a line break after each`,
  );
}

export type SecureContext = ReturnType<typeof secureContextOf>;

/**
 * What `tls.connect` of Node takes as `secureContext`.
 * @throws STORE_MISCONFIGURED if a text is not PEM, or the key is of another certificate
 */
function secureContextOf({ ca, cert, key }: TlsOptions, engine: string) {
  const { createSecureContext } = nodeModules()("tls");
  try {
    checkHas("a certificate", CERTIFICATE, "the authority", ca);
    checkReadable("the authority", ca);
    checkHas("a certificate", CERTIFICATE, "the file of cert", cert);
    checkHas("a private key", KEY, "the file of key", key);
    return createSecureContext({ ca, cert, key });
  } catch (error) {
    const message = reasonOf(error);
    throw new StoreMisconfiguredError(
      `the certificates for ${engine} cannot be used: ${message}; they must be PEM, and the key that of the certificate, without a passphrase`,
    );
  }
}

/** As the fetch of Node, a connection is not used again after this long without requests. */
const IDLE_MS = 4_000;

/** Statuses of answers that have no body. */
const EMPTY = new Set([204, 205, 304]);

interface TlsFetch {
  readonly fetch: typeof globalThis.fetch;
  /** Closes the connections. */
  readonly close: () => void;
}

/** The parts of fetch that stores use, over connections with certificates: the fetch of Node takes none. */
export function fetchOver(secureContext: SecureContext): TlsFetch {
  const { Agent, request: send } = nodeModules()("https");
  const { Readable } = nodeModules()("stream");
  const agent = new Agent({ secureContext, keepAlive: true, timeout: IDLE_MS });
  const fetch = (url: string, init: RequestInit = {}): Promise<Response> =>
    new Promise((resolve, reject) => {
      const { method, body, signal } = init;
      const headers = Object.fromEntries(new Headers(init.headers));
      const options = { agent, headers, ...(method && { method }), ...(signal && { signal }) };
      const request = send(url, options, (answer) => {
        const { statusCode: status = 0, headers: answered } = answer;
        const named = Object.entries(answered).map(([name, value]) => [name, String(value)]);
        const isEmpty = EMPTY.has(status);
        if (isEmpty) answer.resume();
        try {
          const content = isEmpty ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>);
          resolve(new Response(content, { status, headers: named as [string, string][] }));
        } catch (error) {
          answer.destroy();
          reject(error);
        }
      });
      request.on("error", reject);
      request.end(body ?? undefined);
    });
  return { fetch: fetch as typeof globalThis.fetch, close: () => agent.destroy() };
}

/** @throws STORE_MISCONFIGURED outside Node */
function nodeModules(): NodeJS.Process["getBuiltinModule"] {
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  const load = process?.getBuiltinModule;
  if (load) return load;
  throw new StoreMisconfiguredError(
    "certificates of your own need Node; elsewhere pass a fetch that has them",
  );
}
