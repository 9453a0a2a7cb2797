import type { ConnectOptions, Env, LeaseStores, Logger, Page, Stores } from "leasehold";
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
import { ENGINES, openBy, openStores, planBy } from "leasehold/internal/open";
import type { Telemetry } from "leasehold/telemetry";
import { UsageError } from "./failures.js";
import { type Notice, type Notify, notifier, sentences } from "./notices.js";
import type { Where } from "./options.js";

type Stored = Pick<Where, "store" | "control" | "isReading">;

const CONNECT_TIMEOUT_MS = 30_000;
/** PGlite starts in this process: it creates a database in a few seconds, and in many more on a busy machine. */
const START_TIMEOUT_MS = 120_000;
const CONNECT_AGAIN_MS = 500;

export type NotifyRetrying = (notice: Extract<Notice, { event: "retrying" }>) => void;

/** PGlite and memory, which are in this process. */
const isLocal = (url: string) => /^(pglite|memory):/i.test(url);

/** How long a command tries to open these stores, by default. */
export function patienceMs(...urls: readonly string[]): number {
  return urls.every(isLocal) ? START_TIMEOUT_MS : CONNECT_TIMEOUT_MS;
}

type OrUndefined<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** How long one attempt may take, where a server is asked: longer than a short wait. */
const ATTEMPT_MS = 5_000;

/** After this time without a connection, a command says that it still tries. */
const SAY_AFTER_MS = 1_000;

/**
 * Says on stderr if the store does not answer soon, and then retries until the timeout, as it has said.
 * @param open called again with the time that is left, and with what learns from the log why there is none yet
 * @param notify null: says nothing, and tries once
 */
async function sayingSo<Opened>(
  urls: readonly string[],
  open: (timeoutMs: number, logger: (own: Logger) => Logger) => Promise<Opened>,
  timeoutMs = patienceMs(...urls),
  notify: NotifyRetrying | null = notifier(false),
): Promise<Opened> {
  const untilMs = systemClock.monotonic() + timeoutMs;
  // PGlite starts in this process, which takes a while and never fails for a while.
  const remote = urls.filter((url) => !isLocal(url));
  const until = untilOf(timeoutMs);
  let said = false;
  let isOpening = true;
  let answer: StoreUnavailableError | undefined;
  const say = () => {
    said = true;
    const shown = remote.map((url) => shownUrl(url)).join(" and ");
    const message = answer
      ? `no access to ${shown} yet: ${answer.message}`
      : `no connection to ${shown} yet`;
    notify?.({ event: "retrying", message, until });
  };
  const timer = systemClock.timer(SAY_AFTER_MS, say);
  const noting = (own: Logger): Logger => ({
    debug(fields, message) {
      const { err } = fields as { err?: unknown };
      if (isOpening && isRefusal(err)) answer = err;
      own.debug(fields, message);
    },
    info: (fields, message) => own.info(fields, message),
    warn: (fields, message) => own.warn(fields, message),
    error: (fields, message) => own.error(fields, message),
  });
  if (!notify || remote.length === 0 || timeoutMs <= SAY_AFTER_MS) timer.cancel();
  try {
    for (;;) {
      try {
        return await open(Math.max(1, Math.ceil(untilMs - systemClock.monotonic())), noting);
      } catch (error) {
        const isOver = systemClock.monotonic() + CONNECT_AGAIN_MS >= untilMs;
        if (!said || isOver || !(error instanceof StoreUnavailableError)) throw error;
      }
      await sleep(systemClock, CONNECT_AGAIN_MS);
    }
  } finally {
    isOpening = false;
    timer.cancel();
  }
}

/** A server has answered, and refused. */
function isRefusal(error: unknown): error is StoreUnavailableError {
  return error instanceof StoreUnavailableError && error.refusedBy !== undefined;
}

function untilOf(leftMs: number): string {
  return new Date(systemClock.wall() + leftMs).toISOString();
}

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
export function openWhere(
  { store, control, isReading }: Stored,
  env: Env,
  notify?: NotifyRetrying,
): Promise<Stores> {
  const apart = control === store ? undefined : control;
  const urls = apart === undefined ? [store] : [store, apart];
  const open = async (leftMs: number, noting: (own: Logger) => Logger) => {
    if (isReading) await checkTables(urls);
    return openStores(store, apart, { ...env, logger: noting(env.logger) }, leftMs);
  };
  return sayingSo(urls, open, undefined, notify);
}

/** Connects to the store and the tenant of a command. Commands say by themselves where there is no token. */
export function connectTo(
  { store, namespace, isReading }: Where,
  options: OrUndefined<
    Pick<ConnectOptions, "holder" | "graceMs" | "logger" | "env" | "connectTimeoutMs">
  > = {},
  notify?: NotifyRetrying | null,
): Promise<Leasehold<AnyLease>> {
  const given = withoutUndefined({ ...options, namespace }) as ConnectOptions;
  const { logger = sentences } = options;
  const open = async (connectTimeoutMs: number, noting: (own: Logger) => Logger) => {
    if (isReading) await checkTables([store]);
    return connect(store, { ...given, logger: noting(logger), connectTimeoutMs, unfenced: true });
  };
  return sayingSo([store], open, options.connectTimeoutMs, notify);
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
    waitMs = patienceMs(where.store),
    telemetry,
    // Notices say what is lost.
    logger = silentLogger,
  }: {
    waitMs?: number | undefined;
    telemetry?: Telemetry | undefined;
    logger?: Logger | undefined;
  } = {},
): Promise<Leasehold<AnyLease>> {
  const clock = systemClock;
  const untilMs = clock.monotonic() + waitMs;
  let attemptMs = isLocal(where.store) ? START_TIMEOUT_MS : ATTEMPT_MS;
  // The first attempt may take longer than the wait.
  const endMs = Math.max(untilMs, clock.monotonic() + attemptMs);
  let said = false;
  const notifyOnce = (message: string) => {
    const until = untilOf(endMs - clock.monotonic());
    if (!said) notify({ event: "retrying", message, until });
    said = true;
  };
  const notifySlow: Notify = (notice) => "message" in notice && notifyOnce(notice.message);
  const env = telemetry && { telemetry };
  for (;;) {
    try {
      const leftMs = untilMs - clock.monotonic();
      const connectTimeoutMs = leftMs > CONNECT_TIMEOUT_MS / 2 ? leftMs : attemptMs;
      const options = { connectTimeoutMs, holder, env, logger };
      return await connectTo(where, options, waitMs === 0 ? null : notifySlow);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      if (clock.monotonic() + CONNECT_AGAIN_MS >= untilMs) throw error;
      notifyOnce(error.message);
      await sleep(clock, CONNECT_AGAIN_MS);
      attemptMs = Math.max(1, Math.min(attemptMs, untilMs - clock.monotonic()));
    }
  }
}

/** Opens a store of any engine, for commands that need no tasks. */
export async function openLeases({
  store,
  isReading,
}: Omit<Stored, "control">): Promise<LeaseStores> {
  return sayingSo([store], async (leftMs, noting) => {
    if (isReading) await checkTables([store]);
    return openBy(ENGINES, store, { ...systemEnv, logger: noting(systemEnv.logger) }, leftMs);
  });
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
    if (stores?.control) return await work(stores.control, stores);
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
