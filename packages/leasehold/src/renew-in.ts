/** Whether a client has a renewal thread, and what stands against one. */
import type { Env } from "./env/index.js";
import {
  type ClientOptions,
  checkNumber,
  InvalidOptionError,
  type LeaseStore,
  type StartedThread,
  type ThreadModule,
} from "./lease/index.js";
import type { Source } from "./stores/source.js";

/** Absent where there are no threads, as in browsers. */
export type LoadThread = () => Promise<ThreadModule>;

export interface RenewInOptions extends Pick<ClientOptions, "env"> {
  readonly renewIn?: "loop" | "thread";
  readonly maxBlockedMs?: number;
}

interface Threaded {
  readonly module: ThreadModule;
  /** @throws INVALID_OPTION, STORE_UNAVAILABLE, STORE_MISCONFIGURED */
  start(store: LeaseStore, env: Env, connectTimeoutMs: number | undefined): Promise<StartedThread>;
}

const MAX_BLOCKED_MS = 60_000;
/** Shorter times are of the size of an ordinary turn of a busy event loop. */
const SHORTEST_BLOCKED_MS = 100;

/**
 * @returns undefined if the event loop renews
 * @throws InvalidOptionError
 */
export async function threadFor(
  source: Source | LeaseStore,
  { renewIn = "loop", maxBlockedMs, env }: RenewInOptions,
  load: LoadThread | undefined,
): Promise<Threaded | undefined> {
  if (renewIn !== "loop" && renewIn !== "thread") {
    throw new InvalidOptionError("renewIn", 'must be "loop" or "thread"');
  }
  if (renewIn === "loop") {
    if (maxBlockedMs === undefined) return undefined;
    throw new InvalidOptionError("maxBlockedMs", 'needs renewIn: "thread"');
  }
  checkNumber(
    "maxBlockedMs",
    maxBlockedMs ?? MAX_BLOCKED_MS,
    SHORTEST_BLOCKED_MS,
    Number.MAX_SAFE_INTEGER,
  );
  if (!load) throw refusal("needs a worker thread of Node");
  if (typeof source === "object" && !(source instanceof URL)) {
    throw refusal("needs a URL as the source, because the thread opens its own connection");
  }
  const url = String(source);
  if (/^(memory|pglite):/i.test(url)) {
    throw refusal("needs a store outside this process, such as PostgreSQL or Redis");
  }
  if (env?.clock) throw refusal("reads the clock of the process: leave out env.clock");
  const module = await load();
  return {
    module,
    async start(store, env, connectTimeoutMs) {
      if (store.capabilities.grants === "bound") {
        throw refusal(
          "needs a store whose grants any client may renew, and this one binds them to its session",
        );
      }
      return module.startRenewalThread({
        url,
        env,
        connectTimeoutMs,
        maxBlockedMs: maxBlockedMs ?? MAX_BLOCKED_MS,
      });
    },
  };
}

function refusal(why: string): InvalidOptionError {
  return new InvalidOptionError("renewIn", `${why}; or use renewIn: "loop"`);
}
