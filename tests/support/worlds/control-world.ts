/** A control store in memory on a manual clock, and keys to order from it. */
import { type ApiKeyOrder, createApiKey } from "../../../packages/leasehold/src/control/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";

export const BY = { actor: "cli:tester", reason: "a test" };
export const HOLDER: ApiKeyOrder = {
  namespace: "n",
  name: "CI",
  role: "holder",
  prefixes: ["a/"],
  lifetimeMs: 60_000,
};
export const ADMIN: ApiKeyOrder = { ...HOLDER, role: "admin", prefixes: [], lifetimeMs: null };

export async function openControl() {
  const env = manualEnv();
  const stores = (await memory().open(env)) as Required<Stores>;
  const { control } = stores;
  /** The last entry, with its details. */
  const lastEntry = async () => {
    const [entry] = (await control.audit.list({ namespace: null, limit: 1 })).items;
    return { ...entry, details: JSON.parse(entry?.details ?? "{}") as object };
  };
  const fill = async (count: number) => {
    for (let made = 0; made < count; made += 1) await createApiKey(control, env.random, ADMIN, BY);
  };
  return { env, ...stores, lastEntry, fill };
}
