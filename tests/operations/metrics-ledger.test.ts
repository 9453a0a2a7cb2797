/**
 * Random operations with lost answers, repetitions and aborts: afterwards the metrics of a client, a worker and a
 * server say what the store and the callers say, and every gauge is back at zero.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  newLeaseId,
  systemEnv,
  systemRandom,
  taskIds,
} from "../../packages/leasehold/src/env/index.js";
import {
  connect,
  defineTask,
  type Lease,
  type Leasehold,
} from "../../packages/leasehold/src/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { TASK_STATES } from "../../packages/leasehold/src/tasks/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { startOpenTelemetry } from "../../packages/leasehold-server/src/cli/open-telemetry.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";
import { type Loss, type Lossy, lossy } from "../support/faults/lossy-stores.js";
import { repetitions } from "../support/runner/full.js";
import { parseMetrics, valueOf } from "../support/server/metrics.js";

const NAMESPACE = "default";
const RESOURCES = ["a", "b", "c"];
const logger = { debug() {}, info() {}, warn() {}, error() {} };
/** Of all runs of a test, in full tests on a busy machine. */
const LONGEST_MS = 600_000;
const RUNS = { numRuns: repetitions({ usual: 5, full: 60 }), endOnFailure: true };

const losses = fc.array(fc.constantFrom<Loss>("none", "none", "lost", "thrown", "refused"), {
  maxLength: 2,
});

/** Reads the sum of a metric's series with these labels. */
async function reader(exporting: Awaited<ReturnType<typeof startOpenTelemetry>>) {
  const samples = parseMetrics(await exporting.metrics());
  return (name: string, labels: Readonly<Record<string, string>> = {}) =>
    valueOf(samples, `leasehold_${name}`, labels);
}
type Read = Awaited<ReturnType<typeof reader>>;

class Tally {
  readonly #counts = new Map<string, number>();
  add(what: string): void {
    this.#counts.set(what, this.of(what) + 1);
  }
  of(what: string): number {
    return this.#counts.get(what) ?? 0;
  }
}

/** Each attempt that reached the store, by its outcome, as the store has written down. */
function attempts(read: Read): Record<string, number> {
  const all = {
    acquire: ["acquired", "held", "ended", "failed"],
    renew: ["renewed", "lost", "failed"],
    release: ["released", "notHeld", "failed"],
  };
  return Object.fromEntries(
    Object.entries(all).flatMap(([operation, outcomes]) =>
      outcomes.map((outcome) => [
        `${operation} ${outcome}`,
        read(`lease_${operation}_attempts_total`, { outcome }),
      ]),
    ),
  );
}
function answers({ answered }: Lossy, names: readonly string[]): Record<string, number> {
  return Object.fromEntries(names.map((name) => [name, answered.get(name) ?? 0]));
}

it(
  "the metrics of clients equal the ledgers of their callers",
  async () => {
    const step = fc.record({
      act: fc.constantFrom("try", "acquire", "abort", "renew", "release", "revoke", "run"),
      client: fc.nat(1),
      resource: fc.constantFrom(...RESOURCES),
      losses,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
        const exporting = await startOpenTelemetry({}, { collector: false });
        const behind = await memory().open(systemEnv);
        const store = lossy(behind);
        const env = { telemetry: exporting.telemetry };
        const open = () =>
          connect(
            { open: async () => ({ ...store.stores, close: async () => {} }) },
            { env, logger },
          );
        const clients = [await open(), await open()];
        const ledger = new Tally();
        const held: Lease[] = [];
        const waiting: { leaving: AbortController; end: Promise<void> }[] = [];
        const got = (lease: Lease | null) => {
          ledger.add(lease ? "acquired" : "held");
          if (!lease) return;
          held.push(lease);
          lease.onLost(() => ledger.add("lost"));
        };
        const failed = () => ledger.add("failed");

        const work = async (act: string, client: Leasehold, resource: string) => {
          const lease = held.find((each) => each.resource === resource);
          switch (act) {
            case "try":
              return client.tryAcquire(resource).then(got, failed);
            case "acquire": {
              const leaving = new AbortController();
              const { signal } = leaving;
              const end = client.acquire(resource, { signal }).then(got, failed);
              return void waiting.push({ leaving, end });
            }
            case "abort":
              return waiting[0]?.leaving.abort();
            case "renew":
              return lease?.renew().catch(() => {});
            case "release":
              return lease?.release().catch(() => {});
            case "revoke":
              return void (await client.revoke(resource).catch(() => {}));
            case "run": {
              const ran = await client.tryRun(resource, () => {}).catch(() => undefined);
              ledger.add(ran ? (ran.ran ? "acquired" : "held") : "failed");
            }
          }
        };
        for (const { act, client, resource, losses: drawn } of steps) {
          store.next(...drawn);
          await work(act, clients[client] as Leasehold, resource);
        }
        for (const { leaving } of waiting) leaving.abort();
        await Promise.all(waiting.map(({ end }) => end));
        await Promise.all(held.map((lease) => lease.release().catch(() => {})));
        for (const client of clients) await client.close();

        const read = await reader(exporting);
        const counted = attempts(read);
        expect(counted).toEqual(answers(store, Object.keys(counted)));
        expect(read("lease_contended_total")).toBe(counted["acquire held"]);
        const asked = "lease_acquire_duration_seconds_count";
        for (const outcome of ["acquired", "held", "failed"]) {
          expect(read(asked, { outcome }), outcome).toBe(ledger.of(outcome));
        }
        expect(read("lease_losses_total")).toBe(ledger.of("lost"));
        const ended = "lease_hold_duration_seconds_count";
        expect(read(ended, { ended: "lost" })).toBe(ledger.of("lost"));
        expect(read(ended)).toBe(ledger.of("acquired"));
        for (const gauge of ["lease_held", "lease_waiters", "election_leading"]) {
          expect(read(gauge), gauge).toBe(0);
        }
        expect(read("lease_held_age_max_seconds")).toBe(0);
        await behind.close();
        await exporting.close();
      }),
      RUNS,
    );
  },
  LONGEST_MS,
);

it(
  "the metrics of once equal what its callers got",
  async () => {
    const step = fc.record({
      act: fc.constantFrom("succeeds", "throws", "is late", "is unkept"),
      client: fc.nat(1),
      key: fc.constantFrom("a", "b", "c", "d"),
      maxAttempts: fc.integer({ min: 1, max: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 30 }), async (steps) => {
        const exporting = await startOpenTelemetry({}, { collector: false });
        const behind = memory();
        const env = { telemetry: exporting.telemetry };
        const clients = [
          await connect(behind, { env, logger }),
          await connect(behind, { env, logger }),
        ];
        const ledger = new Tally();
        for (const { act, client, key, maxAttempts } of steps) {
          const caller = clients[client] as Leasehold;
          let hasBegun = false;
          const work = async () => {
            hasBegun = true;
            if (act === "throws") throw new Error("no");
            if (act === "is late") await caller.revoke(`once:${key}`, { free: "now" });
            return act === "is unkept" ? 1n : 1;
          };
          await caller.once(key, { maxAttempts, waitMs: 0 }, work).then(
            ({ ran }) => ledger.add(ran ? "ran" : "answered"),
            ({ code }: { code?: string }) => {
              if (!hasBegun) ledger.add("refused");
              else if (code === "INVALID_OPTION") ledger.add("ran");
              else ledger.add(code === "LEASE_LOST" ? "lost" : "failed");
            },
          );
        }
        const read = await reader(exporting);
        for (const outcome of ["ran", "answered", "failed", "refused", "lost"]) {
          expect(read("once_runs_total", { outcome }), outcome).toBe(ledger.of(outcome));
        }
        for (const client of clients) await client.close();
        await exporting.close();
      }),
      RUNS,
    );
  },
  LONGEST_MS,
);

/** What the store says of its tasks, in the words of the metrics. */
async function taskEvents({ tasks }: Stores): Promise<Record<string, number>> {
  const { items } = await tasks.list({ namespace: NAMESPACE, limit: 1_000 });
  const details = await Promise.all(items.map(({ id }) => tasks.get({ namespace: NAMESPACE, id })));
  const attempts = details.flatMap((task) => task?.attempts ?? []);
  const ended = (result: string) => attempts.filter((attempt) => attempt.result === result).length;
  const inState = (state: string) => items.filter((task) => task.state === state).length;
  return {
    enqueued: items.length,
    claimed: attempts.length,
    completed: inState("done"),
    failed: ended("failed"),
    dead: inState("dead"),
    returned: ended("returned"),
    duplicate: 0,
    refused: 0,
    expired: 0,
  };
}
async function expectTaskEvents(read: Read, stores: Stores): Promise<void> {
  const said = await taskEvents(stores);
  const counted = Object.keys(said).map((event) => [event, read("task_events_total", { event })]);
  expect(Object.fromEntries(counted)).toEqual(said);
  expect(read("task_wait_duration_seconds_count")).toBe(said["claimed"]);
  const { running } = await stores.tasks.counts(NAMESPACE);
  expect(read("task_run_duration_seconds_count")).toBe((said["claimed"] ?? 0) - running);
}

it(
  "the metrics of a worker equal its handlers' ledger and the store",
  async () => {
    const script = fc.array(fc.constantFrom("completes", "dies"), {
      minLength: 4,
      maxLength: 10,
    });
    await fc.assert(
      fc.asyncProperty(script, fc.array(losses, { maxLength: 12 }), async (fates, drawn) => {
        const exporting = await startOpenTelemetry({}, { collector: false });
        const behind = await memory().open(systemEnv);
        const store = lossy(behind);
        const client = await connect(
          { open: async () => ({ ...store.stores, close: async () => {} }) },
          { env: { telemetry: exporting.telemetry }, logger },
        );
        const ledger = new Tally();
        const kind = defineTask<{ fate: string }>("fate", { maxAttempts: 1 });
        for (const fate of fates) await client.tasks.enqueue(kind, { fate });
        store.next(...drawn.flat());
        const worker = client.tasks.work([
          kind.handle(({ fate }) => {
            ledger.add("handled");
            if (fate === "dies") throw new Error(fate);
            ledger.add("completed");
            return null;
          }),
        ]);
        await until(expect, "all tasks have ended", async () => {
          const { pending, running } = await behind.tasks.counts(NAMESPACE);
          return pending + running === 0;
        });
        await worker.close();
        await client.close();

        const read = await reader(exporting);
        await expectTaskEvents(read, behind);
        const event = (name: string) => read("task_events_total", { event: name });
        expect(event("completed")).toBe(ledger.of("completed"));
        expect(event("completed") + event("failed")).toBe(ledger.of("handled"));
        expect(event("dead")).toBe(fates.filter((fate) => fate === "dies").length);
        await behind.close();
        await exporting.close();
      }),
      RUNS,
    );
  },
  LONGEST_MS,
);

it(
  "the metrics of a server equal its store, and its clients' ledgers of requests",
  async () => {
    const step = fc.record({
      act: fc.constantFrom("acquire", "renew", "release", "revoke", "enqueue", "claim", "report"),
      resource: fc.constantFrom(...RESOURCES),
      report: fc.constantFrom("complete", "fail", "return"),
      repeats: fc.boolean(),
      aborts: fc.boolean(),
      losses,
    });
    const newTaskId = taskIds(systemEnv.clock, systemRandom);
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 60 }), async (steps) => {
        const exporting = await startOpenTelemetry({}, { collector: false });
        const behind = await memory().open(systemEnv);
        const store = lossy(behind);
        const app = createApp({
          ...store.stores,
          env: { telemetry: exporting.telemetry },
          limits: { inFlight: 1, waiters: 1, lateMs: null },
          auth: "ifAny",
          version: "test",
        });
        const ledger = new Tally();
        /** Repeats the request until it is answered, as a client does, and sometimes once more. */
        const ask = async (
          { repeats, aborts }: { repeats: boolean; aborts: boolean },
          method: string,
          path: string,
          body: unknown,
        ) => {
          let hasLeft = false;
          for (let again = repeats ? 1 : 0; ; ) {
            const leaving = new AbortController();
            const request = new Request(`http://localhost${path}`, {
              method,
              headers: { "content-type": "application/json" },
              body: JSON.stringify(body),
              signal: leaving.signal,
            });
            const answering = app.fetch(request, { remoteAddress: "127.0.0.1" });
            // What has not begun then is not done: its repetition stays.
            if (aborts && !hasLeft) leaving.abort();
            hasLeft = true;
            const response = await answering;
            const text = await response.text();
            ledger.add(`${Math.floor(response.status / 100)}xx`);
            ledger.add("requests");
            const answer = text === "" ? null : JSON.parse(text);
            const unknown = response.status >= 500 || text.includes('"status":"failed"');
            if (!unknown && again-- <= 0) return answer;
          }
        };
        type Granted = { readonly leaseId: string };
        const held = new Map<string, Granted>();
        const lost = new Set<string>();
        type Task = {
          readonly id: string;
          readonly leaseId: string;
          readonly fencingToken: number;
        };
        const running: Task[] = [];
        for (const { act, resource, report, losses: drawn, ...how } of steps) {
          store.next(...drawn);
          const own = held.get(resource);
          if (act === "acquire") {
            const leaseId = toWireLeaseId(resource, newLeaseId(systemRandom));
            const body = [{ leaseId, holder: "h", ttlMs: 60_000 }];
            const [{ status }] = await ask(how, "POST", "/v1/leases/acquire", body);
            if (status === "acquired") held.set(resource, { leaseId });
          } else if (act === "renew" && own) {
            const body = [{ ...own, ttlMs: 60_000 }];
            const renew = () => ask(how, "POST", "/v1/leases/renew", body);
            const [{ status }] = await renew();
            if (status !== "lost") continue;
            lost.add(own.leaseId);
            await renew();
          } else if (act === "release" && own) {
            await ask(how, "POST", "/v1/leases/release", [own]);
            held.delete(resource);
          } else if (act === "revoke") {
            await ask(how, "POST", "/v1/locks/force-unlock", { resource, reason: "test" });
          } else if (act === "enqueue") {
            await ask(how, "POST", "/api/tasks", { task_data: 1, id: newTaskId(), maxAttempts: 2 });
          } else if (act === "claim") {
            const body = { processor: "w", claimId: newLeaseId(systemRandom) };
            const answer = await ask(how, "POST", "/api/tasks/next", body);
            if (answer) running.push(...answer.tasks);
          } else if (act === "report") {
            const task = running.pop();
            if (!task) continue;
            const { id, leaseId, fencingToken } = task;
            const body = { leaseId, fencingToken, ...(report === "fail" && { error: "no" }) };
            await ask(how, "PUT", `/api/tasks/${id}/${report}`, body);
          }
        }

        const read = await reader(exporting);
        const counted = attempts(read);
        expect(counted).toEqual(answers(store, Object.keys(counted)));
        expect(read("lease_contended_total")).toBe(counted["acquire held"]);
        expect(read("lease_losses_total")).toBe(lost.size);
        await expectTaskEvents(read, behind);
        for (const kind of ["2xx", "4xx", "5xx"]) {
          expect(read("server_responses_total", { class: kind }), kind).toBe(ledger.of(kind));
        }
        expect(read("server_refused_total")).toBe(0);
        const counts = await behind.tasks.counts(NAMESPACE);
        for (const state of TASK_STATES) expect(read("task_depth", { state })).toBe(counts[state]);
        const samples = parseMetrics(await exporting.metrics());
        const requests = "http_server_request_duration_seconds_count";
        expect(valueOf(samples, requests)).toBe(ledger.of("requests"));
        for (const gauge of ["lease_held", "lease_waiters", "election_leading"]) {
          expect(read(gauge), gauge).toBe(0);
        }
        await app.close();
        await behind.close();
        await exporting.close();
      }),
      RUNS,
    );
  },
  LONGEST_MS,
);
