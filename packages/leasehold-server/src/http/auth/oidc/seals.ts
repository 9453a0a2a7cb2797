/**
 * Cookies that only the servers of a console can read and write: encrypted JSON Web Tokens (A256GCM), each for one purpose
 * and until a moment. The keys are digests of the configured secrets: the first secret seals, all of them open.
 */
import type { Env } from "leasehold";
import { digestOf, randomHex } from "leasehold/internal";

export type Purpose = "session" | "sign-in";

export class Seals {
  readonly #secrets: readonly string[];
  readonly #env: Pick<Env, "clock">;

  /** @param secrets default: a random one */
  constructor(secrets: readonly string[] | undefined, env: Pick<Env, "clock" | "random">) {
    this.#secrets = secrets ?? [randomHex(env.random, 32)];
    this.#env = env;
  }

  /** @param untilMs by the wall clock */
  async seal(purpose: Purpose, content: object, untilMs: number): Promise<string> {
    const { EncryptJWT } = await import("jose");
    const [key] = this.#keysFor(purpose);
    return new EncryptJWT({ content })
      .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
      .setExpirationTime(Math.floor(untilMs / 1_000))
      .encrypt(key as Uint8Array);
  }

  /** Returns null for what was not sealed for this purpose, or not until now. */
  async open(purpose: Purpose, text: string): Promise<Opened | null> {
    const { jwtDecrypt } = await import("jose");
    const currentDate = new Date(this.#env.clock.wall());
    for (const key of this.#keysFor(purpose)) {
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

  #keysFor(purpose: Purpose): Uint8Array[] {
    return this.#secrets.map((secret) => keyOf(secret, purpose));
  }
}

export interface Opened {
  readonly content: Readonly<Record<string, unknown>>;
  /** By the wall clock. */
  readonly untilMs: number;
}

/** A secret has as many random bits as a key, so it needs no slow derivation. */
function keyOf(secret: string, purpose: Purpose): Uint8Array {
  const hex = digestOf(JSON.stringify(["leasehold console", purpose, secret.trim()]));
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}
