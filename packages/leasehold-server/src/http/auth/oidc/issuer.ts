/**
 * What the issuer publishes: where its endpoints are, and the keys that sign its tokens.
 *
 *   age of the keys   < 5 min ─▶ used
 *                    < 24 hours ─▶ used, and read again in the background: an issuer that is down ends no lease
 *                   else, or none ─▶ read; 503 if that fails
 *   a token of an unknown key ─▶ read again, at most every 5 s: invented tokens must not become requests to the issuer
 */
import type { Env } from "leasehold";
import { withTimeout } from "leasehold/internal";
import { ProblemError } from "../../problems.js";
import { checkSafeUrl } from "./options.js";

export interface Metadata {
  readonly issuer: string;
  readonly jwks_uri: string;
  readonly authorization_endpoint?: string;
  readonly token_endpoint?: string;
  readonly token_endpoint_auth_methods_supported?: readonly string[];
}

export interface PublishedKeys {
  readonly metadata: Metadata;
  /** A JSON Web Key Set, in JSON. */
  readonly jwks: string;
  /** When the read began. */
  readonly atMs: number;
}

const FRESH_MS = 300_000;
const STALE_MS = 24 * 3_600_000;
const PAUSE_MS = 5_000;
const READ_MS = 5_000;
const MOST_BYTES = 512 * 1024;

export interface IssuerOptions {
  readonly issuer: string;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

export class Issuer {
  readonly url: string;
  readonly #fetch: typeof globalThis.fetch;
  readonly #env: Env;
  #known: PublishedKeys | undefined;
  #reading: Promise<PublishedKeys> | undefined;
  #triedMs = -Infinity;
  #failure: unknown;

  constructor({ issuer, fetch = globalThis.fetch }: IssuerOptions, env: Env) {
    this.url = issuer;
    this.#fetch = fetch;
    this.#env = env;
  }

  /** @throws STORE_UNAVAILABLE if there are none that still count */
  async published(): Promise<PublishedKeys> {
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
  async publishedSince(sinceMs: number): Promise<PublishedKeys> {
    await this.#reading?.catch(() => {});
    if (this.#known && this.#known.atMs >= sinceMs) return this.#known;
    return this.#read();
  }

  /**
   * Sends a request to an endpoint of the issuer, and returns its JSON.
   * @throws Error that does not quote the request
   */
  async request(url: string, init: RequestInit = {}): Promise<Answered> {
    const { clock } = this.#env;
    const cut = new AbortController();
    const giveUp = () => {
      cut.abort();
      throw new Error(`no answer of ${new URL(url).origin} within ${READ_MS} ms`);
    };
    const asking = this.#ask(url, { ...init, redirect: "error", signal: cut.signal });
    return withTimeout(clock, READ_MS, asking, giveUp, { background: true });
  }

  async #ask(url: string, init: RequestInit): Promise<Answered> {
    const response = await this.#fetch(url, init);
    const text = await textOf(response);
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      throw new Error(`${url} is no JSON (status ${response.status})`);
    }
    if (typeof body !== "object" || body === null) throw new Error(`${url} is no JSON object`);
    return { status: response.status, body: body as Record<string, unknown> };
  }

  get #nowMs(): number {
    return this.#env.clock.monotonic();
  }

  get #isPausing(): boolean {
    return this.#nowMs - this.#triedMs < PAUSE_MS;
  }

  /** Concurrent callers share a read. */
  #read(): Promise<PublishedKeys> {
    if (this.#reading) return this.#reading;
    if (this.#isPausing) return Promise.reject(this.#unavailable());
    this.#triedMs = this.#nowMs;
    const reading = this.#readNow().finally(() => {
      this.#reading = undefined;
    });
    this.#reading = reading;
    return reading;
  }

  async #readNow(): Promise<PublishedKeys> {
    const atMs = this.#nowMs;
    const { logger } = this.#env;
    try {
      const metadata = await this.#readMetadata();
      const { keys } = (await this.#get(metadata.jwks_uri)) as { keys?: unknown };
      if (!Array.isArray(keys)) throw new Error(`${metadata.jwks_uri} has no keys`);
      this.#known = { metadata, jwks: JSON.stringify({ keys }), atMs };
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

  async #readMetadata(): Promise<Metadata> {
    const url = `${this.url.replace(/\/$/, "")}/.well-known/openid-configuration`;
    const metadata = await this.#get(url);
    if (metadata["issuer"] !== this.url) {
      throw new Error(`${url} names another issuer, ${JSON.stringify(metadata["issuer"])}`);
    }
    checkSafeUrl("jwks_uri", metadata["jwks_uri"]);
    for (const name of ["authorization_endpoint", "token_endpoint"]) {
      if (metadata[name] !== undefined) checkSafeUrl(name, metadata[name]);
    }
    return metadata as unknown as Metadata;
  }

  async #get(url: string): Promise<Record<string, unknown>> {
    const { status, body } = await this.request(url, { headers: { accept: "application/json" } });
    if (status === 200) return body;
    throw new Error(`${url} answered with status ${status}`);
  }

  #unavailable(): ProblemError {
    const detail = `the token cannot be checked yet: the keys of its issuer ${this.#failure === undefined ? "were read a moment ago" : "cannot be read"}; nothing was done. Retry later`;
    const leftMs = Math.max(0, this.#triedMs + PAUSE_MS - this.#nowMs);
    const headers = { "retry-after": `${Math.max(1, Math.ceil(leftMs / 1_000))}` };
    return new ProblemError("STORE_UNAVAILABLE", detail, { headers, cause: this.#failure });
  }
}

export interface Answered {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The text of an answer, up to a bound. */
async function textOf(response: Response): Promise<string> {
  const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = response.body?.getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for (;;) {
    const chunk = await reader?.read();
    if (!chunk?.value) return text + decoder.decode();
    bytes += chunk.value.length;
    if (bytes > MOST_BYTES) {
      await reader?.cancel();
      throw new Error(
        `an answer of ${new URL(response.url).origin} has more than ${MOST_BYTES} bytes`,
      );
    }
    text += decoder.decode(chunk.value, { stream: true });
  }
}
