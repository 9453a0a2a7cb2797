/** A seeded walk of random calls, made to the store and to the rules: both must answer the same. */
import { claimDigestOf, grantIdOf, newLeaseId, zip } from "../../env/index.js";
import { taskLeaseState } from "../../tasks/leases.js";
import {
  type ClaimRequest,
  type NewTask,
  TASK_STATES,
  type TaskGrant,
  type TaskKey,
} from "../../tasks/port.js";
import { isClaimable, isUnfinished, type TaskRecord } from "../../tasks/record.js";
import * as rules from "../../tasks/rules.js";
import type { Expect } from "../framework.js";
import { seededRandom } from "../manual-clock.js";
import {
  type Fixture,
  grantOf,
  type Held,
  LONG_TTL_MS,
  numberOf,
  type Section,
} from "./fixture.js";

const HOUR_MS = 3_600_000;
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
  readonly #random: ReturnType<typeof seededRandom>;
  /** The model's clock only has to run: the walk waits for nothing but the expiry of leases. */
  #nowMs = 0;

  constructor(
    readonly fixture: Fixture,
    readonly expect: Expect,
    seed: number,
  ) {
    this.#random = seededRandom(seed);
  }

  async step(): Promise<void> {
    // Times order the queue: a store's clock that stands still must be moved.
    await this.fixture.opened.advance?.(1);
    this.#nowMs += 1;
    const at = this.#random.float();
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
    const tasks = this.#some(4, () =>
      this.#chance(0.1) && this.#records.size > 0
        ? this.fixture.newTask({ id: this.#anyTask().id })
        : this.fixture.newTask({
            kind: this.#pick(["a", "b"]),
            queue: this.#pick(["x", "y"]),
            priority: this.#pick([-1, 0, 1]),
            data: this.#nowMs,
            dedupeKey: this.#pick([null, null, "k", "l"]),
            maxAttempts: this.#pick([1, 2, 3]),
            crashLimit: this.#pick([1, 2]),
          }),
    );
    const outcomes = await this.fixture.enqueue(tasks);
    this.#each(tasks, outcomes, (task, record) =>
      rules.enqueue(record, this.#rival(task), task, this.#nowMs, 0),
    );
  }

  async #claim(): Promise<void> {
    const again = this.#claims.length > 0 && this.#chance(0.2);
    const request = again
      ? this.#pick(this.#claims)
      : this.fixture.claimRequest({
          claimId: newLeaseId(this.#random),
          queues: this.#pick([["x"], ["y"], ["x", "y"]]),
          kinds: this.#pick([null, null, ["a"], ["a", "b"]]),
          limit: this.#pick([1, 2, 5]),
        });
    const claimed = await this.fixture.claim(request);
    const digest = claimDigestOf(request.claimId);
    if (again) {
      const own = [...this.#records.values()].filter((record) =>
        rules.claimAgain(record, digest, this.#nowMs),
      );
      this.expect(claimed.map(({ id }) => id).sort()).toEqual(own.map(({ id }) => id).sort());
    } else {
      this.#claimed(request, claimed);
      if (claimed.length > 0) this.#claims.push(request);
    }
  }

  #claimed(request: ClaimRequest, claimed: readonly Held[]): void {
    const { queues, kinds, limit } = request;
    const digest = claimDigestOf(request.claimId);
    const due = [...this.#records.values()]
      .filter((record) => isClaimable(record, this.#nowMs))
      .filter(({ queue, kind }) => queues.includes(queue) && (!kinds || kinds.includes(kind)))
      .sort((a, b) => a.priority - b.priority || a.scheduledAtMs - b.scheduledAtMs)
      .slice(0, limit);
    this.expect(claimed.map(({ id }) => id)).toEqual(due.map(({ id }) => id));
    for (const [task, before] of zip(claimed, due)) {
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
      const decision = rules.reap(this.#records.get(id) as TaskRecord, this.#nowMs);
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
      retryInMs: this.#pick([0, 0, HOUR_MS]),
      final: this.#chance(0.1),
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
    this.#each(keys, outcomes, (_, record) => rules.cancel(record, this.#nowMs));
  }

  async #retry(): Promise<void> {
    const keys = this.#someTasks();
    const outcomes = await this.fixture.retryAll(keys);
    this.#each(keys, outcomes, (_, record) =>
      rules.retry(record, record && this.#rival(record), this.#nowMs),
    );
  }

  async #delete(): Promise<void> {
    const keys = this.#someTasks();
    for (const [{ id }, outcome] of zip(keys, await this.fixture.deleteAll(keys))) {
      const state = this.#records.get(id)?.state;
      const status =
        state === undefined ? "unknown" : state === "running" ? "conflict" : ("ok" as const);
      this.expect(outcome).toEqual({ status, ...(state !== undefined && { state }) });
      if (status === "ok") this.#records.delete(id);
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
    return this.#grants.length === 0 ? [] : this.#some(3, () => this.#anyGrant());
  }

  /** A recent one rather than an old one. */
  #anyGrant(): TaskGrant {
    return this.#pick(this.#chance(0.7) ? this.#grants.slice(-6) : this.#grants);
  }

  #someTasks(): TaskKey[] {
    return this.#records.size === 0 ? [] : this.#some(3, () => this.#anyTask());
  }

  #anyTask(): TaskKey {
    return this.fixture.key(this.#pick([...this.#records.keys()]));
  }

  #some<T>(most: number, make: () => T): T[] {
    return Array.from({ length: 1 + Math.floor(this.#random.float() * most) }, make);
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random.float() * list.length)] as T;
  }

  #chance(ratio: number): boolean {
    return this.#random.float() < ratio;
  }
}

function timeless(outcome: object | undefined): object {
  const { expiresAt, remainingMs, retryInMs, ...facts } = (outcome ?? {}) as Record<
    string,
    unknown
  >;
  return facts;
}
