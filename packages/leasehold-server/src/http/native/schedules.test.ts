/** /v1/schedules as any HTTP client calls it; the conformance suite has the outcomes of the port. */
import { systemEnv } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { importsSettled } from "../../../../../tests/support/runner/imports.js";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { type AppOptions, createApp } from "../index.js";

const HOURLY = { everyMs: 3_600_000, task: { kind: "report", data: { of: "sales" } } };

/** A server in memory, on a manual clock. */
async function ticking(options: Pick<AppOptions, "limits" | "onTaskEvent"> = {}) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const app = createApp({ ...stores, ...options, auth: "none", version: "test", env });
  onTestFinished(() => app.close());
  const ask = async (method: string, path: string, body?: unknown) => {
    const init = { method, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const headers = { "content-type": "application/json" };
    const request = new Request(`http://localhost${path}`, { ...init, headers });
    return (await app.fetch(request)).json() as Promise<Record<string, unknown>>;
  };
  return { env, ask };
}

describe("schedules", () => {
  it("are declared with the defaults of the library", async () => {
    const { ask } = await openTestApp();
    expect((await ask("PUT", "/v1/schedules/a%2Fb", HOURLY)).body).toEqual({
      name: "a/b",
      change: "added",
    });
    const { status, body } = await ask("GET", "/v1/schedules/a%2Fb");
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: "a/b",
      cron: null,
      timeZone: "UTC",
      everyMs: 3_600_000,
      catchUp: "last",
      overlap: "skip",
      jitterMs: 0,
      task: { kind: "report", queue: "default", maxAttempts: 10, data: { of: "sales" } },
    });
    expect(body.nextFireTimes).toHaveLength(5);
  });

  it("have for their tasks what the body says, and the rest by default", async () => {
    const { ask } = await openTestApp();
    const rate = { limit: 2, perMs: 60_000 };
    const task = {
      ...HOURLY.task,
      version: 3,
      retain: { doneMs: null },
      concurrency: { key: "sales", rate },
    };
    await ask("PUT", "/v1/schedules/s", { ...HOURLY, task });
    const { body } = await ask("GET", "/v1/schedules/s");
    expect(body.task).toMatchObject({
      version: 3,
      retain: { doneMs: null, deadMs: 30 * 24 * 3_600_000 },
      concurrency: { key: "sales", perKey: 1, order: "fifo", rate },
      crashLimit: 10,
      backoff: { firstMs: 1_000, longestMs: 3_600_000, factor: 2, jitter: 0.5 },
    });
    const listed = (await ask("GET", "/v1/schedules")).body.items;
    expect(listed).toEqual([{ ...body, nextFireTimes: expect.any(Array) as unknown }]);
    await ask("POST", "/v1/schedules/s/run?taskId=now");
    const made = (await ask("GET", "/api/tasks/now")).body;
    expect(made).toMatchObject({ version: 3, concurrency: { key: "sales", rate } });
  });

  it("are refused for a while when the search for their fire times takes too long", async () => {
    const stores = await memory().open(systemEnv);
    const { app, newKey, ask } = openTenants(stores, systemEnv, { ratePerSecond: 1_000 });
    onTestFinished(async () => {
      await app.close();
      await stores.close();
    });
    const { text } = await newKey("a", "admin");
    const body = { cron: "0 0 30 2 *", task: HOURLY.task };
    const wanted = { method: "PUT", path: "/v1/schedules/never", body };
    const search = async () => (await ask(text, wanted)).status;
    let status = await search();
    expect(status).toBe(422);
    // A fast machine searches more often in the same time.
    for (let round = 0; status === 422 && round < 1_000; round += 1) status = await search();
    expect(status).toBe(429);
  });

  it("fire by the server's ticks, which nothing else has to start", async () => {
    const { env, ask } = await ticking();
    await ask("PUT", "/v1/schedules/s", { ...HOURLY, everyMs: 60_000, overlap: "allow" });
    await importsSettled();
    for (let minute = 0; minute < 3; minute += 1) await env.clock.advance(60_000);
    expect(await ask("GET", "/api/tasks/counts")).toMatchObject({ pending: 3 });
    expect(await ask("GET", "/v1/schedules/s")).toMatchObject({ fired: 3, skipped: 0 });
  });

  it("make no more tasks than the tenant may have, and go on once there is room", async () => {
    const events: string[] = [];
    const { env, ask } = await ticking({
      limits: { tasks: 2 },
      onTaskEvent: (event) => events.push(`${event.type} ${"id" in event && event.id}`),
    });
    await ask("PUT", "/v1/schedules/s", { ...HOURLY, everyMs: 60_000, overlap: "allow" });
    await importsSettled();
    for (let minute = 0; minute < 5; minute += 1) await env.clock.advance(60_000);
    expect(await ask("GET", "/api/tasks/counts")).toMatchObject({ pending: 2 });
    expect(await ask("GET", "/v1/schedules/s")).toMatchObject({ fired: 2, skipped: 3 });
    expect(await ask("POST", "/v1/schedules/s/run")).toMatchObject({ code: "LIMIT_REACHED" });
    const [first, second] = events.map((event) => event.replace("enqueued ", ""));
    await ask("POST", `/api/tasks/${encodeURIComponent(first ?? "")}/cancel`);
    await ask("POST", `/api/tasks/${encodeURIComponent(second ?? "")}/cancel`);
    await env.clock.advance(60_000);
    expect(await ask("GET", "/v1/schedules/s")).toMatchObject({ fired: 3, skipped: 3 });
    expect(await ask("POST", "/v1/schedules/s/run?taskId=now")).toMatchObject({ taskId: "now" });
    expect(events.filter((event) => event.startsWith("enqueued"))).toHaveLength(3);
  });

  it.each([
    [{}, "task"],
    [{ task: HOURLY.task }, "cron"],
    [{ ...HOURLY, cron: "0 2 * * *" }, "cron"],
    [{ cron: "0 25 * * *", task: HOURLY.task }, "cron"],
    [{ cron: "0 2 * * *", timeZone: "Mars/Olympus", task: HOURLY.task }, "timeZone"],
    [{ ...HOURLY, everyMs: 10 }, "everyMs"],
    [{ ...HOURLY, timeZone: "Europe/Zurich" }, "timeZone"],
    [{ ...HOURLY, timeZone: "Mars/Olympus" }, "timeZone"],
    [{ ...HOURLY, catchUp: { most: 1_001 } }, "catchUp"],
    [{ ...HOURLY, overlap: "wait" }, "overlap"],
    [{ ...HOURLY, jitterMs: -1 }, "jitterMs"],
    [{ ...HOURLY, task: { data: null } }, "task.kind"],
    [{ ...HOURLY, task: { kind: "k", data: "x".repeat(70_000) } }, "data"],
    [{ ...HOURLY, taskk: 1 }, "taskk"],
  ])("are refused as %j", async (wrong, path) => {
    const { ask } = await openTestApp();
    const answer = await ask("PUT", "/v1/schedules/s", wrong);
    expect(answer.status).toBe(422);
    expect(answer.body.errors[0].path).toContain(path);
    expect((await ask("GET", "/v1/schedules")).body.items).toEqual([]);
  });

  it("have names, and others are not found or refused", async () => {
    const { ask } = await openTestApp();
    const long = "n".repeat(129);
    const declared = await ask("PUT", `/v1/schedules/${long}`, HOURLY);
    expect(declared.status).toBe(422);
    for (const name of [long, "other", "a%00"]) {
      expectProblem(await ask("GET", `/v1/schedules/${name}`), 404, "UNKNOWN_SCHEDULE");
      for (const verb of ["pause", "resume", "run"]) {
        const answer = await ask("POST", `/v1/schedules/${name}/${verb}`);
        expectProblem(answer, 404, "UNKNOWN_SCHEDULE");
      }
      const { body } = await ask("DELETE", `/v1/schedules/${name}`);
      expect(body).toMatchObject({ wasDeclared: false });
    }
  });

  it("are at most a thousand of a tenant, twenty in a page", async () => {
    const { ask } = await openTestApp();
    for (let n = 0; n < 1_000; n += 1) {
      await ask("PUT", `/v1/schedules/s${String(n).padStart(3, "0")}`, HOURLY);
    }
    expectProblem(await ask("PUT", "/v1/schedules/one-more", HOURLY), 429, "LIMIT_REACHED");
    expect((await ask("PUT", "/v1/schedules/s000", HOURLY)).body).toMatchObject({ change: "none" });
    const { body } = await ask("GET", "/v1/schedules?limit=200");
    expect(body.items).toHaveLength(20);
    const next = await ask("GET", `/v1/schedules?cursor=${encodeURIComponent(body.nextCursor)}`);
    expect(next.body.items[0].name).toBe("s020");
  });

  it("have as many in a page as their data leaves room for", async () => {
    const { ask } = await openTestApp();
    const task = { kind: "report", data: "x".repeat(60_000) };
    const names = Array.from({ length: 7 }, (_, index) => `s${index}`);
    for (const name of names) await ask("PUT", `/v1/schedules/${name}`, { ...HOURLY, task });
    const found: unknown[] = [];
    const sizes: number[] = [];
    let cursor = "";
    do {
      const { body } = await ask("GET", `/v1/schedules?${cursor}`);
      const { items, nextCursor } = body as {
        items: { name: string }[];
        nextCursor: string | null;
      };
      found.push(...items.map(({ name }) => name));
      sizes.push(items.length);
      cursor = nextCursor === null ? "" : `cursor=${nextCursor}`;
    } while (cursor !== "");
    expect(found).toEqual(names);
    expect(sizes).toEqual([4, 3]);
  });

  it("need a store of them", async () => {
    const { schedules: _, ...stores } = await memory().open(manualEnv());
    const app = createApp({ ...stores, auth: "none", version: "test" });
    onTestFinished(() => app.close());
    const answer = await app.fetch(new Request("http://localhost/v1/schedules"));
    expect(answer.status).toBe(501);
    expect(await answer.json()).toMatchObject({ code: "NO_SCHEDULES" });
  });

  it("are declared by holders, and paused by operators with a reason", async () => {
    const env = manualEnv();
    const { ask, newKey } = openTenants(await memory().open(env), env);
    const textOf = async (role: "holder" | "operator") => (await newKey("t", role)).text;
    const [holder, operator] = [await textOf("holder"), await textOf("operator")];
    const declare = { method: "PUT", path: "/v1/schedules/s", body: HOURLY };
    expect((await ask(holder, declare)).status).toBe(200);
    const pause = { method: "POST", path: "/v1/schedules/s/pause?reason=full" };
    expect((await ask(holder, pause)).status).toBe(403);
    const without = { method: "POST", path: "/v1/schedules/s/pause" };
    expect((await ask(operator, without)).status).toBe(422);
    expect((await ask(operator, pause)).status).toBe(200);
    const { text } = await ask(holder, { method: "GET", path: "/v1/schedules/s" });
    expect(JSON.parse(text)).toMatchObject({ paused: { reason: "full" } });
  });
});
