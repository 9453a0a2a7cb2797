/** Stores behind retries: how often a call is sent, and what of it arrives. */
import type { Env } from "../../../packages/leasehold/src/env/index.js";
import { type Failed, StoreUnavailableError } from "../../../packages/leasehold/src/lease/index.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";

/** Makes a store that tries again, over one that is opened at each call. */
type Retried<Store> = (open: () => Promise<Store>, env: Env) => Store;

/** A store whose every method does the same. */
function storeOf<Store>(method: (name: string, args: unknown[]) => unknown): Store {
  const get = (_: object, name: string | symbol) =>
    // With a method `then` it would be taken for a promise.
    name === "then" ? undefined : async (...args: unknown[]) => method(String(name), args);
  return new Proxy({}, { get }) as Store;
}

/**
 * How often a call is sent whose answers are lost.
 * @param outcomes the methods whose failures are outcomes: the others throw
 */
export async function triesOf<Store>(
  retried: Retried<Store>,
  outcomes: readonly string[],
  call: (store: Store) => Promise<unknown>,
): Promise<number> {
  const error = new StoreUnavailableError("it is down", { outcome: "unknown" });
  const lost: Failed = { status: "failed", applied: "maybe", retryable: true, error };
  const env = manualEnv();
  let tries = 0;
  const store = storeOf<Store>((name) => {
    tries += 1;
    if (outcomes.includes(name)) return lost;
    throw error;
  });
  let done = false;
  const calling = call(retried(async () => store, env))
    .catch(() => {})
    .finally(() => (done = true));
  for (let ms = 0; !done && ms < 20_000; ms += 10) await env.clock.advance(10);
  await calling;
  return tries;
}

/** A store that answers each call with `{ status }`, the name of its method, and keeps what it was asked. */
export function recordedCalls<Store>(retried: Retried<Store>) {
  const asked: unknown[][] = [];
  const inner = storeOf<Store>((status, args) => {
    asked.push([status, ...args]);
    return { status };
  });
  let opened = 0;
  const open = async () => {
    opened += 1;
    return inner;
  };
  return { store: retried(open, manualEnv()), asked, opened: () => opened };
}
