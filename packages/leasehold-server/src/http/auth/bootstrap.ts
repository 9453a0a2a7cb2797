/**
 * The bootstrap token: lets an operator create the first key through a server that requires keys.
 *
 *   ready ── POST /v1/keys with it ──▶ in use ─┬─ key created, or one existed before ──▶ gone
 *     ▲                                        └─ failed ──┐
 *     └────────────────────────────────────────────────────┘
 *
 * It is only in the memory of the process that shows it, so it ends with a restart. The key that it creates ends
 * the tokens of other instances too, because each looks for a key in the store first.
 */
import { type ApiKeyStore, digestOf, equalDigests } from "leasehold/internal";
import { ProblemError, unauthenticated } from "../problems.js";
import type { Caller } from "./caller.js";

const ROUTE = "POST /v1/keys";
const GONE =
  "the bootstrap token was used, or a key was created otherwise: use that key, or create one on the store with leasehold keys create";

export class BootstrapToken {
  readonly #digest: string;
  readonly #keys: ApiKeyStore;
  #state: "ready" | "inUse" | "gone" = "ready";

  constructor(text: string, keys: ApiKeyStore) {
    this.#digest = digestOf(text);
    this.#keys = keys;
  }

  matches(text: string): boolean {
    return equalDigests(digestOf(text), this.#digest);
  }

  /**
   * Creates the first key. Concurrent attempts with the token are refused.
   * @throws UNAUTHENTICATED if the token is gone or in use; the error of `create`, after which it can be used again
   */
  async use<T>(create: () => Promise<T>): Promise<T> {
    if (this.#state !== "ready") throw unauthenticated(GONE);
    this.#state = "inUse";
    try {
      if (await this.#keys.existed()) {
        this.#state = "gone";
        throw unauthenticated(GONE);
      }
      const made = await create();
      this.#state = "gone";
      return made;
    } finally {
      if (this.#state === "inUse") this.#state = "ready";
    }
  }
}

/** @throws FORBIDDEN for a caller with the bootstrap token on any route but the one that creates keys */
export function checkBootstrap({ bootstrap }: Caller, route: string | null): void {
  if (!bootstrap || route === ROUTE) return;
  throw new ProblemError(
    "FORBIDDEN",
    "the bootstrap token only creates the first key: POST /v1/keys with the role admin",
  );
}
