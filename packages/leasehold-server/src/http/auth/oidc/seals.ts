/**
 * Cookies that only the servers of a console can read and write: encrypted JSON Web Tokens (A256GCM), each for one purpose
 * and until a moment. The keys are derived from the configured secrets by HKDF: the first secret seals, all of them open.
 */
import type { Env } from "leasehold";
import { randomHex } from "leasehold/internal";

export type Purpose = "session" | "sign-in";

const encoder = new TextEncoder();

export class Seals {
  readonly #secrets: readonly string[];
  readonly #env: Pick<Env, "clock">;
  readonly #keys = new Map<Purpose, Promise<Uint8Array[]>>();

  /** @param secrets default: a random one */
  constructor(secrets: readonly string[] | undefined, env: Pick<Env, "clock" | "random">) {
    this.#secrets = secrets ?? [randomHex(env.random, 32)];
    this.#env = env;
  }

  /** @param untilMs by the wall clock */
  async seal(purpose: Purpose, content: object, untilMs: number): Promise<string> {
    const [{ EncryptJWT }, [key]] = await Promise.all([import("jose"), this.#keysFor(purpose)]);
    return new EncryptJWT({ content })
      .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
      .setExpirationTime(Math.floor(untilMs / 1_000))
      .encrypt(key as Uint8Array);
  }

  /** Returns null for what was not sealed for this purpose, or not until now. */
  async open(purpose: Purpose, text: string): Promise<Opened | null> {
    const [{ jwtDecrypt }, keys] = await Promise.all([import("jose"), this.#keysFor(purpose)]);
    const currentDate = new Date(this.#env.clock.wall());
    for (const key of keys) {
      try {
        const { payload } = await jwtDecrypt(text, key, {
          currentDate,
          requiredClaims: ["exp"],
          keyManagementAlgorithms: ["dir"],
          contentEncryptionAlgorithms: ["A256GCM"],
        });
        const { content, exp = 0 } = payload;
        return { content: content as Readonly<Record<string, unknown>>, untilMs: exp * 1_000 };
      } catch {
        // Sealed by another secret, or over.
      }
    }
    return null;
  }

  #keysFor(purpose: Purpose): Promise<Uint8Array[]> {
    const known = this.#keys.get(purpose);
    if (known) return known;
    const keys = Promise.all(this.#secrets.map((secret) => derived(secret, purpose)));
    this.#keys.set(purpose, keys);
    return keys;
  }
}

export interface Opened {
  readonly content: Readonly<Record<string, unknown>>;
  /** By the wall clock. */
  readonly untilMs: number;
}

async function derived(secret: string, purpose: Purpose): Promise<Uint8Array> {
  const { subtle } = globalThis.crypto;
  const material = await subtle.importKey("raw", encoder.encode(secret.trim()), "HKDF", false, [
    "deriveBits",
  ]);
  const info = encoder.encode(`leasehold console ${purpose}`);
  const by = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info };
  return new Uint8Array(await subtle.deriveBits(by, material, 256));
}
