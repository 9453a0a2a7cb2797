import type { ConnectOptions, Env, LeaseStores, Page, Stores } from "leasehold";
import { type AnyLease, connect, type Leasehold, StoreUnavailableError } from "leasehold";
import type { Control, RemoteOperator } from "leasehold/internal";
import {
  invariant,
  silentLogger,
  sleep,
  systemClock,
  systemEnv,
  withoutUndefined,
} from "leasehold/internal";
import { ENGINES, openBy, openStores } from "leasehold/internal/open";
import type { Telemetry } from "leasehold/telemetry";
import { UsageError } from "./failures.js";
import type { Notify } from "./notices.js";
import type { Where } from "./options.js";

type Stored = Pick<Where, "store" | "control">;

/** PGlite needs a few seconds to create a database, and many more on a busy machine. */
export const CONNECT_TIMEOUT_MS = 30_000;
const CONNECT_AGAIN_MS = 500;

type OrUndefined<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** Opens the store and, if it is a different one, the control store. close() closes both. */
export function openWhere({ store, control }: Stored, env: Env): Promise<Stores> {
  const apart = control === store ? undefined : control;
  return openStores(store, apart, env, CONNECT_TIMEOUT_MS);
}

/** Connects to the store and the tenant of a command. Commands say by themselves where there is no token. */
export function connectTo(
  { store, namespace }: Where,
  options: OrUndefined<
    Pick<ConnectOptions, "holder" | "graceMs" | "logger" | "env" | "connectTimeoutMs">
  > = {},
): Promise<Leasehold<AnyLease>> {
  const given = withoutUndefined({ connectTimeoutMs: CONNECT_TIMEOUT_MS, ...options, namespace });
  return connect(store, { ...(given as ConnectOptions), unfenced: true });
}

/**
 * As {@link connectTo}, again and again until the wait has passed.
 * @throws STORE_UNAVAILABLE if the store does not answer within the wait, after at least one attempt
 */
export async function connectWithin(
  where: Where,
  holder: string | undefined,
  notify: Notify,
  {
    waitMs = CONNECT_TIMEOUT_MS,
    telemetry,
  }: { waitMs?: number | undefined; telemetry?: Telemetry | undefined } = {},
): Promise<Leasehold<AnyLease>> {
  const clock = systemClock;
  const untilMs = clock.monotonic() + waitMs;
  for (let tries = 1; ; tries += 1) {
    try {
      const leftMs = untilMs - clock.monotonic();
      // Without a timeout of ours, the engine's own: how long one attempt may take.
      const connectTimeoutMs = leftMs > CONNECT_TIMEOUT_MS / 2 ? leftMs : undefined;
      const env = telemetry && { telemetry };
      // Notices say what is lost.
      return await connectTo(where, { connectTimeoutMs, holder, env, logger: silentLogger });
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      if (clock.monotonic() + CONNECT_AGAIN_MS >= untilMs) throw error;
      if (tries === 1) notify({ event: "retrying", message: error.message });
      await sleep(clock, CONNECT_AGAIN_MS);
    }
  }
}

/** Opens a store of any engine, for commands that need no tasks. */
export async function openLeases(url: string): Promise<LeaseStores> {
  return openBy(ENGINES, url, systemEnv, CONNECT_TIMEOUT_MS);
}

/** Opens leases of any engine, and the control store, which may be a different one. */
export async function openLeasesAndControl(where: Stored): Promise<LeaseStores> {
  return where.control === undefined ? openLeases(where.store) : openWhere(where, systemEnv);
}

/** Calls `work` with the keys, limits and audit log of a database, and closes it. */
export async function withControl<T>(
  { store: url }: Where,
  work: (control: Control) => Promise<T>,
): Promise<T> {
  // A server does not give direct access to them.
  const stores = /^https?:/i.test(url) ? undefined : await openLeases(url);
  try {
    if (stores?.control) return await work(stores.control);
  } finally {
    await stores?.close();
  }
  throw new UsageError(
    "only PostgreSQL and PGlite keep keys, limits and an audit log: name the database with --control",
  );
}

/** As {@link withControl}, but with a server instead of the database, if the store is one. */
export async function withControlOrServer<T>(
  where: Where,
  work: (stores: Control | RemoteOperator, served: Pick<LeaseStores, "namespace">) => Promise<T>,
): Promise<T> {
  if (!/^https?:/i.test(where.store)) return withControl(where, (control) => work(control, {}));
  const stores = await openLeases(where.store);
  try {
    invariant(stores.operator, "a server's store has an operator's tools");
    return await work(stores.operator, stores);
  } finally {
    await stores.close();
  }
}

/** Reads pages until there are `limit` items, or no more. */
export async function allOf<Item>(
  read: (part: { limit: number; cursor?: string }) => Promise<Page<Item>>,
  limit: number,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let cursor: string | null | undefined; cursor !== null && items.length < limit; ) {
    const part = { limit: limit - items.length, ...(cursor !== undefined && { cursor }) };
    const page = await read(part);
    items.push(...page.items);
    cursor = page.nextCursor;
  }
  return items.slice(0, limit);
}

/** The URL for display, with the password or the API key masked. */
export function shownUrl(text: string): string {
  // A URL with several hosts cannot be parsed.
  if (!URL.canParse(text)) return text.replace(/^(\w+:\/\/[^:@/?#]*):[^@/?#]*@/, "$1:***@");
  const url = new URL(text);
  const isServer = /^https?:$/.test(url.protocol);
  if (isServer && url.username) url.username = "***";
  if (url.password) url.password = "***";
  return url.username || url.password ? url.href : text;
}
