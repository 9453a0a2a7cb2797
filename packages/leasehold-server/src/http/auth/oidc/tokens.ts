/**
 * Checks the tokens of an issuer: JSON Web Tokens, signed with one of its published keys.
 *
 *   form, algorithm ─▶ key by its id ─▶ signature ─▶ issuer, audience, times ─▶ type, subject ─▶ claims
 *                          └─ unknown: the keys are read again, see issuer.ts
 *
 * The package jose does all but the last step. It is loaded with the first token. It takes about 0.1 ms for a token, so no
 * verified token is remembered, and a withdrawn key counts no longer than its set.
 */
import type * as jose from "jose";
import type { Env } from "leasehold";
import { ProblemError, unauthenticated } from "../../problems.js";
import type { Issuer, Published } from "./issuer.js";
import type { Claims } from "./roles.js";

/** Without those of shared secrets: a public key of the issuer must never serve as one. */
const ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");
/** A token of another type, such as one for a logout, is signed by the same keys and grants nothing. */
const TYPES = new Set(["jwt", "at+jwt", "application/at+jwt"]);
const LONGEST_TOKEN = 16_384;
/** By OpenID Connect, at most 255 characters of ASCII. It is shown in logs and the audit. */
const SUBJECT = /^[\x20-\x7e]{1,255}$/;

export interface Verified {
  readonly claims: Claims;
  readonly subject: string;
  /** By the wall clock, with the leeway. */
  readonly untilMs: number;
}

export interface TokenOptions {
  readonly audience: string | readonly string[];
  readonly leewayMs: number;
}

export class Tokens {
  readonly #issuer: Issuer;
  readonly #options: TokenOptions;
  readonly #env: Pick<Env, "clock">;

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
    const { errors, jwtVerify } = await import("jose");
    const { clock } = this.#env;
    const nowMs = clock.monotonic();
    const verifyBy = ({ keys }: Pick<Published, "keys">) =>
      jwtVerify(token, keys, {
        algorithms: ALGORITHMS,
        issuer: this.#issuer.url,
        audience: [this.#options.audience].flat(),
        clockTolerance: this.#options.leewayMs / 1_000,
        currentDate: new Date(clock.wall()),
        requiredClaims: ["exp", "sub"],
      });
    try {
      const found = await verifyBy(await this.#issuer.published()).catch(async (error: unknown) => {
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
        return verifyBy(await this.#issuer.publishedSince(nowMs));
      });
      return this.#verified(found);
    } catch (error) {
      throw error instanceof ProblemError ? error : refusalOf(error, errors);
    }
  }

  /** Checks what jose does not. */
  #verified({ payload: claims, protectedHeader: { typ } }: jose.JWTVerifyResult): Verified {
    const { leewayMs } = this.#options;
    const { exp = 0, iat = 0, sub } = claims;
    // jose knows one type at a time.
    if (typ !== undefined && !TYPES.has(typ.toLowerCase())) {
      throw unauthenticated("the token is of another type than an access token");
    }
    // Its sender would have to prove that it has another key, which this server does not ask for.
    if (claims["cnf"] !== undefined) {
      throw unauthenticated("the token is bound to a key of its client: get one that is not");
    }
    if (typeof sub !== "string" || !SUBJECT.test(sub)) {
      throw unauthenticated("the sub of the token is not 1 to 255 characters of ASCII");
    }
    // jose compares it with the clock only where each token must have it.
    if (iat * 1_000 > this.#env.clock.wall() + leewayMs) {
      throw unauthenticated("the token is not valid yet");
    }
    return { claims, subject: sub, untilMs: exp * 1_000 + leewayMs };
  }
}

/** What is wrong with a token, by jose's error: its messages may quote claims, which ours do not. */
function refusalOf(error: unknown, errors: typeof jose.errors): ProblemError {
  if (error instanceof errors.JWTExpired) return unauthenticated("the token has expired");
  if (error instanceof errors.JWTClaimValidationFailed) {
    const problem = CLAIM_PROBLEMS[error.claim] ?? "lacks a claim, or has a wrong one";
    return unauthenticated(`the token ${problem}`);
  }
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported) {
    return unauthenticated("the token is signed by an algorithm that this server does not accept");
  }
  if (error instanceof errors.JWKSNoMatchingKey) {
    return unauthenticated("no key of the issuer has signed the token");
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
