/**
 * Callers by an OpenID Connect issuer:
 *
 *   Authorization: Bearer <JWT>  ─▶ tokens.ts ─▶ claims ─┐
 *   session cookie of the console ─▶ seals.ts ─▶ claims ─┴▶ roles.ts ─▶ caller, until the token ends
 *
 * The role comes from the rules of this server at each request, also for a session, so a changed rule counts at once.
 */
import type { Env } from "leasehold";
import { digestOf } from "leasehold/internal";
import { ProblemError, unauthenticated } from "../../problems.js";
import type { Caller } from "../caller.js";
import { Cookies } from "./cookies.js";
import { Issuer } from "./issuer.js";
import { checkOidc, DEFAULT_LEEWAY_MS, type OidcOptions } from "./options.js";
import { type Claims, RoleRules } from "./roles.js";
import { Seals } from "./seals.js";
import { Tokens } from "./tokens.js";

/** A JSON Web Token. Keys have no dots. */
const TOKEN = /^[\w-]+\.[\w-]*\.[\w-]*$/;
const NO_ACCESS =
  "the claims of this identity give it no role on this server: see --oidc-role and --oidc-tenant-claim";

export class Oidc {
  readonly issuer: Issuer;
  readonly leewayMs: number;
  readonly signIn: OidcOptions["signIn"];
  readonly seals: Seals;
  readonly cookies: Cookies;
  readonly #tokens: Tokens;
  readonly #rules: RoleRules;
  readonly #env: Env;

  /**
   * @param namespace of callers whose tenant no rule and no claim names
   * @throws InvalidOptionError
   */
  constructor(options: OidcOptions, namespace: string, env: Env) {
    checkOidc(options);
    const { leewayMs = DEFAULT_LEEWAY_MS, signIn } = options;
    this.leewayMs = leewayMs;
    this.signIn = signIn;
    this.#env = env;
    this.issuer = new Issuer(options, env);
    this.#rules = new RoleRules(options, namespace);
    this.#tokens = new Tokens(this.issuer, { audience: options.audience, leewayMs }, env);
    this.seals = new Seals(signIn?.sessionSecrets, env);
    this.cookies = new Cookies(signIn?.publicUrl?.startsWith("https:") ?? false);
  }

  /**
   * The caller of a request with a token, or without any bearer and with a session; null: it has neither.
   * @param bearer of the request; empty: none
   * @throws UNAUTHENTICATED; FORBIDDEN if the claims give no role, and for pages of other origins; STORE_UNAVAILABLE
   */
  async callerOf(bearer: string, request: Request): Promise<Caller | null> {
    if (bearer === "") return this.#callerOfSession(request);
    if (!TOKEN.test(bearer)) return null;
    const { claims, subject, untilMs } = await this.#tokens.verify(bearer);
    return this.#callerOf(claims, subject, untilMs);
  }

  async #callerOfSession(request: Request): Promise<Caller | null> {
    const sealed = this.signIn && this.cookies.read(request, "leasehold-session");
    if (sealed === undefined) return null;
    this.checkOrigin(request);
    const opened = await this.seals.open("session", sealed);
    const { issuer, subject, claims } = (opened?.content ?? {}) as Partial<Session>;
    if (!opened || issuer !== this.issuer.url || subject === undefined || !claims) {
      throw unauthenticated("the session has ended: sign in again", false);
    }
    return this.#callerOf(claims, subject, opened.untilMs);
  }

  /**
   * Seals a session, unless the claims give no role: null.
   * @param untilMs by the wall clock
   */
  async sessionOf(claims: Claims, subject: string, untilMs: number): Promise<string | null> {
    if (!this.#rules.accessOf(claims)) return null;
    const session: Session = {
      issuer: this.issuer.url,
      subject,
      claims: this.#rules.needed(claims),
    };
    return this.seals.seal("session", session, untilMs);
  }

  /**
   * A browser adds the cookie to requests of any page of this site, also of other ports and names, so it must say that the
   * page is the console's.
   * @throws FORBIDDEN
   */
  checkOrigin({ url, method, headers }: Request): void {
    const site = headers.get("sec-fetch-site");
    const origin = headers.get("origin");
    const own = new URL(this.signIn?.publicUrl ?? url).origin;
    if (site === "same-origin" || (site === null && origin === own)) return;
    // Opened by the user, or by a browser that says nothing of the page: only to read.
    const reads = method === "GET" || method === "HEAD";
    if (reads && origin === null && (site === null || site === "none")) return;
    throw new ProblemError("FORBIDDEN", "a web page of another origin sent this request");
  }

  /** @throws UNAUTHENTICATED */
  checkNotOver({ untilMs }: Pick<Caller, "untilMs">): void {
    if (untilMs === undefined || this.#env.clock.wall() < untilMs) return;
    throw unauthenticated("the token has expired");
  }

  #callerOf(claims: Claims, subject: string, untilMs: number): Caller {
    const access = this.#rules.accessOf(claims);
    if (!access) throw new ProblemError("FORBIDDEN", NO_ACCESS);
    const keyId = `oidc:${digestOf(`${this.issuer.url}\n${subject}`).slice(0, 16)}`;
    return { ...access, actor: `oidc:${subject}`, keyId, untilMs };
  }
}

/** What a session cookie has. No token. */
interface Session {
  readonly issuer: string;
  readonly subject: string;
  readonly claims: Claims;
}
