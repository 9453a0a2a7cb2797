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
import { digestOf, equalDigests, randomHex } from "leasehold/internal";
import { isLoopback } from "../../../protocol/index.js";
import { Counts } from "../../limits/counts.js";
import { networkOf } from "../../limits/networks.js";
import { ProblemError, tooMany } from "../../problems.js";
import type { AppEnv, Connection } from "../../request.js";
import { type AddressList, clientAddress } from "../client-address.js";
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
    const own = { audience: options.clientId, leewayMs, remembers: null };
    this.#idTokens = new Tokens(oidc.issuer, own, env);
  }

  async begin(request: Request): Promise<Response> {
    const root = this.#rootOf(request);
    const { metadata } = await this.#oidc.issuer.published();
    if (metadata.authorization_endpoint === undefined) throw cannotSignIn();
    const { random, clock } = this.#env;
    const [state, nonce, verifier] = [16, 16, 32].map((bytes) => randomHex(random, bytes)) as [
      string,
      string,
      string,
    ];
    const to = pathIn(root, new URL(request.url).searchParams.get("to"));
    const pending: Pending = { state, nonce, verifier, to };
    const sealed = await this.#oidc.seals.seal("sign-in", pending, clock.wall() + SIGN_IN_MS);
    const url = new URL(metadata.authorization_endpoint);
    const { clientId, scope = "openid" } = this.#options;
    const parameters = {
      response_type: "code",
      client_id: clientId,
      redirect_uri: `${root}${PATH}/callback`,
      scope,
      state,
      nonce,
      code_challenge: base64UrlOf(digestOf(verifier)),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    const cookie = this.#oidc.cookies.set("leasehold-sign-in", sealed, SIGN_IN_MS / 1_000, "Lax");
    return seeOther(url.href, [cookie]);
  }

  /** @param network of the client; undefined: unknown */
  async end(request: Request, network: string | undefined): Promise<Response> {
    const { cookies, seals } = this.#oidc;
    const root = this.#rootOf(request);
    const answer = new URL(request.url).searchParams;
    const done = cookies.set("leasehold-sign-in", "", NO_MORE, "Lax");
    const fail = (failure: Failure) => seeOther(`${root}/#sign-in=${failure}`, [done]);
    const sealed = cookies.read(request, "leasehold-sign-in");
    const opened = sealed === undefined ? null : await seals.open("sign-in", sealed);
    const pending = opened?.content as Pending | undefined;
    const isOurs =
      pending !== undefined &&
      equalDigests(digestOf(pending.state), digestOf(answer.get("state") ?? ""));
    if (!pending || !isOurs) return fail("late");
    const issuer = answer.get("iss");
    if (issuer !== null && issuer !== this.#oidc.issuer.url) {
      return this.#failed(fail, "failed", new Error("the answer is of another issuer"));
    }
    const code = answer.get("code");
    if (code === null) {
      // Of the URL, so it may be any text.
      const [error = "no code"] = /^[\w.-]{1,64}$/.exec(answer.get("error") ?? "") ?? [];
      return this.#failed(fail, "refused", new Error(`the issuer answered ${error}`));
    }
    let verified: Verified;
    try {
      verified = await this.#exchanged(code, pending, root, network);
    } catch (error) {
      if (error instanceof ProblemError && error.status === 429) throw error;
      return this.#failed(fail, "failed", error);
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

  /** The ID token for a code. */
  async #exchanged(
    code: string,
    pending: Pending,
    root: string,
    network: string | undefined,
  ): Promise<Verified> {
    const exchanges = this.#exchanges;
    const left = MOST_EXCHANGES - exchanges.total;
    if (left <= 0 || (network !== undefined && exchanges.of(network) >= left)) {
      throw tooMany("OVERLOADED", "too many people sign in at once: retry in 1 s", 1_000);
    }
    const counted = network ?? "";
    exchanges.add(counted, 1);
    try {
      const token = await this.#tokenFor(code, pending, root);
      const verified = await this.#idTokens.verify(token);
      const { nonce, aud, azp } = verified.claims;
      if (nonce !== pending.nonce) throw new Error("the nonce of the ID token is another one");
      const { clientId } = this.#options;
      if ((Array.isArray(aud) && aud.length > 1) || azp !== undefined) {
        if (azp !== clientId) throw new Error("the ID token was issued to another client");
      }
      return verified;
    } finally {
      exchanges.add(counted, -1);
    }
  }

  async #tokenFor(code: string, { verifier }: Pending, root: string): Promise<string> {
    const { issuer } = this.#oidc;
    const { metadata } = await issuer.published();
    const { token_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = metadata;
    if (endpoint === undefined) throw cannotSignIn();
    const { clientId, clientSecret } = this.#options;
    const form = new URLSearchParams({
      grant_type: "authorization_code",
      code,
      redirect_uri: `${root}${PATH}/callback`,
      code_verifier: verifier,
    });
    const headers: Record<string, string> = {
      "content-type": "application/x-www-form-urlencoded",
      accept: "application/json",
    };
    if (clientSecret === undefined) {
      form.set("client_id", clientId);
    } else if (methods?.includes("client_secret_basic") === false) {
      form.set("client_id", clientId);
      form.set("client_secret", clientSecret);
    } else {
      const pair = [clientId, clientSecret].map(encodeURIComponent).join(":");
      headers["authorization"] = `Basic ${btoa(pair)}`;
    }
    const request = { method: "POST", headers, body: form.toString() };
    const { status, body } = await issuer.request(endpoint, request);
    const { id_token: token, error } = body;
    if (status === 200 && typeof token === "string") return token;
    throw new Error(`${endpoint} gave no ID token (status ${status}, ${String(error)})`);
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

function cannotSignIn(): ProblemError {
  return new ProblemError("STORE_UNAVAILABLE", "the issuer has no endpoints for a sign-in");
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

function base64UrlOf(hex: string): string {
  const bytes = hex.match(/../g) ?? [];
  const text = String.fromCharCode(...bytes.map((byte) => Number.parseInt(byte, 16)));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
