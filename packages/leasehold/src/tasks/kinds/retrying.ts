/** Published kinds in a store that fails for a while only, tried again: as core/retrying.ts. */
import { Retrying, UNLESS_APPLIED } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import type { KindStore } from "./port.js";

/**
 * A withdrawal is not repeated when its answer is lost: a program may have published the version again.
 * @param open gives the store at each call, so that it can be loaded at the first
 */
export function retryingKinds(open: () => Promise<KindStore>, env: Env): KindStore {
  const retrying = new Retrying(env);
  return {
    publish: (request, options) =>
      retrying.one(
        async (timeoutMs) => (await open()).publish(request, { ...options, timeoutMs }),
        options,
      ),
    schemas: (keys, options) => retrying.read(async () => (await open()).schemas(keys, options)),
    list: (query) => retrying.read(async () => (await open()).list(query)),
    withdraw: (key) => retrying.call(async () => (await open()).withdraw(key), UNLESS_APPLIED),
  };
}
