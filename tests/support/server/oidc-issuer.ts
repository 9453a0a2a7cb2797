/** A real OpenID Connect issuer on loopback: oidc-provider, where it is installed. */
import { existsSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import { describe } from "vitest";

const INSTALLED = fileURLToPath(new URL("../../oidc/node_modules", import.meta.url));
const PROVIDER = join(INSTALLED, "oidc-provider", "lib", "index.js");
const isInstalled = existsSync(PROVIDER);

/** `describe` for tests that need the issuer. They are skipped without it, but CI must have it. */
export function describeIssuer(name: string, tests: () => void): void {
  if (isInstalled) {
    describe(name, tests);
    return;
  }
  const reason = "no oidc-provider: npm ci --ignore-scripts --prefix tests/oidc";
  if (process.env.CI === "true") throw new Error(reason);
  console.info(`${name}: skipped, ${reason}`);
  describe.skip(`${name} (skipped: ${reason})`, tests);
}

export const AUDIENCE = "urn:leasehold:api";
export const CONSOLE_CLIENT = "console";
const SECRET = "a secret of the worker, which only tests use";

export interface Issuer {
  readonly url: string;
  /** Requests that the issuer has had, by path. */
  readonly requests: ReadonlyMap<string, number>;
  /** An access token of a program, by its own credentials. */
  token(options?: { readonly audience?: string }): Promise<string>;
  /** Signs with another key from now on, and publishes that alone. */
  rotate(): Promise<void>;
  /** Answers nothing until `up`. */
  down(): void;
  up(): void;
  close(): Promise<void>;
}

export interface IssuerOptions {
  /** How long access tokens last. Default 60. */
  readonly tokenSeconds?: number;
  /** How long ID tokens, and so sessions of the console, last. Default 60. */
  readonly idTokenSeconds?: number;
  /** By the name with which a person signs in. */
  readonly groups?: Readonly<Record<string, readonly string[]>>;
  /** Of the tokens of programs. */
  readonly claims?: Readonly<Record<string, unknown>>;
}

type Provider = new (
  issuer: string,
  configuration: object,
) => {
  callback(): RequestListener;
  on(event: string, listener: (...args: unknown[]) => void): void;
};

export async function openIssuer(options: IssuerOptions = {}): Promise<Issuer> {
  const { tokenSeconds = 60, idTokenSeconds = 60, groups = {}, claims = {} } = options;
  const { Provider } = (await import(pathToFileURL(PROVIDER).href)) as { Provider: Provider };
  const requests = new Map<string, number>();
  let isDown = false;
  let listener: RequestListener = () => {};
  const server = createServer((incoming, outgoing) => {
    const path = (incoming.url ?? "").split("?", 1)[0] ?? "";
    requests.set(path, (requests.get(path) ?? 0) + 1);
    if (isDown) incoming.socket.destroy();
    else listener(incoming, outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const start = async () => {
    const configuration = configurationOf(await newKey(), {
      tokenSeconds,
      idTokenSeconds,
      groups,
      claims,
    });
    // It warns of keys and pages that are for development, which is what this is.
    const warn = console.warn;
    const info = console.info;
    console.warn = () => {};
    console.info = () => {};
    try {
      const provider = new Provider(url, configuration);
      listener = provider.callback();
    } finally {
      console.warn = warn;
      console.info = info;
    }
  };
  await start();
  return {
    url,
    requests,
    async token({ audience = AUDIENCE } = {}) {
      const response = await fetch(`${url}/token`, {
        method: "POST",
        headers: { authorization: `Basic ${btoa(`worker:${encodeURIComponent(SECRET)}`)}` },
        body: new URLSearchParams({ grant_type: "client_credentials", resource: audience }),
      });
      const body = (await response.json()) as { access_token?: string };
      if (body.access_token === undefined) throw new Error(JSON.stringify(body));
      return body.access_token;
    },
    rotate: start,
    down() {
      isDown = true;
    },
    up() {
      isDown = false;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

let keys = 0;

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: `key-${(keys += 1)}`, alg: "ES256", use: "sig" };
}

function configurationOf(
  key: JWK,
  { tokenSeconds, idTokenSeconds, groups, claims }: Required<IssuerOptions>,
): object {
  return {
    jwks: { keys: [key] },
    clients: [
      {
        client_id: CONSOLE_CLIENT,
        token_endpoint_auth_method: "none",
        // A native client may use any port of this machine.
        application_type: "native",
        redirect_uris: ["http://127.0.0.1/session/callback", "http://localhost/session/callback"],
        id_token_signed_response_alg: "ES256",
      },
      {
        client_id: "worker",
        client_secret: SECRET,
        grant_types: ["client_credentials"],
        response_types: [],
        redirect_uris: [],
        id_token_signed_response_alg: "ES256",
      },
    ],
    enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
    cookies: { keys: ["tests only"] },
    claims: { openid: ["sub"], groups: ["groups"] },
    scopes: ["openid", "groups"],
    conformIdTokenClaims: false,
    findAccount: (_: unknown, id: string) => ({
      accountId: id,
      claims: async () => ({ sub: id, groups: groups[id] ?? [] }),
    }),
    extraTokenClaims: () => claims,
    ttl: {
      ClientCredentials: tokenSeconds,
      AccessToken: tokenSeconds,
      IdToken: idTokenSeconds,
      Interaction: 600,
      Session: 600,
      Grant: 600,
    },
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_: unknown, audience: string) => ({
          scope: "leases",
          audience,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
  };
}
