/**
 * Each option on each path on which a user can give it: library, transaction, HTTP, command line. A value that is no default goes
 * in, and the record of the store shows it. The types name all options, so that a new one without a row here does not compile.
 */
import {
  connect,
  defineTask,
  type EnqueueTaskOptions,
  type KeyOptions,
  type Leasehold,
  type OnceOptions,
  openStores,
  type ScheduleOptions,
  type Stores,
  type WorkerOptions,
} from "leasehold";
import { newLeaseId, resourceOf, systemRandom } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { pglite } from "leasehold/stores/postgres";
import { createApp, type Listening, listen } from "leasehold-server";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { openPglite } from "../support/engines/pglite.js";
import { Cli, checkBuild, endAll, leasehold } from "../support/processes/cli.js";

const TIMEOUT_MS = 120_000;
const NAMESPACE = "default";

let db: Awaited<ReturnType<typeof openPglite>>;
let stores: Stores;
let app: ReturnType<typeof createApp>;
let server: Listening;
/** In the process of the store, and over HTTP. */
let near: Leasehold;
let far: Leasehold;

beforeAll(async () => {
  checkBuild();
  db = await openPglite();
  stores = await openStores(pglite({ db }));
  app = createApp({ ...stores, version: "test", auth: "none" });
  server = await listen({ app, port: 0 });
  near = await connect(pglite({ db }), { holder: "near" });
  far = await connect(server.url, { holder: "far" });
});
afterEach(() => endAll());
afterAll(async () => {
  await far?.close();
  await near?.close();
  await server?.close();
  await stores?.close();
  await db?.close();
});

async function ask(method: string, path: string, body: unknown): Promise<unknown> {
  const response = await fetch(new URL(path, server.url), {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.ok, await response.clone().text()).toBe(true);
  return response.json();
}

const words = (text: string) => text.split(" ");

/** A command that succeeds, with the JSON that it prints. */
async function command(...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await leasehold([...args, "--json", "--store", server.url]);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

describe("enqueue", () => {
  const scheduledAt = new Date("2040-01-02T03:04:05.000Z");
  type Given = Required<Omit<EnqueueTaskOptions, "client">>;
  const given = (id: string): Given => ({
    queue: "slow",
    priority: -3,
    maxAttempts: 7,
    crashLimit: 6,
    backoff: { firstMs: 2_345, longestMs: 67_890, factor: 3, jitter: 0.25 },
    retain: { doneMs: 3_600_000, deadMs: 7_200_000 },
    maxRunMs: 45_000,
    startByMs: 90_000,
    scheduledAt,
    dedupeKey: `dedupe-${id}`,
    id,
  });
  const KEYS: Required<KeyOptions<{ of: string }>> = {
    concurrencyKey: ({ of }) => of,
    perKey: 3,
    order: "any",
    rate: { limit: 5, perMs: 60_000 },
  };
  const data = { of: "ada" };
  const concurrency = { key: "ada", perKey: 3, order: "any", rate: { limit: 5, perMs: 60_000 } };
  const pay = defineTask<typeof data>("pay", { ...KEYS, version: 2 });

  /** What PostgreSQL keeps: some of it is in no answer. */
  const rowOf = async (id: string) => {
    const { rows } = await db.query("SELECT * FROM leasehold.task WHERE id = $1", [id]);
    return rows[0] as Record<string, unknown>;
  };
  const ROW = {
    kind: "pay",
    queue: "slow",
    priority: -3,
    keep_done_ms: 3_600_000,
    keep_dead_ms: 7_200_000,
    scheduled_at: scheduledAt,
    concurrency_key: "ada",
    concurrency_limit: 3,
    concurrency_any: true,
    concurrency_rate: 5,
    concurrency_rate_ms: 60_000,
    version: 2,
  };
  const RETRIES = {
    max_attempts: 7,
    crash_limit: 6,
    backoff_ms: 2_345,
    max_backoff_ms: 67_890,
    backoff_factor: 3,
    backoff_jitter: 0.25,
  };

  const wire = (id: string) => {
    const { scheduledAt: due, ...same } = given(id);
    return { ...same, kind: "pay", version: 2, concurrency, task_data: data, scheduled_at: due };
  };

  it.each<[string, (id: string) => Promise<unknown>]>([
    ["library", (id) => near.tasks.enqueue(pay, data, given(id))],
    ["library, many", (id) => near.tasks.enqueueAll(pay, [{ ...given(id), data }])],
    [
      "transaction",
      (id) => db.transaction((client) => near.tasks.enqueue(pay, data, { ...given(id), client })),
    ],
    [
      "transaction, many",
      (id) =>
        db.transaction((client) =>
          near.tasks.enqueueAll(pay, [{ ...given(id), data }], { client }),
        ),
    ],
    [
      "defaults of the kind",
      (id) => {
        const { scheduledAt: due, dedupeKey, id: own, ...defaults } = given(id);
        const kind = defineTask<typeof data>("pay", { ...KEYS, ...defaults, version: 2 });
        return near.tasks.enqueue(kind, data, { scheduledAt: due, dedupeKey, id: own });
      },
    ],
    ["library over HTTP", (id) => far.tasks.enqueue(pay, data, given(id))],
    ["library over HTTP, many", (id) => far.tasks.enqueueAll(pay, [{ ...given(id), data }])],
    ["HTTP", (id) => ask("POST", "/api/tasks", wire(id))],
    ["HTTP, many", (id) => ask("POST", "/api/tasks", [wire(id)])],
  ])("keeps each option: %s", async (name, enqueue) => {
    const id = name.replaceAll(/\W+/g, "-");
    await enqueue(id);
    expect(await rowOf(id)).toMatchObject({ ...ROW, ...RETRIES, dedupe_key: `dedupe-${id}` });
  });

  it(
    "keeps each option: command line",
    async () => {
      const { id } = (await command(
        ...words(`enqueue pay ${JSON.stringify(data)} --queue slow --priority -3`),
        ...words(`--dedupe-key k --scheduled-at ${scheduledAt.toISOString()}`),
        ...words("--keep-done 1h --keep-dead 2h --kind-version 2 --max-run 45s --start-by 90s"),
        ...words("--concurrency-key ada --per-key 3 --order any --rate 5/1m"),
      )) as { id: string };
      expect(await rowOf(id)).toMatchObject({ ...ROW, dedupe_key: "k" });
    },
    TIMEOUT_MS,
  );
});

describe("a schedule", () => {
  type Given = Required<Omit<ScheduleOptions<object>, "everyMs" | "kind">>;
  const GIVEN: Given = {
    cron: "5 4 * * *",
    timeZone: "Europe/Zurich",
    data: { of: "ada" },
    catchUp: { most: 3 },
    overlap: "queue",
    jitterMs: 9_000,
    queue: "slow",
    priority: -3,
    maxAttempts: 7,
    crashLimit: 6,
    backoff: { firstMs: 2_345, longestMs: 67_890, factor: 3, jitter: 0.25 },
    retain: { doneMs: 3_600_000, deadMs: 7_200_000 },
    maxRunMs: 45_000,
    startByMs: 90_000,
  };
  const { cron, timeZone, catchUp, overlap, jitterMs, ...task } = GIVEN;
  const TIMES = { cron, timeZone, everyMs: null, catchUp, overlap, jitterMs };
  const concurrency = { key: "ada", perKey: 3, order: "any", rate: { limit: 5, perMs: 60_000 } };
  const kind = defineTask<object>("pay", {
    concurrencyKey: () => "ada",
    perKey: 3,
    order: "any",
    rate: { limit: 5, perMs: 60_000 },
    version: 2,
  });
  const EVERY = { kind: "pay", data: null, everyMs: 90_000 };
  const recordOf = (name: string) => stores.schedules?.get({ namespace: NAMESPACE, name });

  it.each<[string, (name: string) => Promise<unknown>, (name: string) => Promise<unknown>]>([
    [
      "library",
      (name) => near.tasks.schedule(name, { ...GIVEN, kind }),
      (name) => near.tasks.schedule(name, EVERY),
    ],
    [
      "library over HTTP",
      (name) => far.tasks.schedule(name, { ...GIVEN, kind }),
      (name) => far.tasks.schedule(name, EVERY),
    ],
    [
      "HTTP",
      (name) =>
        ask("PUT", `/v1/schedules/${name}`, {
          ...TIMES,
          task: { ...task, kind: "pay", concurrency, version: 2 },
        }),
      (name) =>
        ask("PUT", `/v1/schedules/${name}`, { everyMs: 90_000, task: { kind: "pay", data: null } }),
    ],
  ])("keeps each option: %s", async (path, declare, every) => {
    const name = path.replaceAll(/\W+/g, "-");
    await declare(name);
    expect(await recordOf(name)).toMatchObject({
      ...TIMES,
      task: { ...task, kind: "pay", concurrency, version: 2 },
    });
    await every(`${name}-every`);
    expect(await recordOf(`${name}-every`)).toMatchObject({ cron: null, everyMs: 90_000 });
  });

  it(
    "keeps each option: command line",
    async () => {
      await command(
        ...words('schedules declare cli pay {"of":"ada"} --cron'),
        cron,
        ...words(`--time-zone ${timeZone} --catch-up 3 --overlap queue --jitter 9s --queue slow`),
      );
      const kept = { data: { of: "ada" }, kind: "pay", queue: "slow" };
      expect(await recordOf("cli")).toMatchObject({ ...TIMES, task: kept });
      await command("schedules", "declare", "cli-every", "pay", "--every", "90s");
      expect(await recordOf("cli-every")).toMatchObject({ cron: null, everyMs: 90_000 });
    },
    TIMEOUT_MS,
  );
});

describe("once", () => {
  type Given = Required<Omit<OnceOptions, "waitMs" | "signal">>;
  const GIVEN: Given = {
    ttlMs: 600_000,
    marginMs: 100_000,
    keepMs: 3_600_000,
    maxAttempts: 2,
    retryDelayMs: 60_000,
  };
  const recordOf = (key: string) => stores.once?.get({ namespace: NAMESPACE, key });
  const leaseOf = async (key: string) =>
    (await stores.leases.get([{ namespace: NAMESPACE, resource: resourceOf(key) }]))[0];
  const expectKept = async (key: string) => {
    const record = await recordOf(key);
    expect(record?.state).toBe("done");
    const keptMs = Date.parse(record?.keepUntil ?? "") - Date.parse(record?.at ?? "");
    expect(keptMs).toBe(GIVEN.keepMs);
  };
  const expectFailing = async (key: string) => {
    const { state, nextInMs = 0 } = (await recordOf(key)) ?? {};
    expect(state).toBe("failing");
    expect(nextInMs).toBeGreaterThan(0);
    expect(nextInMs).toBeLessThanOrEqual(GIVEN.retryDelayMs);
  };
  const fails = () => Promise.reject(new Error("closed"));

  it.each<[string, () => Leasehold]>([
    ["library", () => near],
    ["library over HTTP", () => far],
  ])("keeps each option: %s", async (path, client) => {
    const once: Leasehold["once"] = client().once.bind(client());
    const key = (what: string) => `${path}:${what}`;
    let trustedMs = GIVEN.ttlMs;
    const ttlMs = await once(key("done"), GIVEN, async (lease) => {
      trustedMs = lease.remainingMs();
      return (await leaseOf(key("done")))?.ttlMs;
    });
    expect(trustedMs).toBeLessThanOrEqual(GIVEN.ttlMs - GIVEN.marginMs);
    expect(ttlMs).toMatchObject({ ran: true, value: GIVEN.ttlMs });
    await expectKept(key("done"));

    await expect(once(key("failing"), GIVEN, fails)).rejects.toThrow("closed");
    await expectFailing(key("failing"));
    // Until the delay is over, the work is not due.
    const refused = once(key("failing"), { ...GIVEN, waitMs: 1 }, fails);
    await expect(refused).rejects.toMatchObject({ code: "LEASE_UNAVAILABLE" });
    await expect(once(key("dead"), { maxAttempts: 1 }, fails)).rejects.toThrow("closed");
    expect(await recordOf(key("dead"))).toMatchObject({ state: "failed", by: client().holder });

    const held = await near.acquire(resourceOf(key("held")));
    const waiting = once(key("held"), { waitMs: 1 }, () => 1);
    await expect(waiting).rejects.toMatchObject({ code: "LEASE_UNAVAILABLE" });
    const aborted = once(key("held"), { signal: AbortSignal.timeout(1) }, () => 1);
    await expect(aborted).rejects.toMatchObject({ name: "TimeoutError" });
    await held.release();
  });

  it("keeps keepMs: transaction", async () => {
    await near.once("transaction", GIVEN, (lease) =>
      db.transaction((client) => lease.succeed(1, { client })),
    );
    await expectKept("transaction");
  });

  it("refuses a transaction, which a server cannot join", async () => {
    const work = far.once("far", (lease) =>
      db.transaction((client) => lease.succeed(1, { client })),
    );
    await expect(work).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
    const enqueued = db.transaction((client) =>
      far.tasks.enqueue(defineTask("pay"), null, { client }),
    );
    await expect(enqueued).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
  });

  it("keeps each option: HTTP", async () => {
    const hold = async (key: string) => {
      const leaseId = toWireLeaseId(resourceOf(key), newLeaseId(systemRandom));
      const request = [{ leaseId, holder: "ada", ttlMs: GIVEN.ttlMs }];
      const [granted] = (await ask("POST", "/v1/leases/acquire", request)) as { token: number }[];
      expect(await leaseOf(key)).toMatchObject({ ttlMs: GIVEN.ttlMs, holder: "ada" });
      return { leaseId, token: granted?.token };
    };
    const { keepMs, maxAttempts, retryDelayMs } = GIVEN;
    await ask("POST", "/v1/once/succeed", { ...(await hold("http:done")), value: 1, keepMs });
    await expectKept("http:done");
    const failed = { ...(await hold("http:failing")), error: "no", maxAttempts, retryDelayMs };
    await ask("POST", "/v1/once/fail", failed);
    await expectFailing("http:failing");
    const dead = { ...(await hold("http:dead")), error: "no", maxAttempts: 1 };
    await ask("POST", "/v1/once/fail", dead);
    expect(await recordOf("http:dead")).toMatchObject({ state: "failed" });
  });

  it(
    "keeps each option: command line",
    async () => {
      const once = (key: string, ...args: string[]) =>
        ["once", key, "--store", server.url, "--holder", "ann", ...args] as const;
      await leasehold(once("cli:done", "--keep", "1h", "--", "true"));
      await expectKept("cli:done");
      const delay = ["--max-attempts", "2", "--retry-delay", "1m"];
      await leasehold(once("cli:failing", ...delay, "--", "false"));
      await expectFailing("cli:failing");
      await leasehold(once("cli:dead", "--max-attempts", "1", "--", "false"));
      expect(await recordOf("cli:dead")).toMatchObject({ state: "failed", by: "ann" });

      const sleeping = ["sh", "-c", "echo on; exec sleep 600"];
      const works = new Cli(once("cli:held", "--ttl", "10m", "--grace", "1s", "--", ...sleeping));
      await works.until(({ out }) => out[0]);
      expect(await leaseOf("cli:held")).toMatchObject({ ttlMs: 600_000, holder: "ann" });
      const waiting = await leasehold(once("cli:held", "--wait", "1ms", "--", "true"));
      expect(waiting).toMatchObject({ code: 75 });
      const forced = ["--force", "--reason", "again", "--actor", "eve", "--", "false"];
      await leasehold(once("cli:done", ...forced));
      expect(await recordOf("cli:done")).toMatchObject({ state: "failing" });
    },
    TIMEOUT_MS,
  );
});

describe("a worker", () => {
  type Given = Required<Omit<WorkerOptions, "queueLimits">>;
  const GIVEN: Given = {
    concurrency: 1,
    queues: ["w"],
    ttlMs: 600_000,
    graceMs: 600_000,
    maxAbandoned: 3,
  };
  const sleep = defineTask("sleep");
  const enqueue = async (queue: string, seconds: number) => {
    const data = { sleep_duration_seconds: seconds };
    return (await near.tasks.enqueue(sleep, data, { queue })).id;
  };
  const running = (id: string) =>
    vi.waitFor(
      async () => {
        const task = await near.tasks.get(id);
        expect(task?.state).toBe("running");
        return task;
      },
      { timeout: TIMEOUT_MS },
    );

  it.each<[string, () => Leasehold]>([
    ["library", () => near],
    ["library over HTTP", () => far],
  ])("keeps each option: %s", async (path, client) => {
    const queue = path.replaceAll(/\W+/g, "-");
    const [elsewhere, first, second] = [
      await enqueue("elsewhere", 1),
      await enqueue(queue, 1),
      await enqueue(queue, 1),
    ];
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    const worker = client().tasks.work([sleep.handle(() => ended)], {
      ...GIVEN,
      queues: [queue],
      queueLimits: { [queue]: { running: 5, rate: { limit: 9, perMs: 60_000 } } },
    });
    const task = await running(first);
    expect(task?.attempts.at(-1)).toMatchObject({ ttlMs: GIVEN.ttlMs, holder: client().holder });
    const limits = await near.tasks.limits.list();
    expect(limits.find(({ name }) => name === queue)).toMatchObject({
      scope: "queue",
      running: 5,
      rate: { limit: 9, perMs: 60_000 },
    });
    expect((await near.tasks.get(second))?.state).toBe("pending");
    expect((await near.tasks.get(elsewhere))?.state).toBe("pending");
    const closed = worker.close();
    end();
    await closed;
    expect((await near.tasks.get(first))?.state).toBe("done");
    await near.tasks.cancel(second);
    await near.tasks.cancel(elsewhere);
  });

  it(
    "keeps each option: command line",
    async () => {
      // Longer than the default grace.
      const [elsewhere, first] = [await enqueue("elsewhere", 1), await enqueue("cli", 7)];
      const second = await enqueue("cli", 7);
      const handlers = "packages/leasehold-server/dist/demo/sleep.js";
      const worker = new Cli([
        ...words(`worker --handlers ${handlers} --store ${server.url} --queue cli`),
        ...words("--concurrency 1 --ttl 10m --grace 10m --holder ann"),
      ]);
      const task = await running(first);
      expect(task?.attempts.at(-1)).toMatchObject({ ttlMs: 600_000, holder: "ann" });
      expect(await worker.end("SIGTERM")).toMatchObject({ code: 0 });
      expect((await near.tasks.get(first))?.state).toBe("done");
      expect((await near.tasks.get(second))?.state).toBe("pending");
      expect((await near.tasks.get(elsewhere))?.state).toBe("pending");
    },
    TIMEOUT_MS,
  );
});

describe("a lease", () => {
  const leaseOf = async (resource: string) =>
    (await stores.leases.get([{ namespace: NAMESPACE, resource }]))[0];
  const sleeping = ["--", "sh", "-c", "echo on; exec sleep 600"];

  it.each<[string, () => Leasehold]>([
    ["library", () => near],
    ["library over HTTP", () => far],
  ])("keeps each option: %s", async (path, client) => {
    const options = { ttlMs: 600_000, metadata: { region: "eu" } };
    const lease = await client().acquire(path, options);
    const metadata = JSON.stringify(options.metadata);
    const kept = { ttlMs: 600_000, holder: client().holder, metadata };
    expect(await leaseOf(path)).toMatchObject(kept);
    const refused = near.acquire(path, { waitMs: 1 });
    await expect(refused).rejects.toMatchObject({ code: "LEASE_UNAVAILABLE" });
    await lease.release();
    await client().run(path, options, async () => expect(await leaseOf(path)).toMatchObject(kept));
  });

  it.each([
    ["acquire", ["acquire", "r"]],
    ["run", ["run", "r"]],
    ["elect", ["elect", "r"]],
  ])("keeps each option: leasehold %s", async (verb, [name = "", resource = ""]) => {
    const own = `cli:${verb}:${resource}`;
    const given = ["--ttl", "10m", "--holder", "ann", "--store", server.url];
    const more = verb === "acquire" ? [] : ["--grace", "1s", ...sleeping];
    const cli = new Cli([name, own, ...given, ...more]);
    await cli.until(({ out }) => out[0]);
    expect(await leaseOf(own)).toMatchObject({ ttlMs: 600_000, holder: "ann" });
    const impatient = ["run", own, "--wait", "1ms", "-E", "7", "--store", server.url];
    expect(await leasehold([...impatient, "--", "true"])).toMatchObject({ code: 7 });
  });
});
