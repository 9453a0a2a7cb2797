import type { ConnectOptions, Env, LeaseStores, Page, Stores } from "leasehold";
import { type AnyLease, connect, type Leasehold } from "leasehold";
import type { Control, RemoteOperator } from "leasehold/internal";
import { invariant, retryingControl, systemEnv, withoutUndefined } from "leasehold/internal";
import { ENGINES, openBy, openStores, planBy } from "leasehold/internal/open";
import { type Connecting, connecting, type Open } from "./connecting.js";
import { UsageError } from "./failures.js";
import { warningsTo } from "./notices.js";
import type { Where } from "./options.js";
import { shownUrl } from "./shown-url.js";

type Stored = Pick<Where, "store" | "control" | "isReading" | "notify">;

type OrUndefined<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/**
 * For a command that creates no database: to open one would create its tables, and the command would report of a
 * mistyped database or schema that all is well.
 * @throws UsageError
 */
async function checkTables(urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    if (!/^postgres(ql)?:/i.test(url)) continue;
    const [first] = (await planBy(ENGINES, url, systemEnv)) ?? [];
    if (first?.appliedAt !== null) continue;
    const shown = shownUrl(url);
    throw new UsageError(
      `${shown} has no Leasehold tables: check the database and the parameter schema, or create them with "leasehold migrate --store ${shown}"`,
    );
  }
}

/** Opens the store and, if it is a different one, the control store. close() closes both. */
export function openWhere(where: Stored, env: Env, options?: Connecting): Promise<Stores> {
  const { store, control } = where;
  const apart = control === store ? undefined : control;
  const urls = apart === undefined ? [store] : [store, apart];
  return opened(where, urls, options, (leftMs, noting) =>
    openStores(store, apart, { ...env, logger: noting(env.logger) }, leftMs),
  );
}

/** Connects to the store and the tenant of a command. Commands say by themselves where there is no token. */
export function connectTo(
  where: Where,
  client: OrUndefined<Pick<ConnectOptions, "holder" | "graceMs" | "logger" | "env">> = {},
  options?: Connecting,
): Promise<Leasehold<AnyLease>> {
  const { store, namespace, notify } = where;
  const given = withoutUndefined({ ...client, namespace }) as ConnectOptions;
  const { logger = warningsTo(notify) } = client;
  return opened(where, [store], options, (connectTimeoutMs, noting) =>
    connect(store, { ...given, logger: noting(logger), connectTimeoutMs, unfenced: true }),
  );
}

/** Opens a store of any engine, for commands that need no tasks. */
export function openLeases(
  where: Omit<Stored, "control">,
  options?: Connecting,
): Promise<LeaseStores> {
  const { store } = where;
  return opened(where, [store], options, (leftMs, noting) =>
    openBy(ENGINES, store, { ...systemEnv, logger: noting(systemEnv.logger) }, leftMs),
  );
}

function opened<Opened>(
  { isReading, notify }: Omit<Stored, "store" | "control">,
  urls: readonly string[],
  options: Connecting | undefined,
  open: Open<Opened>,
): Promise<Opened> {
  const checked: Open<Opened> = async (leftMs, noting) => {
    if (isReading) await checkTables(urls);
    return open(leftMs, noting);
  };
  return connecting(urls, checked, notify, options);
}

/** Opens leases of any engine, and the control store, which may be a different one. */
export async function openLeasesAndControl(where: Stored): Promise<LeaseStores> {
  return where.control === undefined ? openLeases(where) : openWhere(where, systemEnv);
}

/** Calls `work` with the keys, limits and audit log of a database, and closes it. */
export async function withControl<T>(
  where: Where,
  work: (control: Control, stores: LeaseStores) => Promise<T>,
): Promise<T> {
  // A server does not give direct access to them.
  const stores = /^https?:/i.test(where.store) ? undefined : await openLeases(where);
  try {
    if (stores?.control) return await work(retryingControl(stores.control, systemEnv), stores);
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
  const stores = await openLeases(where);
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
