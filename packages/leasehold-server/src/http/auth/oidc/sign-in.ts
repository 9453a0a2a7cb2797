/**
 * Signs people in to the console, by the authorization code flow with PKCE:
 *
 *   GET /session/sign-in ──▶ cookie with state, nonce and verifier ──▶ the issuer's page
 *   GET /session/callback ◀── code and state ◀───────────────────────────────┘
 *        └─▶ code for an ID token ─▶ signature, audience, nonce ─▶ role ─▶ session cookie ─▶ the console
 *   POST /session/sign-out ─▶ no cookie
 *
 * The session ends with the ID token, which is not kept.
 */
import type { MiddlewareHandler } from "hono";
import type { Env } from "leasehold";
import { randomHex } from "leasehold/internal";
import { isLoopback } from "../../../protocol/index.js";
import { Counts } from "../../counts.js";
import { ProblemError, tooMany } from "../../problems.js";
import type { AppEnv, Connection } from "../../request.js";
import { type AddressList, clientAddress } from "../client-address.js";
import { networkOf } from "../network-of.js";
import type { Oidc } from "./oidc.js";
import type { OidcSignIn } from "./options.js";
import { Tokens, type Verified } from "./tokens.js";

const PATH = "/session";
/** For people who must find a second factor. */
const SIGN_IN_MS = 600_000;
/**
 * Anyone can begin a sign-in and send an invented code, which the issuer may take long to refuse. So an address exchanges
 * fewer codes than others may still begin to exchange: one of them takes half of this, two take a third each.
 */
const MOST_EXCHANGES = 20;
const NO_MORE = 0;
/** Anyone can begin a sign-in and let it fail. */
const LOG_EVERY_MS = 1_000;

/** Why a sign-in has failed, for the page. The log says more. */
type Failure = "refused" | "late" | "no-access" | "failed";

interface Pending {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly to: string;
}

export function servesSignIn(
  oidc: Oidc,
  options: OidcSignIn,
  basePath: string,
  { trustedProxies, ...env }: Env & { readonly trustedProxies: AddressList | undefined },
): MiddlewareHandler<AppEnv> {
  const signIn = new SignIn(oidc, options, basePath, env);
  const networkIn = (headers: Headers, host: Connection | undefined) => {
    const address = clientAddress(headers, host?.remoteAddress, trustedProxies);
    return address === undefined ? undefined : networkOf(address);
  };
  return async (context, next) => {
    const { method, path, raw } = context.req;
    if (method === "GET" && path === `${PATH}/sign-in`) return signIn.begin(raw);
    if (method === "GET" && path === `${PATH}/callback`) {
      return signIn.end(raw, networkIn(raw.headers, context.env));
    }
    if (method === "POST" && path === `${PATH}/sign-out`) return signIn.signOut(raw);
    return next();
  };
}

class SignIn {
  readonly #oidc: Oidc;
  readonly #options: OidcSignIn;
  readonly #basePath: string;
  readonly #env: Env;
  /** ID tokens are for the client, not for the API. */
  readonly #idTokens: Tokens;
  /** Codes that are exchanged now, by the network of the client; empty: unknown. */
  readonly #exchanges = new Counts<string>();
  #loggedMs = -Infinity;

  constructor(oidc: Oidc, options: OidcSignIn, basePath: string, env: Env) {
    this.#oidc = oidc;
    this.#options = options;
    this.#basePath = basePath;
    this.#env = env;
    const { leewayMs } = oidc;
    const own = { audience: options.clientId, leewayMs };
    this.#idTokens = new Tokens(oidc.issuer, own, env);
  }

  async begin(request: Request): Promise<Response> {
    const root = this.#rootOf(request);
    const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await import("openid-client");
    const { configuration } = await this.#oidc.issuer.published();
    if (configuration.serverMetadata().authorization_endpoint === undefined) {
      throw new ProblemError("STORE_UNAVAILABLE", "the issuer has no endpoint for a sign-in");
    }
    const { random, clock } = this.#env;
    const [state, nonce, verifier] = [16, 16, 32].map((bytes) => randomHex(random, bytes)) as [
      string,
      string,
      string,
    ];
    const to = pathIn(root, new URL(request.url).searchParams.get("to"));
    const pending: Pending = { state, nonce, verifier, to };
    const sealed = await this.#oidc.seals.seal("sign-in", pending, clock.wall() + SIGN_IN_MS);
    const url = buildAuthorizationUrl(configuration, {
      response_type: "code",
      redirect_uri: callbackOf(root).href,
      scope: this.#options.scope ?? "openid",
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    });
    const cookie = this.#oidc.cookies.set("leasehold-sign-in", sealed, SIGN_IN_MS / 1_000, "Lax");
    return seeOther(url.href, [cookie]);
  }

  /** @param network of the client; undefined: unknown */
  async end(request: Request, network: string | undefined): Promise<Response> {
    const { cookies, seals } = this.#oidc;
    const root = this.#rootOf(request);
    const answer = callbackOf(root, new URL(request.url).search);
    const done = cookies.set("leasehold-sign-in", "", NO_MORE, "Lax");
    const fail = (failure: Failure) => seeOther(`${root}/#sign-in=${failure}`, [done]);
    const sealed = cookies.read(request, "leasehold-sign-in");
    const opened = sealed === undefined ? null : await seals.open("sign-in", sealed);
    const pending = opened?.content as Pending | undefined;
    // The library checks the state too, but does not say that it was this which failed.
    if (!pending || answer.searchParams.get("state") !== pending.state) return fail("late");
    let verified: Verified;
    try {
      verified = await this.#exchanged(answer, pending, network);
    } catch (error) {
      if (error instanceof ProblemError && error.status === 429) throw error;
      const { AuthorizationResponseError } = await import("openid-client");
      const isRefusal = error instanceof AuthorizationResponseError;
      return this.#failed(fail, isRefusal ? "refused" : "failed", loggable(error));
    }
    const { claims, subject, untilMs } = verified;
    const session = await this.#oidc.sessionOf(claims, subject, untilMs);
    const { logger, clock } = this.#env;
    const actor = `oidc:${subject}`;
    if (session === null) {
      return this.#failed(fail, "no-access", new Error(`${actor} has no role on this server`));
    }
    logger.info({ event: "console_sign_in", actor }, `${actor} signed in to the console`);
    const seconds = (untilMs - clock.wall()) / 1_000;
    const cookie = cookies.set("leasehold-session", session, seconds, "Strict");
    return seeOther(`${root}${pending.to}`, [done, cookie]);
  }

  async signOut(request: Request): Promise<Response> {
    this.#oidc.checkOrigin(request);
    const headers = new Headers();
    headers.append(
      "set-cookie",
      this.#oidc.cookies.set("leasehold-session", "", NO_MORE, "Strict"),
    );
    return new Response(null, { status: 204, headers });
  }

  #failed(fail: (failure: Failure) => Response, failure: Failure, err: unknown): Response {
    const { logger, clock } = this.#env;
    const nowMs = clock.monotonic();
    if (nowMs - this.#loggedMs >= LOG_EVERY_MS) {
      this.#loggedMs = nowMs;
      const message = `a sign-in to the console failed (${failure})`;
      logger.warn({ event: "console_sign_in_failed", err }, message);
    }
    return fail(failure);
  }

  /** Exchanges the code of an answer for the ID token. */
  async #exchanged(
    answer: URL,
    { state, nonce, verifier }: Pending,
    network: string | undefined,
  ): Promise<Verified> {
    const exchanges = this.#exchanges;
    const left = MOST_EXCHANGES - exchanges.total;
    if (left <= 0 || (network !== undefined && exchanges.of(network) >= left)) {
      throw tooMany("capacity", "too many people sign in at once: retry in 1 s", 1_000);
    }
    const counted = network ?? "";
    exchanges.add(counted, 1);
    try {
      const { authorizationCodeGrant } = await import("openid-client");
      const { configuration } = await this.#oidc.issuer.published();
      const granted = await authorizationCodeGrant(configuration, answer, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
      });
      // The library has checked the claims. It relies on TLS for the rest, or reads the keys by the machine's clock.
      const verified = await this.#idTokens.verify(granted.id_token ?? "");
      const { azp } = verified.claims;
      // The library checks it only beside several audiences.
      if (azp !== undefined && azp !== this.#options.clientId) {
        throw new Error("the ID token was issued to another client");
      }
      return verified;
    } finally {
      exchanges.add(counted, -1);
    }
  }

  /**
   * The URL at which browsers reach the app, without a trailing slash.
   * @throws FORBIDDEN if it would come from a header of the request
   */
  #rootOf(request: Request): string {
    const { publicUrl } = this.#options;
    if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, "");
    const { origin, hostname } = new URL(request.url);
    if (isLoopback(hostname)) return `${origin}${this.#basePath}`;
    const detail = "to sign in from other machines, the server must know its public URL";
    throw new ProblemError("FORBIDDEN", `${detail}: --public-url`);
  }
}

/** The redirect URI, which the library compares and sends without the answer in it. */
function callbackOf(root: string, answer = ""): URL {
  return new URL(`${root}${PATH}/callback${answer}`);
}

/** Errors of the library have tokens, claims, and text of the URL. This one has its messages, and the error's name alone. */
function loggable(error: unknown): unknown {
  if (error instanceof ProblemError || !(error instanceof Error)) return error;
  const { message, cause, error: name } = error as Error & { readonly error?: unknown };
  const parts = [message, cause instanceof Error && cause.message];
  if (typeof name === "string" && /^[\w.-]{1,64}$/.test(name)) parts.push(name);
  return new Error(parts.filter(Boolean).join(": "));
}

/** Where to go afterwards: a path of the console, never another site. */
function pathIn(root: string, wanted: string | null): string {
  const { origin } = new URL(root);
  if (wanted === null || !/^\/(?![/\\])/.test(wanted)) return "/";
  const url = URL.canParse(wanted, origin) ? new URL(wanted, origin) : null;
  return url?.origin === origin ? `${url.pathname}${url.search}` : "/";
}

function seeOther(location: string, cookies: readonly string[]): Response {
  const headers = new Headers({ location, "referrer-policy": "no-referrer" });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}
