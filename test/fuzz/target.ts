/** The server that is asked: three tenants with keys, and its stores, which can be exchanged. */
import { createKey, type Role } from "../../src/control/index.js";
import { type Env, systemEnv } from "../../src/env/index.js";
import {
  type AppOptions,
  createApp,
  type Listening,
  listen,
  type ServerApp,
} from "../../src/server/index.js";
import { memory } from "../../src/stores/memory/index.js";
import { openStores } from "../../src/stores/open.js";
import type { Stores } from "../../src/stores/source.js";

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
  /** All that is kept is dropped, and the app stays: what it then holds is its own. */
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
  const now = (name: "leases" | "tasks" | "generator" | "history" | "control") =>
    new Proxy(
      {},
      {
        get(_, member) {
          const kept = stores[name] as unknown as Record<PropertyKey, unknown>;
          const value = kept[member];
          return typeof value === "function" ? value.bind(kept) : value;
        },
      },
    );
  const app = createApp({
    ...({
      ...{ leases: now("leases"), tasks: now("tasks"), generator: now("generator") },
      ...{ history: now("history"), control: now("control") },
    } as Stores),
    ...{ env, auth: "keys", limits: LIMITS, version: "1.2.3" },
    ...{ metrics: async () => "", ...more },
  });
  const server = await listen({ app, port: 0 });
  return {
    ...{ app, server, keys },
    async empty() {
      await stores.close();
      stores = await memory().open(all);
    },
    async close() {
      await server.close();
      await stores.close();
    },
  };
}

async function makeKeys({ control }: Stores, env: Env): Promise<Keys> {
  if (!control) throw new Error("this store keeps no keys");
  const by = { actor: "fuzz", reason: null };
  const key = (namespace: string, role: Role, lifetimeMs: number | null = null) =>
    createKey(
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
