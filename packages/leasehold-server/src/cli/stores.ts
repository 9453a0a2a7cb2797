import type { Env, LeaseStores, Stores } from "leasehold";
import { type AnyLease, connect, type Leasehold, StoreUnavailableError } from "leasehold";
import type { Control } from "leasehold/internal";
import { sleep, systemClock, systemEnv } from "leasehold/internal";
import { ENGINES, openBy, openStores } from "leasehold/internal/open";
import { UsageError } from "./failures.js";
import type { Where } from "./options.js";

/** PGlite makes its first database in a few seconds, on a busy machine in many more. */
export const CONNECT_TIMEOUT_MS = 30_000;
const CONNECT_AGAIN_MS = 500;

/** Opens the store and, where it is another place, the control store; close() closes both. */
export function openWhere({ store, control }: Where, env: Env): Promise<Stores> {
  const apart = control === store ? undefined : control;
  return openStores(store, apart, env, CONNECT_TIMEOUT_MS);
}

/** @throws STORE_UNAVAILABLE when it has not come within the wait, and after one attempt at least */
export async function connectWithin(
  url: string,
  holder: string | undefined,
  waitMs = CONNECT_TIMEOUT_MS,
): Promise<Leasehold<AnyLease>> {
  const clock = systemClock;
  const untilMs = clock.monotonic() + waitMs;
  for (let tries = 1; ; tries += 1) {
    try {
      const leftMs = untilMs - clock.monotonic();
      // Without a timeout of ours, the engine's own: how long one attempt may take.
      const timeout = leftMs > CONNECT_TIMEOUT_MS / 2 ? { connectTimeoutMs: leftMs } : {};
      const named = holder === undefined ? {} : { holder };
      // Commands say by themselves where there is no token.
      return await connect(url, { ...timeout, ...named, unfenced: true });
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      if (clock.monotonic() + CONNECT_AGAIN_MS >= untilMs) throw error;
      if (tries === 1) process.stderr.write(`leasehold: ${error.message}; trying on\n`);
      await sleep(clock, CONNECT_AGAIN_MS);
    }
  }
}

/** For commands that need no tasks: any engine will do. */
export async function openLeases(url: string): Promise<LeaseStores> {
  return openBy(ENGINES, url, systemEnv, CONNECT_TIMEOUT_MS);
}

/** Leases of any engine, and what operators keep, which may be in another place. */
export async function openLeasesAndControl(where: Where): Promise<LeaseStores> {
  return where.control === undefined ? openLeases(where.store) : openWhere(where, systemEnv);
}

/** Works on what operators keep, and closes where that is. */
export async function withControl<T>(
  where: Where,
  work: (control: Control) => Promise<T>,
): Promise<T> {
  const url = where.control ?? where.store;
  // Of a server's only the server itself can tell.
  const stores = /^https?:/i.test(url) ? undefined : await openLeases(url);
  try {
    if (stores?.control) return await work(stores.control);
  } finally {
    await stores?.close();
  }
  throw new UsageError(
    "keys, the audit and limits are kept by PostgreSQL and PGlite: name the database by --control",
  );
}

/** The URL as it may be shown: without its password, and a server's without its key. */
export function shownUrl(text: string): string {
  // A list of hosts is no URL.
  if (!URL.canParse(text)) return text.replace(/^(\w+:\/\/[^:@/?#]*):[^@/?#]*@/, "$1:***@");
  const url = new URL(text);
  const isServer = /^https?:$/.test(url.protocol);
  if (isServer && url.username) url.username = "***";
  if (url.password) url.password = "***";
  return url.username || url.password ? url.href : text;
}
