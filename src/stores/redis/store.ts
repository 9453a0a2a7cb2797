/** Leases in Redis: requests to scripts, answers to outcomes. What is decided stands in scripts.ts. */
import { grantIdOf, invariant } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  ClosedError,
  type Failed,
  type Key,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  type Term,
  type WatchEvent,
} from "../../lease/index.js";
import { failedOutcome, refusedOutcome } from "./failures.js";
import type { Hints } from "./hints.js";
import type { Keys } from "./keys.js";
import { namesOf } from "./names.js";
import type { SCRIPTS } from "./scripts.js";
import type { Lane, Script, Servers } from "./servers.js";
import { watchHints } from "./watching.js";

const DEFAULT_TIMEOUT_MS = 10_000;
/** So many names are read from each index at a time. */
const NAMES_AT_ONCE = 500;
/** Scripts that look at those who wait, too. */
const IN_LINE: ReadonlySet<ScriptName> = new Set(["acquire", "release", "revoke"]);

type ScriptName = keyof typeof SCRIPTS;

/** Texts, and a list of them: what a script answers for a request. */
type Answer = readonly (string | readonly string[])[];

export class RedisLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: true,
    watch: "push",
    // Free from the microsecond of its expiry on; answers are rounded to milliseconds.
    epsilonMs: 1,
  };
  /** Whose ended grants are collected: what nobody uses any more expires by itself. */
  readonly #namespaces = new Set<string>();
  readonly #closing = new AbortController();

  constructor(
    readonly servers: Servers,
    readonly scripts: Readonly<Record<ScriptName, Script>>,
    readonly keys: Keys,
    readonly hints: Hints,
  ) {}

  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]> {
    for (const { namespace } of requests) this.#namespaces.add(namespace);
    return this.#decide("acquire", "general", requests, options, {
      args: ({ resource, leaseId, holder, ttlMs, queueMs = 0, metadata = null }) => [
        ...[resource, grantIdOf(leaseId), holder, `${ttlMs}`],
        ...[`${Math.ceil(Math.min(queueMs, Number.MAX_SAFE_INTEGER))}`, JSON.stringify(metadata)],
      ],
      outcome: acquireOutcome,
    });
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    return this.#decide("renew", "control", requests, options, {
      args: ({ resource, leaseId, ttlMs }) => [resource, grantIdOf(leaseId), `${ttlMs}`],
      outcome: (_, [status, ...rest]): RenewOutcome =>
        status === "renewed"
          ? { status, token: tokenOf(rest[0]), ...termOf(rest) }
          : { status: "lost", reason: rest[0] as "expired" | "revoked" | "taken" | "gone" },
    });
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    return this.#decide("release", "control", requests, options, {
      args: ({ namespace, resource, leaseId }) => [
        ...[resource, grantIdOf(leaseId), this.keys.channel(namespace)],
      ],
      outcome: (_, [status]): ReleaseOutcome => ({
        status: status === "released" ? status : "notHeld",
      }),
    });
  }

  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    return this.#decide("revoke", "general", requests, options, {
      args: ({ namespace, resource, expectedToken, free }) => [
        ...[resource, `${expectedToken ?? ""}`, free, this.keys.channel(namespace)],
      ],
      outcome: (_, [status, token, freeInUs]): RevokeOutcome =>
        status === "revoked"
          ? { status, token: tokenOf(token), freeInMs: Math.ceil(Number(freeInUs) / 1_000) }
          : { status: status === "otherToken" ? status : "notHeld" },
    });
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#assertOpen();
    const answers = await this.#run("view", "general", keys, () => [], this.#deadline());
    return keys.map((key, index) => {
      const answer = answers[index] as Answer | Error;
      if (answer instanceof Error) throw answer;
      return viewOf(key, answer[1] as readonly string[], Number(answer[2]));
    });
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.#assertOpen();
    const { namespace, prefix = "", cursor, states, renewedOnly = false, limit = 100 } = query;
    const deadlineMs = this.#deadline();
    const range = (key: string, from: Buffer, to: Buffer, count: number) =>
      this.#names(key, deadlineMs, from, to, count);
    const items: LeaseView[] = [];
    const indexes = this.keys.indexes(namespace);
    for await (const names of namesOf(indexes, { prefix, after: cursor }, range, limit + 1)) {
      for (const view of await this.get(names.map((resource) => ({ namespace, resource })))) {
        if (!view || (states && !states.includes(view.state))) continue;
        if (renewedOnly && view.renewedAt === null) continue;
        if (items.length === limit) return { items, nextCursor: items.at(-1)?.resource ?? null };
        items.push(view);
      }
    }
    return { items, nextCursor: null };
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, void> {
    this.#assertOpen();
    const channel = this.keys.channel(namespace);
    yield* watchHints(this.hints, channel, namespace, [signal, this.#closing.signal]);
  }

  async collect(olderThanMs: number): Promise<number> {
    this.#assertOpen();
    let collected = 0;
    for (const namespace of this.#namespaces) {
      for (const index of this.keys.indexes(namespace)) {
        collected += await this.#collectFrom(namespace, index, olderThanMs);
      }
    }
    return collected;
  }

  /** Refuses calls and ends watches. The connections belong to whoever opened them. */
  async close(): Promise<void> {
    this.#closing.abort();
  }

  async #collectFrom(namespace: string, index: string, olderThanMs: number): Promise<number> {
    const { servers, scripts, keys } = this;
    let collected = 0;
    for (let from = "-"; ; ) {
      const names = await this.#names(index, this.#deadline(), from, "+", NAMES_AT_ONCE);
      if (names.length === 0) return collected;
      const records = names.map((resource) => keys.record({ namespace, resource }));
      const args = [`${Math.floor(olderThanMs * 1_000)}`, ...names];
      const places = [index, ...records];
      collected += Number(
        await servers.run("general", scripts.collect, places, args, this.#deadline()),
      );
      from = `(${names.at(-1)}`;
    }
  }

  async #names(
    index: string,
    deadlineMs: number,
    from: string | Buffer,
    to: string | Buffer,
    count: number,
  ): Promise<string[]> {
    const range = [from, to, "LIMIT", 0, count] as const;
    const names = await this.servers.command(deadlineMs, "zrangebylex", index, ...range);
    return names as string[];
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the Redis lease store");
  }

  #deadline(timeoutMs = DEFAULT_TIMEOUT_MS): number {
    return this.servers.env.clock.monotonic() + timeoutMs;
  }

  async #decide<Request extends Key, Outcome>(
    name: ScriptName,
    lane: Lane,
    requests: readonly Request[],
    { timeoutMs }: CallOptions = {},
    call: {
      args(request: Request): readonly string[];
      outcome(request: Request, answer: Answer): Outcome;
    },
  ): Promise<(Outcome | Failed)[]> {
    if (this.#closing.signal.aborted) {
      return requests.map(() => failedOutcome(new ClosedError("the Redis lease store")));
    }
    const args = (request: Request) => call.args(request);
    const answers = await this.#run(name, lane, requests, args, this.#deadline(timeoutMs));
    return requests.map((request, index) => {
      const answer = answers[index] as Answer | Error;
      if (answer instanceof Error) return failedOutcome(answer);
      if (answer[0] === "failed") return refusedOutcome(String(answer[1]));
      return call.outcome(request, answer);
    });
  }

  /** One script for each group of keys; the answer to each request, or why its script failed. */
  async #run<Request extends Key>(
    name: ScriptName,
    lane: Lane,
    requests: readonly Request[],
    args: (request: Request) => readonly string[],
    deadlineMs: number,
  ): Promise<(Answer | Error)[]> {
    const { servers, keys, scripts } = this;
    const groups = new Map<number, number[]>();
    for (const [index, request] of requests.entries()) {
      const group = servers.groupOf(keys.indexOf(request));
      groups.set(group, [...(groups.get(group) ?? []), index]);
    }
    const answers = new Array<Answer | Error>(requests.length);
    const runOne = async (indexes: readonly number[]) => {
      const batch = indexes.map((index) => requests[index] as Request);
      const places = batch.flatMap((request) => [
        ...[keys.record(request), keys.indexOf(request)],
        ...(IN_LINE.has(name) ? keys.line(request) : []),
      ]);
      try {
        const values = batch.flatMap((request) => args(request));
        const all = await servers.run(lane, scripts[name], places, values, deadlineMs);
        invariant(Array.isArray(all) && all.length === batch.length, "one answer per request");
        for (const [at, index] of indexes.entries()) answers[index] = all[at] as Answer;
      } catch (error) {
        for (const index of indexes) answers[index] = error as Error;
      }
    };
    await Promise.all([...groups.values()].map(runOne));
    return answers;
  }
}

function acquireOutcome(request: AcquireRequest, answer: Answer): AcquireOutcome {
  const [status, ...rest] = answer;
  if (status === "acquired") {
    const [token, , , , before, now] = rest;
    const replaced = before && viewOf(request, before as readonly string[], Number(now));
    return { status, token: tokenOf(token), ...termOf(rest), ...(replaced && { replaced }) };
  }
  if (status === "held") {
    const [holder = "", grantId, leftUs, ahead] = rest as readonly string[];
    const remainingMs = Math.ceil(Number(leftUs) / 1_000);
    const place = ahead ? { ahead: Number(ahead) } : {};
    return { status, holder, grantId: grantId || null, remainingMs, ...place };
  }
  return { status: "ended" };
}

/** Rounded to the side on which the holder stops too early. */
function termOf([, ttlMs, leftUs, expiresAtUs]: Answer): Term {
  const remainingMs = Math.floor(Number(leftUs) / 1_000);
  return { ttlMs: Number(ttlMs), remainingMs, expiresAt: timeOf(String(expiresAtUs)) };
}

function tokenOf(text: Answer[number] | undefined): number {
  const token = Number(text);
  invariant(Number.isSafeInteger(token) && token > 0, `token ${token} is a safe integer`);
  return token;
}

/** ISO 8601 of microseconds since 1970. */
function timeOf(us: string): string {
  return new Date(Number(us) / 1_000).toISOString();
}

/** @param view what scripts.ts answers as `view`: empty where there is no record */
function viewOf(
  { namespace, resource }: Key,
  view: readonly string[],
  nowUs: number,
): LeaseView | null {
  const [grantId, holder = "", token, ttlMs, grantedAt = "", renewedAt, expiresAt = "", ended] =
    view;
  if (grantId === undefined) return null;
  const live = ended === "" && nowUs < Number(expiresAt);
  return {
    ...{ namespace, resource, holder, grantId, token: tokenOf(token) },
    state: live ? "live" : ended === "" ? "expired" : (ended as "released" | "revoked"),
    ttlMs: Number(ttlMs),
    remainingMs: live ? Math.ceil((Number(expiresAt) - nowUs) / 1_000) : 0,
    grantedAt: timeOf(grantedAt),
    renewedAt: renewedAt ? timeOf(renewedAt) : null,
    expiresAt: timeOf(expiresAt),
    metadata: JSON.parse(view[8] ?? "null") as string | null,
  };
}
