/**
 * Checks the tokens of an issuer: JSON Web Tokens, signed with one of its published keys.
 *
 *   form, type, algorithm ─▶ key by its id ─▶ signature ─▶ issuer, audience, times ─▶ claims
 *                                └─ unknown: the keys are read again, see issuer.ts
 *
 * The package jose does the cryptography. It is loaded with the first token. A verified token is remembered until it or its
 * key ends, because clients send it with every renewal.
 */
import type * as jose from "jose";
import type { Env } from "leasehold";
import { digestOf } from "leasehold/internal";
import { ProblemError, unauthenticated } from "../../problems.js";
import type { Issuer, PublishedKeys } from "./issuer.js";
import type { Claims } from "./roles.js";

type Jose = typeof jose;
type LocalKeys = ReturnType<Jose["createLocalJWKSet"]>;

/** Without those of shared secrets: a public key of the issuer must never serve as one. */
const ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");
/** A token of another type, such as one for a logout, is signed by the same keys and grants nothing. */
const TYPES = new Set(["jwt", "at+jwt", "application/at+jwt"]);
const LONGEST_TOKEN = 16_384;
const MOST_REMEMBERED = 10_000;
/** By OpenID Connect, at most 255 characters of ASCII. It is shown in logs and the audit. */
const SUBJECT = /^[\x20-\x7e]{1,255}$/;

export interface Verified {
  readonly claims: Claims;
  readonly subject: string;
  /** By the wall clock, with the leeway. */
  readonly untilMs: number;
}

interface Remembered extends Verified {
  readonly fromMs: number;
}

export interface TokenOptions {
  readonly audience: string | readonly string[];
  readonly leewayMs: number;
  /** The claims that are remembered of a token, of which some are large; null: tokens that come once are not remembered. */
  readonly remembers: ((claims: Claims) => Claims) | null;
}

export class Tokens {
  readonly #issuer: Issuer;
  readonly #options: TokenOptions;
  readonly #env: Pick<Env, "clock">;
  #keys: { readonly jwks: string; readonly local: LocalKeys } | undefined;
  readonly #remembered = new Map<string, Remembered>();

  constructor(issuer: Issuer, options: TokenOptions, env: Pick<Env, "clock">) {
    this.#issuer = issuer;
    this.#options = options;
    this.#env = env;
  }

  /**
   * @throws UNAUTHENTICATED, without a word of the token; STORE_UNAVAILABLE if the keys of the issuer cannot be read
   */
  async verify(token: string): Promise<Verified> {
    if (token.length > LONGEST_TOKEN) throw unauthenticated("the token is too long");
    const loaded = await import("jose");
    const nowMs = this.#env.clock.monotonic();
    await this.#use(loaded, await this.#issuer.published());
    const digest = digestOf(token);
    const known = this.#remembered.get(digest);
    if (known) return this.#checked(known);
    let keys = this.#keys;
    let found = await this.#verifyBy(loaded, token);
    if (found === "unknown key") {
      await this.#use(loaded, await this.#issuer.publishedSince(nowMs));
      keys = this.#keys;
      found = await this.#verifyBy(loaded, token);
    }
    if (found === "unknown key") throw unauthenticated("no key of the issuer has signed the token");
    // If the keys have changed meanwhile, the one that has signed the token may be withdrawn.
    if (keys === this.#keys) this.#remember(digest, found);
    return this.#checked(found);
  }

  async #use({ createLocalJWKSet }: Jose, { jwks }: PublishedKeys): Promise<void> {
    if (this.#keys?.jwks === jwks) return;
    // A key that is withdrawn ends the tokens that it has signed.
    this.#remembered.clear();
    this.#keys = { jwks, local: createLocalJWKSet(JSON.parse(jwks)) };
  }

  #checked(known: Remembered): Verified {
    const nowMs = this.#env.clock.wall();
    if (nowMs >= known.untilMs) throw unauthenticated("the token has expired");
    if (nowMs < known.fromMs) throw unauthenticated("the token is not valid yet");
    return known;
  }

  async #verifyBy(loaded: Jose, token: string): Promise<Remembered | "unknown key"> {
    const { leewayMs, audience } = this.#options;
    const local = this.#keys?.local;
    if (!local) throw unauthenticated("no key of the issuer has signed the token");
    try {
      const { payload, protectedHeader } = await loaded.jwtVerify(token, local, {
        algorithms: ALGORITHMS,
        issuer: this.#issuer.url,
        audience: typeof audience === "string" ? audience : [...audience],
        clockTolerance: leewayMs / 1_000,
        currentDate: new Date(this.#env.clock.wall()),
        requiredClaims: ["exp", "sub"],
      });
      const { typ } = protectedHeader;
      if (typ !== undefined && !TYPES.has(typ.toLowerCase())) {
        throw unauthenticated("the token is of another type than an access token");
      }
      return this.#remembering(payload);
    } catch (error) {
      if (error instanceof ProblemError) throw error;
      if (error instanceof loaded.errors.JWKSNoMatchingKey) return "unknown key";
      throw refusalOf(error, loaded);
    }
  }

  #remembering(claims: Claims): Remembered {
    const { leewayMs } = this.#options;
    const { exp, nbf, iat, sub } = claims;
    // Its sender would have to prove that it has another key, which this server does not ask for.
    if (claims["cnf"] !== undefined) {
      throw unauthenticated("the token is bound to a key of its client: get one that is not");
    }
    if (typeof sub !== "string" || !SUBJECT.test(sub)) {
      throw unauthenticated("the sub of the token is not 1 to 255 characters of ASCII");
    }
    return {
      claims: this.#options.remembers?.(claims) ?? claims,
      subject: sub,
      fromMs: Math.max(secondsOf(nbf), secondsOf(iat)) * 1_000 - leewayMs,
      untilMs: secondsOf(exp) * 1_000 + leewayMs,
    };
  }

  #remember(digest: string, found: Remembered): void {
    if (this.#options.remembers === null) return;
    this.#remembered.set(digest, found);
    if (this.#remembered.size <= MOST_REMEMBERED) return;
    for (const oldest of this.#remembered.keys()) {
      this.#remembered.delete(oldest);
      return;
    }
  }
}

function secondsOf(claim: unknown): number {
  return typeof claim === "number" ? claim : 0;
}

/** What is wrong with a token, by jose's error: its messages may quote claims, which ours do not. */
function refusalOf(error: unknown, { errors }: Jose): ProblemError {
  if (error instanceof errors.JWTExpired) return unauthenticated("the token has expired");
  if (error instanceof errors.JWTClaimValidationFailed) {
    const problem = CLAIM_PROBLEMS[error.claim] ?? "lacks a claim, or has a wrong one";
    return unauthenticated(`the token ${problem}`);
  }
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported) {
    return unauthenticated("the token is signed by an algorithm that this server does not accept");
  }
  if (error instanceof errors.JWKSMultipleMatchingKeys) {
    return unauthenticated("the token does not say which key of the issuer has signed it (kid)");
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return unauthenticated("the signature of the token is wrong");
  }
  return unauthenticated("the token cannot be read as a JSON Web Token");
}

const CLAIM_PROBLEMS: Readonly<Record<string, string>> = {
  iss: "is of another issuer",
  aud: "is for another audience",
  nbf: "is not valid yet",
  exp: "does not say when it expires",
  sub: "does not say who has it (sub)",
};
