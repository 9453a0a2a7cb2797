/**
 * A token that ends, from a function of the caller:
 *
 *   none yet, or over ─────▶ the function is asked, and all calls wait for its one answer
 *   a third of its time left (at most a minute) ─▶ asked in the background; calls go on with the token
 *   the server answers 401 ─▶ asked once more, and the request is sent again: it has done nothing
 *
 * So no renewal waits for an issuer while the token is good, and none is lost to a token that has ended.
 */
import { fromBase64 } from "../../env/base64.js";
import { type Env, reasonOf, untilAborted } from "../../env/index.js";
import { InvalidOptionError, StoreUnavailableError } from "../../lease/index.js";
import type { FetchInit } from "./connection.js";

/** A token, or a function that returns one: see {@link HttpOptions.token}. */
export type TokenSource = () => string | Promise<string>;

const MOST_EARLY_MS = 60_000;
/** A function that returns the same token again is not asked with every call. */
const PAUSE_MS = 1_000;

interface Known {
  readonly text: string;
  /** By the wall clock; infinite if the token does not say. */
  readonly untilMs: number;
  readonly renewAtMs: number;
}

export class Tokens {
  readonly #source: TokenSource;
  readonly #env: Pick<Env, "clock" | "logger">;
  #known: Known | undefined;
  #asking: Promise<string> | undefined;
  #askedMs = -Infinity;

  constructor(source: TokenSource, env: Pick<Env, "clock" | "logger">) {
    this.#source = source;
    this.#env = env;
  }

  /**
   * The token for a request.
   * @param signal ends the wait
   * @throws STORE_UNAVAILABLE if the function fails, INVALID_OPTION if it returns no token
   */
  async current(signal: AbortSignal): Promise<string> {
    const known = this.#known;
    const nowMs = this.#env.clock.wall();
    if (known && nowMs < known.renewAtMs) return known.text;
    if (known && nowMs < known.untilMs) {
      // The next call retries it.
      if (!this.#isPausing) this.#ask().catch(() => {});
      return known.text;
    }
    return this.#askUntil(signal);
  }

  /** The token after one that the server has refused; the same one if there is no other. */
  async after(refused: string, signal: AbortSignal): Promise<string> {
    const known = this.#known;
    if (known && known.text !== refused) return known.text;
    return this.#askUntil(signal);
  }

  /** @throws STORE_UNAVAILABLE when the signal aborts first */
  #askUntil(signal: AbortSignal): Promise<string> {
    const late = "the function of the option token did not return in the time of the call";
    const reasonOf = () => new StoreUnavailableError(late, { outcome: "none" });
    return untilAborted(signal, this.#ask(), reasonOf);
  }

  get #isPausing(): boolean {
    return this.#env.clock.monotonic() - this.#askedMs < PAUSE_MS;
  }

  /** Concurrent callers share a call of the function. */
  #ask(): Promise<string> {
    this.#asking ??= this.#askNow().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #askNow(): Promise<string> {
    const { clock, logger } = this.#env;
    this.#askedMs = clock.monotonic();
    let text: unknown;
    try {
      text = await this.#source();
    } catch (cause) {
      const error = new StoreUnavailableError(
        `the function of the option token failed: ${reasonOf(cause)}`,
        {
          outcome: "none",
          cause,
        },
      );
      if (this.#known) logger.warn({ err: error }, "no new token for the server");
      throw error;
    }
    checkToken(text);
    this.#known = knownOf(text, clock.wall());
    return text;
  }
}

/**
 * Sends a request with a token, and once more with another one if the server does not accept it.
 * @throws LeaseholdError if there is no token; otherwise as `fetch`
 */
export async function fetchWithToken(
  tokens: Tokens,
  fetch: typeof globalThis.fetch,
  url: string,
  init: FetchInit,
): Promise<Response> {
  const send = (token: string) =>
    fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } });
  const token = await tokens.current(init.signal);
  const response = await send(token);
  if (response.status !== 401) return response;
  const other = await tokens.after(token, init.signal);
  if (other === token) return response;
  await response.body?.cancel();
  return send(other);
}

/** @throws InvalidOptionError that does not quote it: fetch's own error would */
export function checkToken(text: unknown): asserts text is string {
  if (typeof text === "string" && /^[!-~]{1,16384}$/.test(text)) return;
  throw new InvalidOptionError(
    "token",
    "must be a token of visible ASCII characters, or a function that returns one",
  );
}

function knownOf(text: string, nowMs: number): Known {
  const untilMs = expiryOf(text) ?? Number.POSITIVE_INFINITY;
  const earlyMs = Math.min(MOST_EARLY_MS, Math.max(0, untilMs - nowMs) / 3);
  return { text, untilMs, renewAtMs: untilMs - earlyMs };
}

/** When a JSON Web Token ends, by its own word; null: it does not say. The server decides whether it is true. */
function expiryOf(text: string): number | null {
  const [, payload = ""] = text.split(".");
  try {
    const claims = JSON.parse(fromBase64(payload.replaceAll("-", "+").replaceAll("_", "/"))) as {
      exp?: unknown;
    } | null;
    return typeof claims?.exp === "number" ? claims.exp * 1_000 : null;
  } catch {
    return null;
  }
}
