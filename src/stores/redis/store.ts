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
/** What a script answers for a request: a number where that says all. */
type Answer = number | Texts;
type Texts = readonly (string | readonly string[])[];
/** And when, in microseconds since 1970. */
interface Answered {
  readonly answer: Answer;
  readonly nowUs: number;
}
/** What a script is told of a request. */
interface Said {
  /** Of the grant; "" where none is named. */
  readonly id: string;
  /** Told once for all neighbours that say the same. */
  readonly common: readonly string[];
}

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
    const tellsReplaced = options?.tellReplaced ? "1" : "";
    return this.#decide("acquire", "general", requests, options, {
      said: ({ leaseId, holder, ttlMs, queueMs = 0, metadata = null }) => ({
        id: grantIdOf(leaseId),
        common: [
          ...[holder, `${ttlMs}`, `${Math.ceil(Math.min(queueMs, Number.MAX_SAFE_INTEGER))}`],
          ...[JSON.stringify(metadata), tellsReplaced],
        ],
      }),
      outcome: acquireOutcome,
    });
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    return this.#decide("renew", "control", requests, options, {
      said: ({ leaseId, ttlMs }) => ({ id: grantIdOf(leaseId), common: [`${ttlMs}`] }),
      outcome: (_, answer): RenewOutcome => {
        const [status, ...rest] = answer as Texts;
        return status === "renewed"
          ? { status, token: tokenOf(rest[0]), ...termOf(rest) }
          : { status: "lost", reason: rest[0] as "expired" | "revoked" | "taken" | "gone" };
      },
    });
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    return this.#decide("release", "control", requests, options, {
      said: ({ namespace, leaseId }) => ({
        ...{ id: grantIdOf(leaseId), common: [this.keys.channel(namespace)] },
      }),
      outcome: (_, answer): ReleaseOutcome => ({ status: answer === 1 ? "released" : "notHeld" }),
    });
  }

  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    return this.#decide("revoke", "general", requests, options, {
      said: ({ namespace, expectedToken, free }) => ({
        ...{ id: "", common: [`${expectedToken ?? ""}`, free, this.keys.channel(namespace)] },
      }),
      outcome: (_, answer): RevokeOutcome => {
        const [status, token, freeInUs] = answer as Texts;
        return status === "revoked"
          ? { status, token: tokenOf(token), freeInMs: Math.ceil(Number(freeInUs) / 1_000) }
          : { status: status === "otherToken" ? status : "notHeld" };
      },
    });
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#assertOpen();
    const nothing = { id: "", common: [] };
    const answers = await this.#run("view", "general", keys, () => nothing, this.#deadline());
    return keys.map((key, index) => {
      const answered = answers[index] as Answered | Error;
      if (answered instanceof Error) throw answered;
      const [, view] = answered.answer as Texts;
      return viewOf(key, view as readonly string[], answered.nowUs);
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
      said(request: Request): Said;
      outcome(request: Request, answer: Answer, nowUs: number): Outcome;
    },
  ): Promise<(Outcome | Failed)[]> {
    if (this.#closing.signal.aborted) {
      return requests.map(() => failedOutcome(new ClosedError("the Redis lease store")));
    }
    const said = (request: Request) => call.said(request);
    const answers = await this.#run(name, lane, requests, said, this.#deadline(timeoutMs));
    return requests.map((request, index) => {
      const answered = answers[index] as Answered | Error;
      if (answered instanceof Error) return failedOutcome(answered);
      const { answer, nowUs } = answered;
      if (typeof answer !== "number" && answer[0] === "failed") {
        return refusedOutcome(String(answer[1]));
      }
      return call.outcome(request, answer, nowUs);
    });
  }

  /** One script for each group of keys; the answer to each request, or why its script failed. */
  async #run<Request extends Key>(
    name: ScriptName,
    lane: Lane,
    requests: readonly Request[],
    said: (request: Request) => Said,
    deadlineMs: number,
  ): Promise<(Answered | Error)[]> {
    const { servers, keys } = this;
    if (!servers.isCluster) return this.#runOne(name, lane, requests, said, deadlineMs);
    const groups = new Map<number, number[]>();
    for (const [index, request] of requests.entries()) {
      const group = servers.groupOf(keys.indexOf(request));
      const indexes = groups.get(group);
      if (indexes) indexes.push(index);
      else groups.set(group, [index]);
    }
    const answers = new Array<Answered | Error>(requests.length);
    const runOne = async (indexes: readonly number[]) => {
      const batch = indexes.map((index) => requests[index] as Request);
      const some = await this.#runOne(name, lane, batch, said, deadlineMs);
      for (const [at, index] of indexes.entries()) answers[index] = some[at] as Answered | Error;
    };
    await Promise.all([...groups.values()].map(runOne));
    return answers;
  }

  /** One script; see scripts.ts for what it is told. */
  async #runOne<Request extends Key>(
    name: ScriptName,
    lane: Lane,
    batch: readonly Request[],
    said: (request: Request) => Said,
    deadlineMs: number,
  ): Promise<(Answered | Error)[]> {
    const { servers, keys, scripts } = this;
    const inLine = IN_LINE.has(name);
    const indexes = new Set<string>();
    const places: string[] = [];
    const lists: (readonly string[])[] = [];
    const ids: string[] = [];
    const listOf: number[] = [];
    for (const request of batch) {
      const index = keys.indexOf(request);
      indexes.add(index);
      places.push(`${index}:${request.resource}`);
      if (inLine) places.push(`${index}line:${request.resource}`);
      const { id, common } = said(request);
      const last = lists.at(-1);
      if (!last || !common.every((text, at) => text === last[at])) lists.push(common);
      ids.push(id);
      listOf.push(lists.length);
    }
    const own = lists.length === 1 ? ids : ids.map((id, at) => `${id}${listOf[at]}`);
    const head = [`${indexes.size}`, `${lists.length}`, `${lists[0]?.length ?? 0}`];
    try {
      const all = (await servers.run(
        ...([lane, scripts[name], [...indexes, ...places]] as const),
        ...([[...head, ...lists.flat(), ...own], deadlineMs] as const),
      )) as [nowUs: number, ...answers: Answer[]];
      invariant(Array.isArray(all) && all.length === batch.length + 1, "one answer per request");
      const [nowUs] = all;
      return batch.map((_, at) => ({ answer: all[at + 1] as Answer, nowUs }));
    } catch (error) {
      return batch.map(() => error as Error);
    }
  }
}

function acquireOutcome(request: AcquireRequest, answer: Answer, nowUs: number): AcquireOutcome {
  if (typeof answer === "number") return granted(request, nowUs + answer, nowUs);
  const [status, ...rest] = answer;
  if (status === "replaced") {
    const [token, before] = rest;
    const replaced = viewOf(request, before as readonly string[], nowUs);
    return { ...granted(request, tokenOf(token), nowUs), ...(replaced && { replaced }) };
  }
  if (status === "acquired") return { status, token: tokenOf(rest[0]), ...termOf(rest) };
  if (status === "held") {
    const [holder = "", grantId, leftUs, ahead] = rest as readonly string[];
    const remainingMs = Math.ceil(Number(leftUs) / 1_000);
    const place = ahead ? { ahead: Number(ahead) } : {};
    return { status, holder, grantId: grantId || null, remainingMs, ...place };
  }
  return { status: "ended" };
}

/** By this very request, just now. */
function granted({ ttlMs }: AcquireRequest, token: number, nowUs: number) {
  const expiresAt = timeOf(nowUs + ttlMs * 1_000);
  return {
    ...{ status: "acquired" as const, token: tokenOf(token) },
    ...{ ttlMs, remainingMs: ttlMs, expiresAt },
  };
}

/** Rounded to the side on which the holder stops too early. */
function termOf([, ttlMs, leftUs, expiresAtUs]: Texts): Term {
  const remainingMs = Math.floor(Number(leftUs) / 1_000);
  return { ttlMs: Number(ttlMs), remainingMs, expiresAt: timeOf(Number(expiresAtUs)) };
}

function tokenOf(text: number | Texts[number] | undefined): number {
  const token = Number(text);
  invariant(Number.isSafeInteger(token) && token > 0, `token ${token} is a safe integer`);
  return token;
}

let lastTime = { ms: 0, text: "1970-01-01T00:00:00.000Z" };
/** ISO 8601 of microseconds since 1970. Those of one batch are mostly the same. */
function timeOf(us: number): string {
  const ms = Math.floor(us / 1_000);
  if (lastTime.ms === ms) return lastTime.text;
  lastTime = { ms, text: new Date(ms).toISOString() };
  return lastTime.text;
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
    grantedAt: timeOf(Number(grantedAt)),
    renewedAt: renewedAt ? timeOf(Number(renewedAt)) : null,
    expiresAt: timeOf(Number(expiresAt)),
    metadata: JSON.parse(view[8] ?? "null") as string | null,
  };
}
