/** The server that is asked: three tenants with keys, and its stores, which can be exchanged. */

import type { Env, Stores } from "leasehold";
import { createApiKey, parseApiKeyText, type Role, systemEnv } from "leasehold/internal";
import { openStores } from "leasehold/internal/open";
import { memory } from "leasehold/stores/memory";
import {
  type AppOptions,
  createApp,
  type Listening,
  listen,
  type ServerApp,
} from "leasehold-server";

export interface Keys {
  /** Of the tenant that the requests are about: may do everything. */
  readonly admin: string;
  /** Of the same tenant: may do less, or nothing any more. */
  readonly others: readonly string[];
  /** The admin of a tenant whose limits may become anything. */
  readonly narrow: string;
  /** Of a tenant that is left alone. */
  readonly good: string;
  /** Ids of keys that may be rotated and revoked. */
  readonly ids: readonly string[];
}

export interface Target {
  readonly app: ServerApp;
  readonly server: Listening;
  readonly keys: Keys;
  /**
   * What memory keeps is dropped, but for the keys, and the app stays: what it then holds is its own.
   * Nothing must be under way.
   */
  empty(): Promise<void>;
  close(): Promise<void>;
}

/** The rates and the lateness of a busy machine are for other tests. */
const LIMITS = { ratePerSecond: null, lateMs: null, inFlight: 100_000 };

export async function openTarget(
  store: string,
  env: Partial<Env>,
  more: Partial<AppOptions> = {},
): Promise<Target> {
  const all: Env = { ...systemEnv, ...env };
  let stores = await openStores(store, undefined, all);
  const keys = await makeKeys(stores, all);
  const now = (name: "leases" | "tasks" | "schedules" | "backing" | "history" | "control") =>
    current(() => stores[name]);
  const app = createApp({
    ...({
      leases: now("leases"),
      tasks: now("tasks"),
      schedules: now("schedules"),
      backing: now("backing"),
      history: now("history"),
      control: now("control"),
    } as Stores),
    env,
    auth: "keys",
    limits: LIMITS,
    version: "1.2.3",
    metrics: async () => "",
    ...more,
  });
  const server = await listen({ app, port: 0 });
  return {
    app,
    server,
    keys,
    async empty() {
      if (!store.startsWith("memory:")) return;
      const before = stores;
      stores = await memory().open(all);
      await copyKeys(keys, before, stores);
      await before.close();
    },
    async close() {
      await server.close();
      await stores.close();
    },
  };
}

/** Those that are spare as good as new, the others as they are. */
async function copyKeys(keys: Keys, from: Stores, to: Stores): Promise<void> {
  const own = [keys.admin, ...keys.others, keys.narrow, keys.good];
  const ids = own.flatMap((text) => parseApiKeyText(text)?.id ?? []);
  for (const id of new Set([...ids, ...keys.ids])) {
    const key = await from.control?.keys.find(id);
    if (!key) continue;
    const lifetimeMs = keys.ids.includes(id) ? null : key.remainingMs;
    await to.control?.actors.keys.add({ ...key, lifetimeMs });
  }
}

/**
 * Whatever is there at the time, so that the app holds nothing of what is exchanged: of what operators
 * keep neither the keys nor the limits, and through them the whole audit, of which there is no end.
 */
function current(find: () => object | undefined): object {
  const found = () => find() as Record<PropertyKey, unknown>;
  return new Proxy(
    {},
    {
      get(_, member) {
        const kept = found();
        const value = kept[member];
        if (typeof value === "function") return value.bind(kept);
        const isStore = typeof value === "object" && value !== null && member !== "capabilities";
        return isStore ? current(() => found()[member] as object) : value;
      },
    },
  );
}

async function makeKeys({ control }: Stores, env: Env): Promise<Keys> {
  if (!control) throw new Error("this store keeps no keys");
  const by = { actor: "fuzz", reason: null };
  const key = (namespace: string, role: Role, lifetimeMs: number | null = null) =>
    createApiKey(
      control,
      env.random,
      { namespace, name: role, role, prefixes: role === "holder" ? ["r/1"] : [], lifetimeMs },
      by,
    );
  const text = async (namespace: string, role: Role, lifetimeMs?: number) =>
    (await key(namespace, role, lifetimeMs)).text;
  const spare = await Promise.all(Array.from({ length: 50 }, () => key("fuzz", "viewer")));
  return {
    admin: await text("fuzz", "admin"),
    others: [
      await text("fuzz", "viewer"),
      await text("fuzz", "holder"),
      await text("fuzz", "operator"),
      await text("fuzz", "admin", 1),
      ...spare.slice(0, 3).map((each) => each.text),
    ],
    narrow: await text("narrow", "admin"),
    good: await text("good", "admin"),
    ids: spare.map((each) => each.key.id),
  };
}
