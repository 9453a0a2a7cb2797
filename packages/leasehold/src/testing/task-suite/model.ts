/** A seeded walk of random calls, made to the store and to the rules: both must answer the same. */
import { claimDigestOf, grantIdOf, newLeaseId, zip } from "../../env/index.js";
import { headOfKey } from "../../tasks/keys.js";
import { taskLeaseState } from "../../tasks/leases.js";
import * as operators from "../../tasks/operator-rules.js";
import {
  type ClaimRequest,
  type Concurrency,
  type NewTask,
  TASK_STATES,
  type TaskGrant,
  type TaskKey,
} from "../../tasks/port.js";
import { isClaimable, isUnfinished, type TaskRecord } from "../../tasks/record.js";
import * as rules from "../../tasks/rules.js";
import { Choices } from "../choices.js";
import type { Expect } from "../framework.js";
import {
  type Fixture,
  grantOf,
  type Held,
  LONG_TTL_MS,
  numberOf,
  type Section,
} from "./fixture.js";

const HOUR_MS = 3_600_000;
/** Each key always says the same. */
const CONCURRENCIES: readonly Concurrency[] = [
  { key: "one", perKey: 1, order: "fifo" },
  { key: "two", perKey: 2, order: "fifo" },
  { key: "any", perKey: 2, order: "any" },
];
/** Where steps cost no real time there may be more of them. */
const STEPS = 400;
const REAL_STEPS = 60;

export const model: Section = (test, expect) => {
  for (const seed of [1, 2, 3]) {
    test(`holds for random calls, and no task is lost (seed ${seed})`, async (fixture) => {
      const walk = new Walk(fixture, expect, seed);
      const steps = fixture.opened.advance ? STEPS : REAL_STEPS;
      for (let step = 0; step < steps; step += 1) await walk.step();
      await walk.compareAll();
    });
  }
};

/** The store and its model, moved in step. */
class Walk {
  /** In the order in which they were enqueued. */
  readonly #records = new Map<string, TaskRecord>();
  /** All that were ever made: most are stale, and stay in use. */
  readonly #grants: TaskGrant[] = [];
  readonly #claims: ClaimRequest[] = [];
  readonly #choose: Choices;
  /** The model's clock only has to run: the walk waits for nothing but the expiry of leases. */
  #nowMs = 0;

  constructor(
    readonly fixture: Fixture,
    readonly expect: Expect,
    seed: number,
  ) {
    this.#choose = new Choices(seed);
  }

  async step(): Promise<void> {
    // Times order the queue: a store's clock that stands still must be moved.
    await this.fixture.opened.advance?.(1);
    this.#nowMs += 1;
    const at = this.#choose.random.float();
    if (at < 0.2) await this.#enqueue();
    else if (at < 0.42) await this.#claim();
    else if (at < 0.45) await this.#crash();
    else if (at < 0.55) await this.#heartbeat();
    else if (at < 0.65) await this.#complete();
    else if (at < 0.75) await this.#fail();
    else if (at < 0.83) await this.#requeue();
    else if (at < 0.9) await this.#cancel();
    else if (at < 0.97) await this.#retry();
    else await this.#delete();
  }

  async #enqueue(): Promise<void> {
    const tasks = this.#choose.some(4, () =>
      this.#choose.chance(0.1) && this.#records.size > 0
        ? this.fixture.newTask({ id: this.#anyTask().id })
        : this.fixture.newTask({
            kind: this.#choose.pick(["a", "b"]),
            queue: this.#choose.pick(["x", "y"]),
            priority: this.#choose.pick([-1, 0, 1]),
            data: this.#nowMs,
            dedupeKey: this.#choose.pick([null, null, "k", "l"]),
            maxAttempts: this.#choose.pick([1, 2, 3]),
            crashLimit: this.#choose.pick([1, 2]),
            concurrency: this.#choose.pick([undefined, undefined, ...CONCURRENCIES]),
          }),
    );
    const outcomes = await this.fixture.enqueue(tasks);
    this.#each(tasks, outcomes, (task, record) =>
      rules.enqueue(record, this.#rival(task), task, this.#nowMs, 0),
    );
  }

  async #claim(): Promise<void> {
    if (this.#claims.length > 0 && this.#choose.chance(0.2)) return this.#claimAgain();
    const wanted = {
      queues: this.#choose.pick([["x"], ["y"], ["x", "y"]]),
      kinds: this.#choose.pick([null, null, ["a"], ["a", "b"]]),
      limit: this.#choose.pick([1, 2, 5]),
    };
    for (;;) {
      const claimId = newLeaseId(this.#choose.random);
      const request = this.fixture.claimRequest({ ...wanted, claimId });
      const claimed = await this.fixture.claim(request);
      this.#claimed(request, claimed);
      if (claimed.length > 0) this.#claims.push(request);
      // One that takes fewer than it may has perhaps not looked at all keys. One that takes none has.
      else this.expect(this.#due(request)).toEqual([]);
      if (claimed.length === 0 || claimed.length === wanted.limit) return;
    }
  }

  async #claimAgain(): Promise<void> {
    const request = this.#choose.pick(this.#claims);
    const claimed = await this.fixture.claim(request);
    const digest = claimDigestOf(request.claimId);
    const own = [...this.#records.values()].filter((record) =>
      rules.claimAgain(record, digest, this.#nowMs),
    );
    this.expect(claimed.map(({ id }) => id).sort()).toEqual(own.map(({ id }) => id).sort());
  }

  #claimed(request: ClaimRequest, claimed: readonly Held[]): void {
    const digest = claimDigestOf(request.claimId);
    for (const [task, before] of zip(claimed, this.#taken(request, claimed))) {
      // The store numbers the tasks. The model learns the number from the first lease id.
      const seq = before.seq || numberOf(task);
      const { record, outcome } = rules.claim(
        { ...before, seq },
        request,
        digest,
        this.#nowMs,
        (last) => {
          this.expect(task.token).toBeGreaterThan(last);
          return task.token;
        },
      );
      this.#records.set(record.id, record);
      this.#grants.push(grantOf(task));
      const { scheduledAt, remainingMs, ...decided } = outcome;
      this.expect(task).toMatchObject(decided);
    }
  }

  /** Which tasks may have been taken: those that come first, or, where there are keys, some of those that may run. */
  #taken(request: ClaimRequest, claimed: readonly Held[]): TaskRecord[] {
    const ids = claimed.map(({ id }) => id);
    const due = this.#due(request);
    if (!due.some(({ concurrency }) => concurrency)) {
      this.expect(ids).toEqual(due.map(({ id }) => id));
      return due;
    }
    const taken: TaskRecord[] = [];
    // In the order of their numbers, which is that of a key.
    for (const record of this.#records.values()) {
      if (!ids.includes(record.id)) continue;
      this.expect(this.#mayRun(record, request, taken)).toBe(true);
      taken.push(record);
    }
    this.expect(taken).toHaveLength(ids.length);
    return ids.map((id) => this.#records.get(id) as TaskRecord);
  }

  /** One after the other: each may make place for the next of its key. */
  #due(request: ClaimRequest): TaskRecord[] {
    const due: TaskRecord[] = [];
    while (due.length < request.limit) {
      const [next] = [...this.#records.values()]
        .filter((record) => !due.includes(record) && this.#mayRun(record, request, due))
        .sort((a, b) => a.priority - b.priority || a.scheduledAtMs - b.scheduledAtMs);
      if (!next) break;
      due.push(next);
    }
    return due;
  }

  /** Beside those that run, and those that the claim has taken. */
  #mayRun(
    record: TaskRecord,
    { queues, kinds }: ClaimRequest,
    taken: readonly TaskRecord[],
  ): boolean {
    if (!isClaimable(record, this.#nowMs) || !queues.includes(record.queue)) return false;
    if (kinds && !kinds.includes(record.kind)) return false;
    const declared = record.concurrency;
    if (!declared) return true;
    const ofKey = [...this.#records.values()].filter(
      ({ queue, kind, concurrency }) =>
        queue === record.queue && kind === record.kind && concurrency?.key === declared.key,
    );
    const running = ofKey.filter((one) => one.state === "running" || taken.includes(one));
    if (running.length >= declared.perKey) return false;
    if (declared.order === "any") return true;
    const pending = ofKey.filter((one) => one.state === "pending" && !taken.includes(one));
    return headOfKey({ pending, running: [], declared }, this.#nowMs) === record;
  }

  /** Simulates dead workers: their leases expire. All other leases outlast the walk. */
  async #crash(): Promise<void> {
    const { fixture } = this;
    const ttlMs = fixture.shortTtlMs;
    const request = fixture.claimRequest({ queues: ["x", "y"], limit: 2, ttlMs });
    const claimed = await fixture.claim(request);
    this.#claimed(request, claimed);
    await fixture.pass(ttlMs);
    this.#nowMs += ttlMs;
    await fixture.reap(...claimed);
    for (const { id } of claimed) {
      const decision = operators.reap(this.#records.get(id) as TaskRecord, this.#nowMs);
      if (decision) this.#records.set(id, decision.record);
      const { state, crashes } = await fixture.view({ id });
      this.expect({ state, crashes }).toEqual({
        state: decision?.outcome.state,
        crashes: decision?.record.crashes,
      });
    }
  }

  async #heartbeat(): Promise<void> {
    const requests = this.#someGrants().map((grant) => ({
      ...grant,
      ttlMs: LONG_TTL_MS,
      progress: this.#nowMs,
    }));
    const outcomes = await this.fixture.heartbeatAll(requests);
    this.#each(requests, outcomes, (request, record) =>
      rules.heartbeat(record, request, this.#nowMs),
    );
  }

  async #complete(): Promise<void> {
    const requests = this.#someGrants().map((grant) => ({ ...grant, output: this.#nowMs }));
    const outcomes = await this.fixture.completeAll(requests);
    this.#each(requests, outcomes, (request, record) =>
      rules.complete(record, request, this.#nowMs),
    );
  }

  async #fail(): Promise<void> {
    const requests = this.#someGrants().map((grant) => ({
      ...grant,
      error: `at ${this.#nowMs}`,
      retryInMs: this.#choose.pick([0, 0, HOUR_MS]),
      final: this.#choose.chance(0.1),
    }));
    const outcomes = await this.fixture.failAll(requests);
    this.#each(requests, outcomes, (request, record) =>
      rules.fail(record, request, this.#nowMs, 0),
    );
  }

  async #requeue(): Promise<void> {
    const requests = this.#someGrants();
    const outcomes = await this.fixture.requeueAll(requests);
    this.#each(requests, outcomes, (request, record) =>
      rules.requeue(record, request, this.#nowMs),
    );
  }

  async #cancel(): Promise<void> {
    const keys = this.#someTasks();
    const outcomes = await this.fixture.cancelAll(keys);
    this.#each(keys, outcomes, (_, record) => operators.cancel(record, this.#nowMs));
  }

  async #retry(): Promise<void> {
    const keys = this.#someTasks();
    const outcomes = await this.fixture.retryAll(keys);
    this.#each(keys, outcomes, (_, record) =>
      operators.retry(record, record && this.#rival(record), this.#nowMs),
    );
  }

  async #delete(): Promise<void> {
    const keys = this.#someTasks();
    for (const [{ id }, outcome] of zip(keys, await this.fixture.deleteAll(keys))) {
      const state = this.#records.get(id)?.state;
      if (state === undefined) this.expect(outcome).toEqual({ status: "unknown" });
      else if (state === "running") this.expect(outcome).toEqual({ status: "conflict", state });
      else {
        this.expect(outcome).toEqual({ status: "ok", state });
        this.#records.delete(id);
      }
    }
  }

  /** Every task is there, in the state in which the rules have it. */
  async compareAll(): Promise<void> {
    const { store, namespace } = this.fixture;
    const records = [...this.#records.values()];
    const counts = Object.fromEntries(TASK_STATES.map((state) => [state, 0]));
    for (const { state } of records) counts[state] = (counts[state] ?? 0) + 1;
    this.expect(await store.counts(namespace)).toEqual(counts);
    const grants = records.toReversed().flatMap(({ id, earlier, last }) =>
      (last ? [...earlier, last] : []).reverse().map(({ token, ttlMs, result }) => ({
        resource: `task:${id}`,
        token,
        ttlMs,
        state: taskLeaseState(result, true),
      })),
    );
    const leases = await this.fixture.leases({ limit: 10 });
    this.expect(leases).toMatchObject(grants);
    this.expect(leases).toHaveLength(grants.length);
    for (const record of records) {
      const { last } = record;
      const view = await this.fixture.view(record);
      this.expect(view).toMatchObject({
        state: record.state,
        data: JSON.parse(record.data) as unknown,
        output: JSON.parse(record.output) as unknown,
        error: record.error,
        progress: last && (JSON.parse(last.progress) as unknown),
        failures: record.failures,
        crashes: record.crashes,
        attempt: last?.attempt ?? 0,
        holder: last && last.holder,
        token: last && last.token,
        grantId: last && grantIdOf(last.leaseId),
      });
      const facts = (list: readonly { attempt: number; token: number; result: string | null }[]) =>
        list.map(({ attempt, token, result }) => ({ attempt, token, result }));
      this.expect(facts(view.attempts)).toEqual(facts(last ? [...record.earlier, last] : []));
    }
  }

  /** Decides each request by the rules, in order, and compares. */
  #each<Request extends TaskKey>(
    requests: readonly Request[],
    outcomes: readonly { readonly status: string }[],
    decide: (
      request: Request,
      record: TaskRecord | null,
    ) => { readonly record: TaskRecord | null; readonly outcome: { readonly status: string } },
  ): void {
    for (const [index, request] of requests.entries()) {
      const decision = decide(request, this.#records.get(request.id) ?? null);
      if (decision.record) this.#records.set(request.id, decision.record);
      this.expect(timeless(outcomes[index])).toEqual(timeless(decision.outcome));
    }
  }

  #rival({ id, kind, dedupeKey }: Pick<NewTask, "id" | "kind" | "dedupeKey">): TaskRecord | null {
    if (dedupeKey === null) return null;
    const rivals = [...this.#records.values()].filter(
      (record) =>
        record.id !== id &&
        record.kind === kind &&
        record.dedupeKey === dedupeKey &&
        isUnfinished(record.state),
    );
    this.expect(rivals.length).toBeLessThanOrEqual(1);
    return rivals[0] ?? null;
  }

  #someGrants(): TaskGrant[] {
    return this.#grants.length === 0 ? [] : this.#choose.some(3, () => this.#anyGrant());
  }

  /** A recent one rather than an old one. */
  #anyGrant(): TaskGrant {
    return this.#choose.pick(this.#choose.chance(0.7) ? this.#grants.slice(-6) : this.#grants);
  }

  #someTasks(): TaskKey[] {
    return this.#records.size === 0 ? [] : this.#choose.some(3, () => this.#anyTask());
  }

  #anyTask(): TaskKey {
    return this.fixture.key(this.#choose.pick([...this.#records.keys()]));
  }
}

function timeless(outcome: object | undefined): object {
  const { expiresAt, remainingMs, retryInMs, ...facts } = (outcome ?? {}) as Record<
    string,
    unknown
  >;
  return facts;
}
