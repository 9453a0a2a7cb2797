/** An issuer without a network: a fetch that publishes keys, and tokens that it has signed, rightly or wrongly. */
import {
  type CryptoKey,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type JWK,
  type JWTHeaderParameters,
  SignJWT,
} from "jose";

export const ISSUER = "https://id.example";
export const AUDIENCE = "leases";

interface SigningKey {
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
  readonly jwk: JWK;
}

export async function signingKey(kid: string, alg = "ES256"): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } };
}

export interface FakeIssuer {
  readonly fetch: typeof globalThis.fetch;
  /** The URLs that were fetched. */
  readonly asked: string[];
  readonly key: SigningKey;
  /** What is published; may be changed. */
  jwks: { keys: readonly JWK[] };
  metadata: Record<string, unknown>;
  isDown: boolean;
  /** Answers of the token endpoint. */
  tokens: ((form: URLSearchParams, headers: Headers) => object | Promise<object>) | null;
  /** With the usual claims, unless `claims` has others; undefined leaves one out. */
  sign(
    claims?: Record<string, unknown>,
    by?: { header?: Partial<JWTHeaderParameters>; key?: CryptoKey | Uint8Array },
  ): Promise<string>;
  /** The public key as PEM, for those who take it for a shared secret. */
  pem(): Promise<string>;
}

/** @param nowMs the wall clock of its tokens */
export async function fakeIssuer(nowMs: () => number): Promise<FakeIssuer> {
  const key = await signingKey("first");
  const issuer: FakeIssuer = {
    asked: [],
    key,
    jwks: { keys: [key.jwk] },
    metadata: {
      issuer: ISSUER,
      jwks_uri: `${ISSUER}/keys`,
      authorization_endpoint: `${ISSUER}/authorize`,
      token_endpoint: `${ISSUER}/token`,
      id_token_signing_alg_values_supported: ["ES256"],
    },
    isDown: false,
    tokens: null,
    async fetch(input, init) {
      const url = String(input);
      issuer.asked.push(url);
      if (issuer.isDown) throw new TypeError("fetch failed");
      if (url === `${ISSUER}/.well-known/openid-configuration`) return json(issuer.metadata);
      if (url === `${ISSUER}/keys`) return json(issuer.jwks);
      if (url === `${ISSUER}/token` && issuer.tokens) {
        const form = new URLSearchParams(String(init?.body));
        const answer = await issuer.tokens(form, new Headers(init?.headers));
        if (answer instanceof Response) return answer;
        if ("error" in answer) return json(answer, 400);
        return json({ access_token: "for the issuer alone", token_type: "Bearer", ...answer });
      }
      return json({ error: "not_found" }, 404);
    },
    async sign(claims = {}, { header = {}, key: by = key.privateKey } = {}) {
      const seconds = Math.floor(nowMs() / 1_000);
      const all: Record<string, unknown> = {
        iss: ISSUER,
        aud: AUDIENCE,
        sub: "ada",
        iat: seconds,
        exp: seconds + 300,
        ...claims,
      };
      const kept = Object.fromEntries(
        Object.entries(all).filter(([, value]) => value !== undefined),
      );
      return new SignJWT(kept)
        .setProtectedHeader({ alg: "ES256", kid: "first", typ: "at+jwt", ...header })
        .sign(by);
    },
    pem: () => exportSPKI(key.publicKey),
  };
  return issuer;
}

function json(body: object, status = 200): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json" },
  });
}
