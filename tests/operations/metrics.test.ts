/** Each metric, caused and then read as Prometheus reads it: of a server, and of clients beside it. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { METRICS, type MetricName } from "../../packages/leasehold/src/env/index.js";
import { memoryGuard } from "../../packages/leasehold/src/fence/index.js";
import {
  connect,
  defineTask,
  openStores,
  type Stores,
} from "../../packages/leasehold/src/index.js";
import { StoreUnavailableError } from "../../packages/leasehold/src/lease/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { startOpenTelemetry } from "../../packages/leasehold-server/src/cli/open-telemetry.js";
import {
  createApp,
  type Listening,
  listen,
} from "../../packages/leasehold-server/src/http/index.js";
import {
  parseMetrics,
  prometheusBase,
  type Sample,
  sampleNameOf,
  valueOf,
} from "../support/server/metrics.js";
import { instead } from "../support/worlds/instead.js";

/** Of holders, task kinds and data, none of which may be found in any metric. */
const CANARY = "canary-5f1c";
const resource = (name: string) => `orders/${name}`;

/** Labels that carry the names with the largest counts. */
const NAMED = new Set(["prefix", "resource", "election"]);

let stores: Stores;
let server: Listening;
let own: Awaited<ReturnType<typeof startOpenTelemetry>>;
let clients: Awaited<ReturnType<typeof startOpenTelemetry>>;
/** While set, the store behind the server fails. */
let away = false;
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  own = await startOpenTelemetry();
  clients = await startOpenTelemetry();
  stores = await openStores("memory:metrics");
  const { leases } = stores;
  const failing = async () => {
    throw new StoreUnavailableError("away", { outcome: "none" });
  };
  const unless = (method: "acquire" | "renew" | "release" | "revoke") => ({
    [method]: (...given: never[]) =>
      away ? failing() : (leases[method] as (...given: never[]) => unknown).apply(leases, given),
  });
  const app = createApp({
    ...stores,
    leases: instead(leases, {
      ...unless("acquire"),
      ...unless("renew"),
      ...unless("release"),
      ...unless("revoke"),
    }),
    env: { telemetry: own.telemetry },
    metrics: own.metrics,
    auth: "ifAny",
    version: "test",
  });
  server = await listen({ app, port: 0 });
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
  await server.close();
  await stores.close();
  await Promise.all([own.close(), clients.close()]);
});

async function ask(method: string, path: string, body?: unknown) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text, body: text.startsWith("{") ? JSON.parse(text) : null };
}
const scrape = async () => parseMetrics((await ask("GET", "/metrics")).text);
/** By how much the work moved a metric of the server. */
async function moved(
  work: () => Promise<unknown>,
  ...metrics: (readonly [name: string, labels?: Sample["labels"]])[]
): Promise<number[]> {
  const before = await scrape();
  await work();
  const after = await scrape();
  return metrics.map(
    ([name, labels]) => valueOf(after, name, labels) - valueOf(before, name, labels),
  );
}

const take = (name: string, ownerId = `${CANARY}-holder`) =>
  ask("POST", "/v1/locks/acquire", { resource: resource(name), ownerId, ttlMs: 1_000 });
const open = async () => {
  const leases = await connect("memory:metrics-clients", {
    env: { telemetry: clients.telemetry },
    defaults: { ttlMs: 1_000 },
  });
  ends.push(() => leases.close());
  return leases;
};
const scrapeClients = async () => parseMetrics(await clients.metrics());

describe("a server's", () => {
  it("attempts to acquire by outcome, which is contention too", async () => {
    const attempts = "leasehold_lease_acquire_attempts_total";
    const work = async () => {
      const { body } = await take("a");
      for (let again = 0; again < 4; again += 1) await take("a", "other");
      await ask("DELETE", `/v1/locks/${body.leaseId}`);
      // The id of a grant that has ended names no other.
      const ended = { resource: resource("a"), ownerId: "x", leaseId: body.leaseId, ttlMs: 1_000 };
      await ask("POST", "/v1/locks/acquire", ended);
      away = true;
      await take("a");
      away = false;
    };
    const counts = await moved(
      work,
      [attempts, { outcome: "acquired" }],
      [attempts, { outcome: "held" }],
      [attempts, { outcome: "ended" }],
      [attempts, { outcome: "failed" }],
      ["leasehold_lease_contended_total", { prefix: "orders" }],
      ["leasehold_lease_release_attempts_total", { outcome: "released" }],
    );
    expect(counts).toEqual([1, 4, 1, 1, 4, 1]);
  });

  it("renewals by outcome, losses by reason, revokes, and what is in danger", async () => {
    const renewals = "leasehold_lease_renew_attempts_total";
    const work = async () => {
      const { body } = await take("b");
      const renew = () => ask("POST", `/v1/locks/${body.leaseId}/renew`, { ttlMs: 1_000 });
      await renew();
      away = true;
      await renew();
      await renew();
      const revoke = () =>
        ask("POST", "/v1/leases/revoke", [{ resource: resource("b"), free: "now" }]);
      away = false;
      await revoke();
      await revoke();
      await renew();
    };
    const counts = await moved(
      work,
      [renewals, { outcome: "renewed" }],
      [renewals, { outcome: "failed" }],
      [renewals, { outcome: "lost" }],
      ["leasehold_lease_losses_total", { reason: "revoked" }],
      ["leasehold_lease_revokes_total", { outcome: "revoked" }],
      ["leasehold_lease_revokes_total", { outcome: "notHeld" }],
      ["leasehold_lease_endangered_total", { prefix: "orders" }],
    );
    expect(counts).toEqual([1, 2, 1, 1, 1, 1, 3]);
  });

  it("contention and terms by the whole name, also of a resource without a prefix", async () => {
    const elections = await connect(server.url);
    ends.push(() => elections.close());
    const work = async () => {
      const [name, ttlMs] = ["alone", 1_000];
      for (const ownerId of ["a", "b", "c"]) {
        await ask("POST", "/v1/locks/acquire", { resource: name, ownerId, ttlMs });
      }
      const over = new AbortController();
      let terms = 0;
      const elector = elections.elector("tenant:billing:leader", { retryDelayMs: 0 });
      await elector.lead(
        async () => {
          terms += 1;
          if (terms === 3) over.abort();
        },
        { signal: over.signal },
      );
    };
    const counts = await moved(
      work,
      ["leasehold_lease_contended_total", { prefix: "alone" }],
      ["leasehold_resource_contended_total", { resource: "alone" }],
      ["leasehold_election_terms_total", { election: "tenant:billing:leader" }],
    );
    expect(counts).toEqual([2, 2, 3]);
  });

  it("time left and delay of renewals, also of one that comes too late", async () => {
    const left = "leasehold_lease_renew_left_seconds";
    const delay = "leasehold_lease_renew_delay_seconds";
    const work = async () => {
      const { body } = await take("late");
      const renew = () => ask("POST", `/v1/locks/${body.leaseId}/renew`, { ttlMs: 1_000 });
      expect((await renew()).status).toBe(200);
      // Past its expiry.
      const dueMs = Date.now() + 1_100;
      while (Date.now() < dueMs) await new Promise((resolve) => setTimeout(resolve, 10));
      expect((await renew()).status).toBe(409);
    };
    const [renewals, atOnce, expired, delays = 0] = await moved(
      work,
      [`${left}_count`],
      [`${left}_bucket`, { le: "1" }],
      [`${left}_bucket`, { le: "0.001" }],
      [`${delay}_sum`],
    );
    expect([renewals, atOnce, expired]).toEqual([2, 2, 1]);
    expect(delays).toBeGreaterThan(0.7);
  });

  it("release failures", async () => {
    const { body } = await take("c");
    const work = async () => {
      away = true;
      await ask("DELETE", `/v1/locks/${body.leaseId}`);
      away = false;
    };
    const failed = ["leasehold_lease_release_attempts_total", { outcome: "failed" }] as const;
    expect(await moved(work, failed)).toEqual([1]);
  });

  it("expired leases reclaimed, and how long grants were held", async () => {
    const work = async () => {
      await take("d");
      for (let got = false; !got; ) got = (await take("d", "next")).body.acquired;
    };
    const [reclaimed, held = 0] = await moved(
      work,
      ["leasehold_lease_reclaimed_total"],
      ["leasehold_lease_hold_duration_seconds_sum", { ended: "expired" }],
    );
    expect(reclaimed).toBe(1);
    expect(held).toBeCloseTo(1, 1);
  });

  it("calls to the stores by operation", async () => {
    const calls = "leasehold_store_duration_seconds_count";
    const work = async () => {
      await take("e");
      await ask("POST", "/api/tasks", { task_data: {} });
    };
    const counts = await moved(
      work,
      [calls, { store: "leases", operation: "acquire", outcome: "ok" }],
      [calls, { store: "tasks", operation: "enqueue", outcome: "ok" }],
    );
    expect(counts).toEqual([1, 1]);
    const samples = await scrape();
    expect(valueOf(samples, calls, { outcome: "failed" })).toBeGreaterThan(0);
  });

  it("limits of kinds, and keys that keep tasks back", async () => {
    const limit = { scope: "kind", name: "metered", running: 3 };
    expect((await ask("PUT", "/v1/tasks/limits", limit)).status).toBe(200);
    const task = { kind: "metered", queue: "metered", task_data: 1, concurrency: { key: CANARY } };
    for (let n = 0; n < 2; n += 1) await ask("POST", "/api/tasks", task);
    const claim = { processor: "w", queues: ["metered"], limit: 5 };
    expect((await ask("POST", "/api/tasks/next", claim)).status).toBe(200);
    const metered = { limit: "kind metered" };
    const gauges = async () => {
      const samples = await scrape();
      return [
        valueOf(samples, "leasehold_task_limit_running", metered),
        valueOf(samples, "leasehold_task_limit_most", metered),
        valueOf(samples, "leasehold_task_keys_blocked"),
      ];
    };
    // A sample may be from before.
    await vi.waitFor(async () => expect(await gauges()).toEqual([1, 3, 1]), {
      timeout: 40_000,
      interval: 500,
    });
  }, 60_000);

  it("tasks by what happened to them, and how long they waited and ran", async () => {
    const processor = `${CANARY}-holder`;
    const next = async () => (await ask("POST", "/api/tasks/next", { processor })).body?.tasks[0];
    const grantOf = ({ leaseId, fencingToken }: { leaseId: string; fencingToken: number }) => ({
      processor,
      leaseId,
      fencingToken,
    });
    const work = async () => {
      const enqueue = { task_data: { canary: CANARY }, dedupeKey: CANARY };
      await ask("POST", "/api/tasks", enqueue);
      await ask("POST", "/api/tasks", enqueue);
      for (let task = await next(); task; task = await next()) {
        const path = `/api/tasks/${task.id}/complete`;
        const done = await ask("PUT", path, { ...grantOf(task), task_output: 1 });
        expect(done.status).toBeLessThan(300);
      }
    };
    const events = "leasehold_task_events_total";
    const [enqueued, duplicate, claimed = 0, completed = 0, waited, ran] = await moved(
      work,
      [events, { event: "enqueued" }],
      [events, { event: "duplicate" }],
      [events, { event: "claimed" }],
      [events, { event: "completed" }],
      ["leasehold_task_wait_duration_seconds_count"],
      ["leasehold_task_run_duration_seconds_count", { outcome: "completed" }],
    );
    expect([enqueued, duplicate]).toEqual([1, 1]);
    expect(claimed).toBeGreaterThan(0);
    expect([completed, waited, ran]).toEqual([claimed, claimed, claimed]);
  });

  it("tasks that operators cancel and retry, one at a time or together", async () => {
    const enqueued = async () => (await ask("POST", "/api/tasks", { task_data: 1 })).body.id;
    const work = async () => {
      const [one, other] = [await enqueued(), await enqueued()];
      await ask("POST", `/api/tasks/${one}/cancel`);
      // Of the first, this is a repetition, and counts as well.
      await ask("POST", "/api/tasks/cancel", [one, other]);
      await ask("POST", `/api/tasks/${one}/retry`);
      const filter = { states: ["cancelled"] };
      const bulk = { operation: "retry", filter, reason: "mended" };
      expect((await ask("POST", "/api/tasks/bulk", bulk)).status).toBe(200);
      await ask("POST", "/api/tasks/cancel", [one, other]);
    };
    const events = "leasehold_task_events_total";
    const counts = await moved(
      work,
      [events, { event: "cancelled" }],
      [events, { event: "retried" }],
    );
    expect(counts).toEqual([5, 2]);
  });

  it("requests by route and status, never by path", async () => {
    const requests = "http_server_request_duration_seconds_count";
    const id = "01980000-0000-7000-8000-000000000000";
    const work = async () => {
      await ask("GET", `/api/tasks/${id}`);
      await ask("GET", `/nowhere/${CANARY}`);
    };
    const counts = await moved(
      work,
      [
        requests,
        {
          http_request_method: "GET",
          http_route: "/api/tasks/{id}",
          http_response_status_code: "404",
        },
      ],
      [requests, { http_route: "none", http_response_status_code: "404" }],
    );
    expect(counts).toEqual([1, 1]);
  });

  it("requests that an overloaded server refuses", async () => {
    const { leases } = stores;
    let [tell, answer] = [() => {}, () => {}];
    const asked = new Promise<void>((resolve) => {
      tell = resolve;
    });
    let isFirst = true;
    const list = async (query: Parameters<typeof leases.list>[0]) => {
      if (isFirst) {
        isFirst = false;
        await new Promise<void>((done) => {
          answer = done;
          tell();
        });
      }
      return leases.list(query);
    };
    const small = createApp({
      ...stores,
      leases: instead(leases, { list }),
      env: { telemetry: own.telemetry },
      limits: { inFlight: 1, lateMs: null },
      auth: "ifAny",
      version: "test",
    });
    const get = () =>
      small.fetch(new Request("http://localhost/v1/leases"), { remoteAddress: "127.0.0.1" });
    const listing = get();
    await asked;
    const work = async () => expect((await get()).status).toBe(429);
    const refused = "leasehold_server_refused_total";
    const counts = await moved(work, [refused], [refused, { reason: "capacity" }]);
    expect(counts).toEqual([1, 1]);
    answer();
    await listing;
    await small.close();
  });

  it("what a tenant asks too much of, how much of it is in use, and for how long", async () => {
    const { clock } = manualEnv();
    const { telemetry } = own;
    const small = createApp({
      ...stores,
      env: { telemetry, clock },
      limits: { waiters: 1 },
      auth: "ifAny",
      version: "test",
    });
    const claim = () =>
      small.fetch(
        new Request("http://localhost/api/tasks/next", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ processor: "p", queues: ["never"], waitMs: 20_000 }),
        }),
        { remoteAddress: "127.0.0.1" },
      );
    const waiting = claim();
    await clock.settle();
    const refuse = async () => expect((await claim()).status).toBe(429);
    const refused = "leasehold_server_refused_total";
    expect(await moved(refuse, [refused, { reason: "waits" }], [refused])).toEqual([1, 1]);
    await clock.advance(5_000);
    await refuse();
    const scraped = await scrape();
    expect(valueOf(scraped, "leasehold_server_used_ratio", { of: "waits" })).toBe(1);
    expect(valueOf(scraped, "leasehold_server_held_back_max_seconds")).toBe(5);
    await clock.advance(15_000);
    expect((await waiting).status).toBe(204);
    await small.close();
  });

  it("answers 501 in an app without metrics", async () => {
    const app = createApp({ ...stores, auth: "ifAny", version: "test" });
    const response = await app.fetch(new Request("http://localhost/metrics"), {
      remoteAddress: "127.0.0.1",
    });
    const { code } = (await response.json()) as { code: string };
    expect([response.status, code]).toEqual([501, "NO_METRICS"]);
    await app.close();
  });
});

describe("a client's", () => {
  it("leases held, their age, callers that wait, and how long callers asked", async () => {
    const leases = await open();
    const lease = await leases.acquire(resource("f"));
    const waiting = leases.acquire(resource("f"));
    let samples = await scrapeClients();
    expect(valueOf(samples, "leasehold_lease_held")).toBe(1);
    expect(valueOf(samples, "leasehold_lease_held_age_max_seconds")).toBeGreaterThan(0);
    expect(valueOf(samples, "leasehold_lease_waiters")).toBe(1);
    await lease.release();
    await (await waiting).release();
    expect(await (await open()).tryAcquire(resource("g"))).not.toBeNull();
    expect(await leases.tryAcquire(resource("g"))).toBeNull();
    samples = await scrapeClients();
    const asked = "leasehold_lease_acquire_duration_seconds_count";
    expect(valueOf(samples, asked, { outcome: "acquired" })).toBe(3);
    expect(valueOf(samples, asked, { outcome: "held" })).toBe(1);
    expect(valueOf(samples, "leasehold_lease_waiters")).toBe(0);
    const held = "leasehold_lease_hold_duration_seconds_count";
    expect(valueOf(samples, held, { ended: "released" })).toBe(2);
  });

  it("calls of once by their end", async () => {
    const leases = await open();
    for (let call = 0; call < 3; call += 1) await leases.once(resource("once"), () => null);
    const samples = await scrapeClients();
    const runs = "leasehold_once_runs_total";
    expect(valueOf(samples, runs, { outcome: "ran" })).toBe(1);
    expect(valueOf(samples, runs, { outcome: "answered" })).toBe(2);
  });

  it("fire times of schedules, with a task and without", async () => {
    const { tasks } = await open();
    // Its tasks wait, so that later fire times are skipped.
    await tasks.schedule(CANARY, { everyMs: 100, kind: "never", data: null });
    const worker = tasks.work([defineTask("other").handle(() => null)]);
    await vi.waitFor(async () =>
      expect(await tasks.schedules.get(CANARY)).toMatchObject({ fired: 1 }),
    );
    await vi.waitFor(async () => {
      expect((await tasks.schedules.get(CANARY))?.skipped).toBeGreaterThan(0);
    });
    await tasks.schedules.remove(CANARY);
    await worker.close();
    const samples = await scrapeClients();
    expect(valueOf(samples, "leasehold_schedule_delay_seconds_count")).toBe(1);
    expect(valueOf(samples, "leasehold_schedule_skipped_total")).toBeGreaterThan(0);
  });

  it("losses", async () => {
    const leases = await open();
    const lease = await leases.acquire(resource("h"), { renewIntervalMs: 20 });
    const lost = new Promise((resolve) => lease.onLost(resolve));
    await leases.revoke(resource("h"));
    expect(await lost).toBe("revoked");
    const samples = await scrapeClients();
    expect(valueOf(samples, "leasehold_lease_losses_total", { reason: "revoked" })).toBe(1);
    const held = "leasehold_lease_hold_duration_seconds_count";
    expect(valueOf(samples, held, { ended: "lost" })).toBe(1);
  });

  it("fencing refusals", async () => {
    const guard = memoryGuard({ telemetry: clients.telemetry });
    await guard.guard("r", 2, () => {});
    await expect(guard.guard("r", 1, () => {})).rejects.toThrow("2");
    expect(valueOf(await scrapeClients(), "leasehold_fence_refusals_total")).toBe(1);
  });

  it("terms of leaders", async () => {
    const elector = (await open()).elector(resource("i"), { retryDelayMs: 0 });
    const over = new AbortController();
    let terms = 0;
    await elector.lead(
      async () => {
        terms += 1;
        const leading = valueOf(await scrapeClients(), "leasehold_election_leading");
        expect(leading).toBe(1);
        if (terms === 3) over.abort();
      },
      { signal: over.signal },
    );
    const samples = await scrapeClients();
    const election = resource("i");
    expect(valueOf(samples, "leasehold_election_terms_total", { election })).toBe(3);
    expect(valueOf(samples, "leasehold_election_leading")).toBe(0);
  });

  it("tasks of workers", async () => {
    const tasksClient = await connect("memory:metrics-clients", {
      env: { telemetry: clients.telemetry },
    });
    const tasks = tasksClient.tasks;
    ends.push(() => tasksClient.close());
    const kind = defineTask(`${CANARY}-kind`);
    const worked = new Promise<void>((resolve) => {
      tasks.work([kind.handle(() => resolve())]);
    });
    await tasks.enqueue(kind, {});
    await worked;
    const hang = defineTask(`${CANARY}-hang`, { maxRunMs: 10, maxAttempts: 1 });
    tasks.work([hang.handle(() => new Promise(() => {}))], { graceMs: 10, maxAbandoned: 1 });
    await tasks.enqueue(hang, {});
    await expect
      .poll(async () => valueOf(await scrapeClients(), "leasehold_task_abandoned_total"))
      .toBe(1);
    await expect
      .poll(async () =>
        valueOf(await scrapeClients(), "leasehold_task_run_duration_seconds_count", {
          outcome: "completed",
        }),
      )
      .toBe(1);
  });
});

describe("all of them", () => {
  const scrapeAll = async () => [...(await scrape()), ...(await scrapeClients())];

  it("have been caused here", async () => {
    const samples = await scrapeAll();
    for (const name of Object.keys(METRICS) as MetricName[]) {
      // What there is now may be nothing.
      const least = ["gauge", "upDown"].includes(METRICS[name].kind) ? 0 : 1;
      const found = samples.filter((sample) => sample.name === sampleNameOf(name));
      expect(Math.max(-1, ...found.map(({ value }) => value)), name).toBeGreaterThanOrEqual(least);
    }
  });

  it("have exactly the labels of the catalogue, and name no holder and no task", async () => {
    const byName = new Map(
      (Object.keys(METRICS) as MetricName[]).map((name) => [
        prometheusBase(name),
        METRICS[name].labels as Readonly<Record<string, readonly string[] | null>>,
      ]),
    );
    const patterns = new Set(["none", ...Object.keys(await routes())]);
    for (const { name, labels } of await scrapeAll()) {
      const allowed = byName.get(name.replace(/_(bucket|sum|count)$/, ""));
      expect(allowed, name).toBeDefined();
      const { le, ...rest } = labels;
      const known = Object.fromEntries(
        Object.entries(allowed ?? {}).map(([label, values]) => [
          label.replaceAll(".", "_"),
          values,
        ]),
      );
      expect(Object.keys(rest).sort(), name).toEqual(Object.keys(known).sort());
      for (const [label, value] of Object.entries(rest)) {
        const values = known[label];
        if (values) expect(values, `${name} ${label}`).toContain(value);
        else if (label === "http_route") expect(patterns).toContain(value);
        else if (NAMED.has(label)) expect(value).toMatch(/^(|orders(\/.+)?|alone|tenant(:.+)?)$/);
        else if (label === "limit") expect(value).toBe("kind metered");
        else expect(value).toMatch(/^([A-Z]+|\d{3})$/);
      }
      expect(JSON.stringify(labels)).not.toContain(CANARY);
    }
  });

  it("have no more series, whatever is leased, and few names if it is contended", async () => {
    const series = async () => (await scrape()).filter(({ labels }) => !("http_route" in labels));
    const lease = (n: number, ownerId: string) =>
      ask("POST", "/v1/locks/acquire", { resource: `p${n}/x${n}`, ownerId, ttlMs: 5_000 });
    const before = (await series()).length;
    for (let n = 0; n < 50; n += 1) await lease(n, "first");
    expect(await series()).toHaveLength(before);
    for (let n = 0; n < 50; n += 1) await lease(n, "late");
    for (const name of ["leasehold_resource_contended_total", "leasehold_lease_contended_total"]) {
      const named = (await series()).filter((sample) => sample.name === name);
      // The top 20, those that were among them before, and the rest.
      expect(named.length, name).toBeLessThanOrEqual(30);
    }
  });
});

async function routes(): Promise<Record<string, unknown>> {
  return (await ask("GET", "/openapi.json")).body.paths;
}
