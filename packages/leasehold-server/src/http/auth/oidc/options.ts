/** The options of identities from an OpenID Connect issuer. */
import { InvalidOptionError } from "leasehold";
import { checkFetchPorts, checkNumber } from "leasehold/internal";
import { isLoopback } from "../../../protocol/index.js";
import { roleRuleOf } from "./roles.js";

/** Callers by tokens of an OpenID Connect issuer, beside API keys: the option `oidc` of `createApp`. */
export interface OidcOptions {
  /**
   * URL of the issuer, exactly as in the `iss` of its tokens. The app reads
   * `ISSUER/.well-known/openid-configuration` and the keys that it names. `https:`, or `http:` on this machine.
   */
  readonly issuer: string;
  /** The `aud` of tokens for this API; of several, a token must have one. */
  readonly audience: string | readonly string[];
  /**
   * Which claims give which role: `CLAIM:VALUE=ROLE`, like `groups:lease-admins=admin` or
   * `sub:system:serviceaccount:shop:*=holder,tenant=shop,prefix=billing/`. `prefix` limits the resources of a holder or an
   * operator, and `queue` those of an operator. The first rule that matches counts. A caller whose claims match none has no
   * access.
   */
  readonly roles: readonly string[];
  /**
   * The claim that names the tenant, for rules that name none. A caller without it has no access. Default: the
   * namespace of the app.
   */
  readonly tenantClaim?: string | undefined;
  /** How far the clocks of issuer and app may differ, in milliseconds, at most 300,000. Default 5,000. */
  readonly leewayMs?: number | undefined;
  /** Signs people in to the console. Default: the console asks for an API key. */
  readonly signIn?: OidcSignIn | undefined;
  /** Reaches the issuer. Default: the global fetch. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** How people sign in to the console at the issuer, by the authorization code flow with PKCE. */
export interface OidcSignIn {
  /** The client that the issuer knows the console by, with the redirect URI `PUBLIC_URL/session/callback`. */
  readonly clientId: string;
  /** Default: none, a public client, which PKCE protects. */
  readonly clientSecret?: string | undefined;
  /** What the console asks the issuer for. Default `openid`. */
  readonly scope?: string | undefined;
  /**
   * The URL at which browsers reach the app, with its base path. Default: that of the request, which must then be one
   * of this machine.
   */
  readonly publicUrl?: string | undefined;
  /**
   * Secrets of at least 32 characters, from which the keys of session cookies are derived. All servers of a console
   * need the same ones. The first one seals, all of them open, so that a secret can be replaced. Default: a random one, so
   * that sessions end with the app.
   */
  readonly sessionSecrets?: readonly string[] | undefined;
}

export const DEFAULT_LEEWAY_MS = 5_000;
const MAX_LEEWAY_MS = 300_000;
const LEAST_SECRET = 32;

/** @throws InvalidOptionError */
export function checkOidc(options: OidcOptions): void {
  const { issuer, audience, roles, tenantClaim, leewayMs, signIn } = options;
  checkSafeUrl("oidc.issuer", issuer);
  if (!options.fetch) checkFetchPorts("oidc.issuer", [issuer]);
  if (/[?#]/.test(issuer)) {
    throw new InvalidOptionError("oidc.issuer", "must have neither a query nor a fragment");
  }
  const audiences = typeof audience === "string" ? [audience] : audience;
  if (!Array.isArray(audiences) || audiences.length === 0) {
    throw new InvalidOptionError("oidc.audience", "must be the aud of tokens for this API");
  }
  for (const each of audiences as readonly unknown[]) checkText("oidc.audience", each);
  if (!Array.isArray(roles) || roles.length === 0) {
    throw new InvalidOptionError(
      "oidc.roles",
      "must have a rule: without one, no token has access",
    );
  }
  for (const rule of roles as readonly string[]) roleRuleOf(rule);
  if (tenantClaim !== undefined) checkText("oidc.tenantClaim", tenantClaim);
  if (leewayMs !== undefined) checkNumber("oidc.leewayMs", leewayMs, 0, MAX_LEEWAY_MS);
  if (signIn !== undefined) checkSignIn(signIn);
}

function checkSignIn({ clientId, clientSecret, publicUrl, sessionSecrets }: OidcSignIn): void {
  checkText("oidc.signIn.clientId", clientId);
  if (clientSecret !== undefined) checkText("oidc.signIn.clientSecret", clientSecret);
  if (publicUrl !== undefined) {
    checkSafeUrl("oidc.signIn.publicUrl", publicUrl);
    if (/[?#]/.test(publicUrl)) {
      throw new InvalidOptionError("oidc.signIn.publicUrl", "must have no query and no fragment");
    }
  }
  if (sessionSecrets === undefined) return;
  const path = "oidc.signIn.sessionSecrets";
  if (sessionSecrets.length === 0) throw new InvalidOptionError(path, "must have a secret");
  // No message quotes it.
  if (sessionSecrets.some((secret) => secret.trim().length < LEAST_SECRET)) {
    throw new InvalidOptionError(path, `must have at least ${LEAST_SECRET} characters each`);
  }
}

function checkText(path: string, value: unknown): void {
  if (typeof value === "string" && value.trim() !== "") return;
  throw new InvalidOptionError(path, "must be text that is not empty");
}

/**
 * Others on the network could replace keys, codes and cookies that travel without TLS.
 * @throws InvalidOptionError
 */
export function checkSafeUrl(path: string, value: unknown): void {
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  if (url?.protocol === "https:" && !url.username && !url.password) return;
  if (url?.protocol === "http:" && isLoopback(url.hostname)) return;
  throw new InvalidOptionError(path, "must be a URL with https:, or with http: on this machine");
}
