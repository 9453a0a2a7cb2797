/**
 * What the issuer publishes: where its endpoints are, and the keys that sign its tokens. openid-client discovers the
 * endpoints, and jose fetches and holds the keys. This class decides when they do, on the clock of the app. Left alone,
 * jose would accept no token while the issuer is down, would fetch for each token of an unknown key meanwhile, and would
 * refuse a new key for a while after each fetch:
 *
 *   age of the keys   < 5 min ─▶ used
 *                    < 24 hours ─▶ used, and read again in the background: an issuer that is down ends no lease
 *                   else, or none ─▶ read; 503 if that fails
 *   a token of an unknown key ─▶ read again, at most every 5 s: invented tokens must not become requests to the issuer
 */
import type { JWTVerifyGetKey } from "jose";
import type { Env } from "leasehold";
import { withTimeout } from "leasehold/internal";
import type * as client from "openid-client";
import { ProblemError } from "../../problems.js";
import { checkSafeUrl, type OidcOptions } from "./options.js";

export interface Published {
  /** The issuer and the client of the sign-in, for openid-client. */
  readonly configuration: client.Configuration;
  readonly keys: JWTVerifyGetKey;
  /** When the read began. */
  readonly atMs: number;
}

const FRESH_MS = 300_000;
const STALE_MS = 24 * 3_600_000;
const PAUSE_MS = 5_000;
const READ_MS = 5_000;
const MOST_BYTES = 512 * 1024;

export class Issuer {
  readonly url: string;
  readonly #fetch: typeof globalThis.fetch;
  readonly #signIn: OidcOptions["signIn"];
  readonly #env: Env;
  #known: Published | undefined;
  #reading: Promise<Published> | undefined;
  #triedMs = -Infinity;
  #failure: unknown;

  constructor(
    { issuer, fetch = globalThis.fetch, signIn }: Pick<OidcOptions, "issuer" | "fetch" | "signIn">,
    env: Env,
  ) {
    this.url = issuer;
    this.#fetch = fetch;
    this.#signIn = signIn;
    this.#env = env;
  }

  /** @throws STORE_UNAVAILABLE if there are none that still count */
  async published(): Promise<Published> {
    const known = this.#known;
    const ageMs = known ? this.#nowMs - known.atMs : Infinity;
    if (known && ageMs < FRESH_MS) return known;
    if (!known || ageMs >= STALE_MS) return this.#read();
    // The next request retries a failed read.
    if (!this.#isPausing) this.#read().catch(() => {});
    return known;
  }

  /**
   * What the issuer publishes from this moment on, for a token whose key is unknown.
   * @throws STORE_UNAVAILABLE if it was read a moment ago: retry
   */
  async publishedSince(sinceMs: number): Promise<Published> {
    await this.#reading?.catch(() => {});
    if (this.#known && this.#known.atMs >= sinceMs) return this.#known;
    return this.#read();
  }

  /**
   * The fetch of both libraries, which have no bound on the size of an answer, time requests by the machine's clock, and
   * leave redirects to the fetch.
   * @throws Error that does not quote the request
   */
  readonly request = async (url: string, init: object): Promise<Response> => {
    const { origin } = new URL(url);
    const cut = new AbortController();
    const giveUp = () => {
      cut.abort();
      throw new Error(`no answer of ${origin} within ${READ_MS} ms`);
    };
    const asking = this.#fetch(url, { ...init, redirect: "error", signal: cut.signal });
    const answer = asking.then((response) => bounded(response, origin));
    return withTimeout(this.#env.clock, READ_MS, answer, giveUp, { background: true });
  };

  get #nowMs(): number {
    return this.#env.clock.monotonic();
  }

  get #isPausing(): boolean {
    return this.#nowMs - this.#triedMs < PAUSE_MS;
  }

  /** Concurrent callers share a read. */
  #read(): Promise<Published> {
    if (this.#reading) return this.#reading;
    if (this.#isPausing) return Promise.reject(this.#unavailable());
    this.#triedMs = this.#nowMs;
    const reading = this.#readNow().finally(() => {
      this.#reading = undefined;
    });
    this.#reading = reading;
    return reading;
  }

  async #readNow(): Promise<Published> {
    const atMs = this.#nowMs;
    const { logger } = this.#env;
    try {
      const configuration = await this.#discover();
      this.#known = { configuration, keys: await this.#readKeys(configuration), atMs };
    } catch (err) {
      // Once, until it works again.
      if (this.#failure === undefined) {
        const issuer = this.url;
        const message = `the keys of ${issuer} cannot be read: known keys count for 24 h`;
        logger.warn({ event: "issuer_unavailable", issuer, err }, message);
      }
      this.#failure = err;
      throw this.#unavailable();
    }
    if (this.#failure !== undefined) {
      const message = `the keys of ${this.url} were read again`;
      logger.info({ event: "issuer_available", issuer: this.url }, message);
    }
    this.#failure = undefined;
    return this.#known;
  }

  async #discover(): Promise<client.Configuration> {
    const library = await import("openid-client");
    const { clientId = "none", clientSecret } = this.#signIn ?? {};
    const configuration = await library.discovery(
      new URL(this.url),
      clientId,
      // Times are checked with the signature (tokens.ts): the library knows only the machine's clock.
      { [library.clockTolerance]: Number.MAX_SAFE_INTEGER },
      authenticationBy(library, clientSecret),
      {
        [library.customFetch]: this.request,
        // oxlint-disable-next-line typescript/no-deprecated -- marked so to stand out; checkSafeUrl allows http: on loopback alone
        execute: [library.allowInsecureRequests],
      },
    );
    const metadata = configuration.serverMetadata();
    // The library accepts another spelling, and any issuer of some hosts.
    if (metadata.issuer !== this.url) {
      throw new Error(`${this.url} publishes another issuer, ${JSON.stringify(metadata.issuer)}`);
    }
    // The library allows http: for all hosts or for none, and jose does not check.
    checkSafeUrl("jwks_uri", metadata.jwks_uri);
    for (const name of ["authorization_endpoint", "token_endpoint"]) {
      if (metadata[name] !== undefined) checkSafeUrl(name, metadata[name]);
    }
    return configuration;
  }

  async #readKeys(configuration: client.Configuration): Promise<JWTVerifyGetKey> {
    const { createRemoteJWKSet, customFetch } = await import("jose");
    const keys = createRemoteJWKSet(new URL(configuration.serverMetadata().jwks_uri ?? ""), {
      // Nothing but the next read of this class fetches keys.
      cacheMaxAge: Infinity,
      cooldownDuration: Infinity,
      [customFetch]: this.request,
    });
    await keys.reload();
    return keys;
  }

  #unavailable(): ProblemError {
    const detail = `the token cannot be checked yet: the keys of its issuer ${this.#failure === undefined ? "were read a moment ago" : "cannot be read"}; nothing was done. Retry later`;
    const leftMs = Math.max(0, this.#triedMs + PAUSE_MS - this.#nowMs);
    const headers = { "retry-after": `${Math.max(1, Math.ceil(leftMs / 1_000))}` };
    return new ProblemError("STORE_UNAVAILABLE", detail, { headers, cause: this.#failure });
  }
}

/** How the client proves who it is. The library does not choose by what the issuer supports. */
function authenticationBy(library: typeof client, secret: string | undefined): client.ClientAuth {
  if (secret === undefined) return library.None();
  const [basic, post] = [library.ClientSecretBasic(secret), library.ClientSecretPost(secret)];
  return (server, ...request) => {
    const methods = server.token_endpoint_auth_methods_supported;
    return (methods?.includes("client_secret_basic") === false ? post : basic)(server, ...request);
  };
}

/** The answer, read to its end: the time of a request includes it. */
async function bounded(response: Response, origin: string): Promise<Response> {
  let bytes = 0;
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, out) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) {
        throw new Error(`an answer of ${origin} has more than ${MOST_BYTES} bytes`);
      }
      out.enqueue(chunk);
    },
  });
  const text = await new Response(response.body?.pipeThrough(counting) ?? null).text();
  const { status, headers } = response;
  // A challenge in another header would hide the error that the text names, such as a wrong client secret.
  const type = headers.get("content-type") ?? "";
  return new Response(text || null, { status, headers: { "content-type": type } });
}
