/** Behaviour that routes share: waits, budgets, failing stores, logs, events, closing. */

import type { Logger } from "leasehold";
import { type LeaseStore, StoreUnavailableError } from "leasehold";
import type { ClaimRequest, NewTask, TaskEvent, TaskStore } from "leasehold/internal";
import { newLeaseId, systemClock, systemEnv, systemRandom } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { memory } from "leasehold/stores/memory";
import { expect, test } from "vitest";
import {
  expectProblem,
  held,
  openTestApp as open,
  PROCESSOR,
} from "../../../../../tests/support/server/app.js";

const UUID = "01890000-0000-7000-8000-000000000000";

test("a wait ends with the first task, and wakes no more callers than there are tasks", async () => {
  const app = await open();
  const wait = (processor: string) =>
    app.ask("POST", "/api/tasks/next", { processor, waitMs: 20_000 });
  const waits = [wait("a"), wait("b"), wait("c")];
  await app.ask("POST", "/api/tasks", { task_data: 1 });
  const [first] = [await Promise.race(waits)];
  expect(first.status).toBe(200);
  await app.ask("POST", "/api/tasks", [{ task_data: 2 }, { task_data: 3 }]);
  const replies = await Promise.all(waits);
  const data = replies.map(({ body }) => body.tasks[0].task_data);
  expect(data.sort()).toEqual([1, 2, 3]);
});

test("a wait ends with its time, with its budget, and when the app closes", async () => {
  const app = await open();
  const wait = (waitMs: number, headers = {}) =>
    app.ask("POST", "/api/tasks/next", { processor: "p", waitMs }, { headers });
  expect((await wait(30)).status).toBe(204);
  expect((await wait(30_000, { "leasehold-budget-ms": "300" })).status).toBe(204);
  const long = wait(30_000);
  await app.ask("GET", "/api/tasks");
  await app.app.close();
  expect((await long).status).toBe(204);
  const late = await wait(30_000);
  expectProblem(late, 503, "CLOSING");
  expect(late.headers.get("retry-after")).toBe("1");
  expect((await app.ask("GET", "/healthz")).status).toBe(200);
});

test("a disconnected caller claims no task", async () => {
  const app = await open();
  const gone = new AbortController();
  const lost = app.ask(
    ...(["POST", "/api/tasks/next", { processor: "gone", waitMs: 20_000 }] as const),
    { signal: gone.signal },
  );
  const waiting = app.ask("POST", "/api/tasks/next", { processor: "here", waitMs: 20_000 });
  gone.abort();
  expect((await lost).status).toBe(204);
  await app.ask("POST", "/api/tasks", { task_data: 1 });
  expect((await waiting).body.tasks[0]).toMatchObject({ processor: "here", attempt: 1 });
});

test("a claim with a chosen id is kept when its connection breaks", async () => {
  const claimId = newLeaseId(systemRandom);
  for (const [chosen, state] of [
    [{ claimId }, "running"],
    [{}, "pending"],
  ] as const) {
    const gone = new AbortController();
    const stores = await memory().open(systemEnv);
    const tasks = new Proxy(stores.tasks, {
      get(target, name: keyof TaskStore) {
        if (name !== "claim") {
          const value = target[name];
          return typeof value === "function" ? value.bind(target) : value;
        }
        return async (request: ClaimRequest) => {
          const outcome = await target.claim(request);
          gone.abort();
          return outcome;
        };
      },
    });
    const app = await open({ tasks });
    const { id } = (await app.ask("POST", "/api/tasks", { task_data: 1 })).body;
    const next = { processor: "p", ...chosen };
    await app.ask("POST", "/api/tasks/next", next, { signal: gone.signal });
    expect((await app.ask("GET", `/api/tasks/${id}`)).body.state).toBe(state);
  }
});

test("tasks of one request are enqueued together, with or without dedupeKeys", async () => {
  const { tasks } = await memory().open(systemEnv);
  const batches: unknown[][] = [];
  const enqueue = tasks.enqueue.bind(tasks);
  tasks.enqueue = (added) => {
    batches.push(added.map(({ data }) => data));
    return enqueue(added);
  };
  const { ask } = await open({ tasks });
  const added = [1, 2, 3].map((n) => ({ task_data: n, dedupeKey: n === 2 ? "k" : null }));
  expect((await ask("POST", "/api/tasks", added)).status).toBe(201);
  expect(batches).toEqual([[1, 2, 3]]);
});

test("tasks that wait for a dedupeKey delay no others", async () => {
  const stores = await memory().open(systemEnv);
  let unlock = () => {};
  const gate = new Promise<void>((resolve) => {
    unlock = resolve;
  });
  const tasks = new Proxy(stores.tasks, {
    get(target, name: keyof TaskStore) {
      if (name !== "enqueue") {
        const value = target[name];
        return typeof value === "function" ? value.bind(target) : value;
      }
      return async (added: NewTask[]) => {
        if (added.some(({ dedupeKey }) => dedupeKey === "locked")) await gate;
        return target.enqueue(added);
      };
    },
  });
  const app = await open({ tasks });
  const held = app.ask("POST", "/api/tasks", { task_data: 1, dedupeKey: "locked" });
  await app.ask("GET", "/healthz");
  expect((await app.ask("POST", "/api/tasks", { task_data: 2 })).status).toBe(201);
  unlock();
  expect((await held).status).toBe(201);
});

const down = (outcome: "none" | "unknown") => new StoreUnavailableError("it is down", { outcome });
/** Stores whose calls all fail. */
function failing(applied: "no" | "maybe"): { leases: LeaseStore; tasks: TaskStore } {
  const error = down(applied === "no" ? "none" : "unknown");
  const failed = { status: "failed", applied, retryable: true, error } as const;
  const handler: ProxyHandler<object> = {
    get(target, name) {
      if (name === "capabilities") return Reflect.get(target, name);
      if (["get", "list", "counts", "leases", "collect", "reap"].includes(String(name))) {
        return () => Promise.reject(error);
      }
      if (name === "claim") return async () => failed;
      return async (requests: unknown[]) => requests.map(() => failed);
    },
  };
  const ttl = { minMs: 1, maxMs: 1e9, stepMs: 1 };
  const capabilities = { ttl, watch: "poll", remoteWait: false, reaps: false };
  return {
    leases: new Proxy({ capabilities: { ...capabilities, clock: "store" } }, handler) as LeaseStore,
    tasks: new Proxy({ capabilities }, handler) as TaskStore,
  };
}

test("a failed store is 503 if nothing was done, 504 if the outcome is unknown", async () => {
  const grant = { leaseId: "0".repeat(48), fencingToken: 1 };
  for (const [applied, status, code] of [
    ["no", 503, "STORE_UNAVAILABLE"],
    ["maybe", 504, "OUTCOME_UNKNOWN"],
  ] as const) {
    // With a control store, cancel goes through it.
    const { ask } = await open({ ...failing(applied), control: undefined });
    for (const [method, path, body] of [
      ["POST", "/api/tasks", { task_data: 1 }],
      ["POST", "/api/tasks", [{ task_data: 1 }]],
      ["POST", "/api/tasks/next", { processor: "p", waitMs: 1_000 }],
      ["PUT", `/api/tasks/${UUID}/heartbeat`, grant],
      ["PUT", `/api/tasks/${UUID}/complete`, grant],
      ["PUT", `/api/tasks/${UUID}/fail`, { ...grant, error: "" }],
      ["PUT", `/api/tasks/${UUID}/return`, grant],
      ["POST", `/api/tasks/${UUID}/cancel`, undefined],
      ["GET", "/api/tasks", undefined],
      ["GET", "/api/generator", undefined],
      ["GET", "/readyz", undefined],
    ] as const) {
      const reply = await ask(method, path, body);
      // A failed read has always done nothing.
      if (method === "GET") expectProblem(reply, 503, "STORE_UNAVAILABLE");
      else expectProblem(reply, status, code);
      if (method === "GET") expect(reply.body.detail).not.toContain("may have taken effect");
      expect(reply.headers.get("retry-after")).toBe(reply.status === 503 ? "1" : null);
    }
    const lease = { leaseId: toWireLeaseId("r", "0".repeat(48)), holder: "h", ttlMs: 1_000 };
    const { status: ok, body } = await ask("POST", "/v1/leases/acquire", [lease]);
    expect(ok).toBe(200);
    expect(body).toEqual([
      {
        status: "failed",
        applied,
        retryable: true,
        error: {
          code: "STORE_UNAVAILABLE",
          message: expect.stringContaining("it is down") as string,
        },
      },
    ]);
    expect((await ask("GET", "/healthz")).body).toEqual({ status: "ok", version: "1.2.3" });
  }
});

test("the server recovers by itself with its store", async () => {
  const { stores, ask: working } = await open();
  let broken = true;
  const tasks = new Proxy(stores.tasks, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (broken) return Promise.reject(down("none"));
        return Reflect.apply(value, target, args);
      };
    },
  });
  const { ask } = await open({ tasks });
  expect((await ask("GET", "/api/tasks/counts")).status).toBe(503);
  broken = false;
  expect((await ask("GET", "/api/tasks/counts")).status).toBe(200);
  expect((await working("GET", "/readyz")).status).toBe(200);
});

test("a bug is a 500 without details, which are in the log", async () => {
  const lines: { level: string; fields: Record<string, unknown> }[] = [];
  const log = (level: string) => (fields: object) =>
    void lines.push({ level, fields: fields as Record<string, unknown> });
  const logger: Logger = {
    debug: log("debug"),
    info: log("info"),
    warn: log("warn"),
    error: log("error"),
  };
  const { stores } = await open();
  const bug = new TypeError("secret detail");
  const tasks = Object.assign(Object.create(stores.tasks) as TaskStore, {
    capabilities: stores.tasks.capabilities,
    counts: () => Promise.reject(bug),
  });
  const { ask } = await open({ tasks, env: { clock: systemClock, random: systemRandom, logger } });
  const reply = await ask("GET", "/api/tasks/counts", undefined, {
    headers: { "x-request-id": "mine-1" },
  });
  expectProblem(reply, 500, "INTERNAL");
  expect(JSON.stringify(reply.body)).not.toContain("secret");
  expect(reply.headers.get("x-request-id")).toBe("mine-1");
  const leaseId = newLeaseId(systemRandom);
  const wire = toWireLeaseId("r", leaseId);
  for (const spelled of [wire, wire.replace(".", "%2e").replaceAll("0", "%30")]) {
    await ask("GET", `/v1/leases/${spelled}`);
  }
  await ask("POST", "/v1/leases/release", [{ leaseId }]);
  await ask("POST", "/v1/leases/release", [{ leaseId: wire }]);
  expect(lines).toMatchObject([
    {
      level: "error",
      fields: {
        requestId: "mine-1",
        method: "GET",
        path: "/api/tasks/counts",
        status: 500,
        code: "INTERNAL",
        err: bug,
      },
    },
    { level: "info", fields: { path: "/v1/leases/cg.[lease]", status: 404 } },
    { level: "info", fields: { path: "/v1/leases/cg.[lease]", status: 404 } },
    {
      level: "info",
      fields: { path: "/v1/leases/release", status: 422, event: "request_refused" },
    },
    {
      level: "debug",
      fields: { path: "/v1/leases/release", status: 200, event: "request_answered" },
    },
  ]);
  expect(JSON.stringify(lines)).not.toContain(leaseId);
});

test("a request whose budget is spent is not carried out", async () => {
  const { ask } = await open();
  for (const budget of ["0", "-5"]) {
    const headers = { "leasehold-budget-ms": budget };
    const reply = await ask("POST", "/api/tasks", { task_data: 1 }, { headers });
    expectProblem(reply, 503, "BUDGET_SPENT");
  }
  expect((await ask("GET", "/api/tasks/counts")).body.pending).toBe(0);
  const headers = { "leasehold-budget-ms": "soon" };
  const malformed = await ask("POST", "/api/tasks", { task_data: 1 }, { headers });
  expectProblem(malformed, 422, "INVALID_REQUEST");
  expect(malformed.body.errors[0].path).toBe("leasehold-budget-ms");
});

test("events have the outcome, without lease ids", async () => {
  const events: TaskEvent[] = [];
  const app = await open({ onTaskEvent: (event) => void events.push(event) });
  const { id, path, grant } = await held(app);
  await app.ask("PUT", `${path}/complete`, { ...grant, fencingToken: 7 });
  await app.ask("PUT", `${path}/complete`, grant);
  expect(events).toMatchObject([
    { type: "enqueued", id, kind: "default", queue: "default", duplicate: false },
    { type: "claimed", id, holder: PROCESSOR, token: grant.fencingToken, attempt: 1 },
    { type: "refused", id, operation: "complete", reason: "taken", token: 7, holder: null },
    { type: "completed", id, holder: PROCESSOR, token: grant.fencingToken, repeated: false },
  ]);
  expect(JSON.stringify(events)).not.toContain(grant.leaseId);
});
