/**
 * How each call of the stores is tried again: one table. retrying.ts says when a try follows another one.
 *
 *   batch   requests with an outcome each; what has failed is sent again, without the rest
 *   one     a request with an outcome
 *   call    a call that throws
 *   read    a call that throws and changes nothing, even if its answer was lost
 *   …Once   not again if it may have been applied: something may have come between that a repeated call would undo,
 *           such as the next grant by a second revoke, or a new declaration by a second removal
 *   kept    not tried again, and members that are no calls
 */
import type { Env } from "../env/index.js";
import { DEFAULT_TIMEOUT_MS, Retrying, type RetryOptions, UNLESS_APPLIED } from "./retrying.js";

export const LEASE_RETRIES = {
  capabilities: "kept",
  acquire: "batch",
  renew: "batch",
  release: "batch",
  revoke: "batchOnce",
  get: "read",
  list: "read",
  watch: "kept",
  collect: "call",
  close: "close",
} as const;

/** A removal is not repeated: a program may have declared the limit again. */
const LIMIT_RETRIES = { declare: "one", list: "read", remove: "callOnce" } as const;

/** The calls on tasks that no loop of a client repeats: reads, and actions of operators. */
export const TASK_CALL_RETRIES = {
  cancel: "batchOnce",
  retry: "batchOnce",
  delete: "batchOnce",
  get: "read",
  list: "read",
  counts: "read",
  dueKinds: "read",
  blockedKeys: "read",
  limits: LIMIT_RETRIES,
  stats: "read",
  leases: "read",
} as const;

/** A repeated call of a worker has the same answer as the first. */
export const TASK_RETRIES = {
  ...TASK_CALL_RETRIES,
  capabilities: "kept",
  enqueue: "batch",
  claim: "one",
  heartbeat: "batch",
  complete: "batch",
  fail: "batch",
  requeue: "batch",
  results: "read",
  watchResults: "kept",
  reap: "call",
  collect: "call",
  watch: "kept",
  close: "close",
} as const;

export const ONCE_RETRIES = {
  get: "read",
  list: "read",
  succeed: "one",
  fail: "one",
  retry: "callOnce",
  delete: "callOnce",
  collect: "kept",
} as const;

/** A repeated run names the same task. */
export const SCHEDULE_RETRIES = {
  declare: "one",
  get: "read",
  list: "read",
  pause: "call",
  resume: "call",
  remove: "callOnce",
  runNow: "one",
} as const;

/** For state of a program behind a server. */
export const BACKING_RETRIES = { kind: "kept", read: "read", change: "call" } as const;

/** What an operator may read behind a server. */
export const OPERATOR_RETRIES = {
  audit: { list: "read", verify: "read" },
  keys: { list: "read" },
  limits: { read: "read" },
  pauses: { list: "read" },
} as const;

/** What an operator may change behind a server. */
export const ACTOR_RETRIES = {
  leases: { revoke: "batchOnce" },
  tasks: { cancel: "batchOnce", retry: "batchOnce", delete: "batchOnce" },
  once: { retry: "callOnce", delete: "callOnce" },
  schedules: { pause: "call", resume: "call", remove: "callOnce", runNow: "one" },
  taskLimits: { declare: "one", remove: "callOnce" },
  backing: BACKING_RETRIES,
  pauses: { set: "call", clear: "call" },
} as const;

type Call = (...args: readonly unknown[]) => Promise<unknown> | undefined;
type Batch = (
  requests: readonly unknown[],
  options?: RetryOptions,
) => Promise<{ readonly status: string }[]>;
type One = (request: unknown, options?: RetryOptions) => Promise<{ readonly status: string }>;

const batch =
  (more?: RetryOptions) =>
  (retrying: Retrying, send: Batch): Batch =>
  (requests, options) => {
    const sendSome = (some: readonly unknown[], timeoutMs: number) =>
      send(some, { ...options, timeoutMs });
    return retrying.batch(requests, sendSome, { ...options, ...more });
  };
const call =
  (more?: RetryOptions) =>
  (retrying: Retrying, send: Call): Call =>
  (...args) =>
    retrying.call(async () => send(...args), more);

/** Each takes a call of a store, and returns the one that tries again. */
const WAYS = {
  batch: batch(),
  batchOnce: batch(UNLESS_APPLIED),
  one:
    (retrying: Retrying, send: One): One =>
    (request, options) => {
      // It may wait in the store.
      const { waitMs = 0 } = request as { readonly waitMs?: number };
      return retrying.one((timeoutMs) => send(request, { ...options, timeoutMs }), {
        timeoutMs: waitMs + DEFAULT_TIMEOUT_MS,
        ...options,
      });
    },
  call: call(),
  callOnce: call(UNLESS_APPLIED),
  read:
    (retrying: Retrying, send: Call): Call =>
    (...args) =>
      retrying.read(async () => send(...args)),
  kept: (_: Retrying, send: Call) => send,
  close:
    (retrying: Retrying, send: Call): Call =>
    () => {
      retrying.close();
      return send();
    },
};
type Way = keyof typeof WAYS;

interface Table {
  readonly [name: string]: Way | Table;
}
/** The way of each of these members, and of those of a store that is one. */
type Ways<Store, Names extends keyof Store> = {
  readonly [Name in Names]-?: NonNullable<Store[Name]> extends (...args: never[]) => unknown
    ? Way
    : "kept" | Table;
};

/** The named members of a store, with their calls tried again. */
export function withRetries<Store extends object, const Names extends keyof Store>(
  store: Store,
  ways: Ways<Store, Names>,
  retrying: Retrying,
): Pick<Store, Names> {
  return retried(store, ways, retrying) as Pick<Store, Names>;
}

/** @param open gives the store at each call, so that it can be loaded at the first */
export function withRetriesLater<Store extends object, const Names extends keyof Store>(
  open: () => Promise<Store>,
  ways: Ways<Store, Names>,
  env: Env,
): Pick<Store, Names> {
  const callOf =
    (name: string) =>
    async (...args: unknown[]) =>
      ((await open()) as Readonly<Record<string, Call>>)[name]?.(...args);
  const store = Object.fromEntries(Object.keys(ways as Table).map((name) => [name, callOf(name)]));
  return retried(store, ways, new Retrying(env)) as Pick<Store, Names>;
}

function retried(store: object, ways: Table, retrying: Retrying): object {
  const members = store as Readonly<Record<string, unknown>>;
  const entries = Object.entries(ways).flatMap(([name, way]) => {
    const member = members[name];
    // A store need not keep everything.
    if (member === undefined) return [];
    if (typeof way !== "string") return [[name, retried(member as object, way, retrying)]];
    if (typeof member !== "function") return [[name, member]];
    const send: Call = (...args) => (members as Readonly<Record<string, Call>>)[name]?.(...args);
    return [[name, WAYS[way](retrying, send as never)]];
  });
  return Object.fromEntries(entries) as object;
}
