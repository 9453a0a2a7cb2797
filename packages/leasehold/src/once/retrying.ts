/** Records of `once` in a store that fails for a while only, tried again: as core/retrying.ts. */
import { type LeaseStore, Retrying, UNLESS_APPLIED } from "../core/index.js";
import type { Env } from "../env/index.js";
import type { OnceStore } from "./port.js";

/**
 * A retry or a delete is not repeated when its answer is lost: the key may have been worked on in between.
 * @param open gives the store at each call, so that it can be loaded at the first
 */
export function retryingOnce(
  leases: LeaseStore,
  open: () => Promise<OnceStore>,
  env: Env,
): OnceStore {
  const retrying = new Retrying(env);
  return {
    leases,
    get: (key) => retrying.read(async () => (await open()).get(key)),
    list: (query) => retrying.read(async () => (await open()).list(query)),
    succeed: (request, options) =>
      retrying.one(
        async (timeoutMs) => (await open()).succeed(request, { ...options, timeoutMs }),
        options,
      ),
    fail: (request, options) =>
      retrying.one(
        async (timeoutMs) => (await open()).fail(request, { ...options, timeoutMs }),
        options,
      ),
    retry: (key) => retrying.call(async () => (await open()).retry(key), UNLESS_APPLIED),
    delete: (key) => retrying.call(async () => (await open()).delete(key), UNLESS_APPLIED),
    collect: async () => (await open()).collect(),
  };
}
