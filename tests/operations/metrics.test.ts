/** Each metric, caused and then read as Prometheus reads it: of a server, and of clients beside it. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StoreUnavailableError } from "../../packages/leasehold/src/core/index.js";
import { METRICS, type MetricName, newLeaseId } from "../../packages/leasehold/src/env/index.js";
import { systemRandom } from "../../packages/leasehold/src/env/random.js";
import { memoryGuard } from "../../packages/leasehold/src/fence/index.js";
import {
  connect,
  defineTask,
  openStores,
  type Stores,
} from "../../packages/leasehold/src/index.js";
import { startOpenTelemetry } from "../../packages/leasehold-server/src/cli/open-telemetry.js";
import { prometheusName } from "../../packages/leasehold-server/src/cli/prometheus.js";
import {
  createApp,
  type Listening,
  listen,
} from "../../packages/leasehold-server/src/http/index.js";
import { parseMetrics, type Sample, valueOf } from "../support/metrics.js";

/** It must not be found in any metric. */
const CANARY = "canary-5f1c";
const resource = (name: string) => `orders/${CANARY}-${name}`;

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

/** The object, but for some of its methods. */
function instead<T extends object>(object: T, own: Readonly<Record<string, unknown>>): T {
  return new Proxy(object, {
    get(target, key) {
      if (typeof key === "string" && key in own) return own[key];
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

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
      version: "test",
    });
    const get = () => small.fetch(new Request("http://localhost/v1/locks"));
    const listing = get();
    await asked;
    const work = async () => expect((await get()).status).toBe(429);
    expect(await moved(work, ["leasehold_server_refused_total"])).toEqual([1]);
    answer();
    await listing;
    await small.close();
  });

  it("answers 501 in an app without metrics", async () => {
    const app = createApp({ ...stores, version: "test" });
    const response = await app.fetch(new Request("http://localhost/metrics"));
    const { code } = (await response.json()) as { code: string };
    expect([response.status, code]).toEqual([501, "NO_METRICS"]);
    await app.close();
  });
});

it("samples tasks by state, the oldest grant and the generator when first asked, and not each time", async () => {
  const kept = await startOpenTelemetry();
  const memory = await openStores("memory:sampled");
  let counts = 0;
  const tasks = instead(memory.tasks, {
    counts(namespace: string) {
      counts += 1;
      return memory.tasks.counts(namespace);
    },
  });
  const app = createApp({
    ...memory,
    tasks,
    version: "test",
    env: { telemetry: kept.telemetry },
  });
  const post = (path: string, body: object) =>
    app.fetch(
      new Request(`http://localhost${path}`, {
        method: path.endsWith("rate") ? "PUT" : "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
  await post("/api/tasks", { task_data: {} });
  await post("/api/generator/start", {});
  await post("/v1/locks/acquire", { resource: "r", ownerId: "o", ttlMs: 60_000 });
  // It is older than nothing once the clock has moved on.
  const grantedMs = Date.now();
  while (Date.now() < grantedMs + 5) await new Promise((resolve) => setTimeout(resolve, 1));
  for (let scrapes = 0; scrapes < 3; scrapes += 1) {
    const samples = parseMetrics(await kept.metrics());
    expect(valueOf(samples, "leasehold_task_depth", { state: "pending" })).toBe(1);
    expect(valueOf(samples, "leasehold_generator_rate_per_second")).toBe(1);
    expect(valueOf(samples, "leasehold_lease_held_age_max_seconds")).toBeGreaterThan(0);
  }
  expect(counts).toBe(1);
  await app.close();
  await memory.close();
  await kept.close();
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
    expect(valueOf(samples, "leasehold_election_terms_total", { of: "elector" })).toBe(3);
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
    const seen = new Set((await scrapeAll()).map(({ name }) => name));
    for (const name of Object.keys(METRICS) as MetricName[]) {
      expect(seen, name).toContain(sampleNameOf(name));
    }
  });

  it("have exactly the labels of the catalogue, and contain no resource names", async () => {
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
        else if (label === "prefix") expect(["orders", "other"]).toContain(value);
        else expect(value).toMatch(/^([A-Z]+|\d{3})$/);
      }
      expect(JSON.stringify(labels)).not.toContain(CANARY);
    }
  });

  it("tell no series more, whatever is leased", async () => {
    const seriesOf = async () =>
      new Set((await scrape()).map(({ name, labels }) => name + JSON.stringify(labels))).size;
    for (let n = 0; n < 5; n += 1) await take(`warm-${n}`);
    const before = await seriesOf();
    for (let n = 0; n < 50; n += 1) {
      await ask("POST", "/v1/locks/acquire", {
        resource: `p${n}/${newLeaseId(systemRandom)}`,
        ownerId: `o${n}`,
        ttlMs: 1_000,
      });
    }
    expect(await seriesOf()).toBe(before);
  });
});

it("docs/observability.md says of each metric what the catalogue says", async () => {
  const page = await readFile(new URL("../../docs/observability.md", import.meta.url), "utf8");
  for (const name of Object.keys(METRICS) as MetricName[]) expect(page).toContain(rowOf(name));
});

const KINDS = { counter: "counter", total: "counter", upDown: "gauge" } as const;

function rowOf(name: MetricName): string {
  const { kind, unit, about, labels } = METRICS[name];
  const shown = Object.entries(labels as Record<string, readonly string[] | null>).map(
    ([label, values]) => {
      const listed = values ? `: ${values.map((value) => `\`${value}\``).join(" ")}` : "";
      return `\`${label.replaceAll(".", "_")}\`${listed}`;
    },
  );
  const type = kind in KINDS ? KINDS[kind as keyof typeof KINDS] : kind;
  return `| \`${name}\` | \`${prometheusBase(name)}\` | ${type} | ${unit.replaceAll(/[{}]/g, "")} | ${shown.join("; ") || "-"} | ${about} |`;
}

async function routes(): Promise<Record<string, unknown>> {
  return (await ask("GET", "/openapi.json")).body.paths;
}

function prometheusBase(name: MetricName): string {
  const { kind, unit } = METRICS[name];
  return prometheusName(name, unit, kind === "counter" || kind === "total");
}

function sampleNameOf(name: MetricName): string {
  return prometheusBase(name) + (METRICS[name].kind === "histogram" ? "_count" : "");
}
