/** The log of a real server: docs/logs.md as a test, and a search for what must not be in it. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { grantIdOf, newLeaseId, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { fromWireLeaseId, toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { checkBuild, endAll, type Serving, serve } from "../support/processes/cli.js";

type Line = Record<string, unknown>;
// The answers of the server are looked into; a wrong guess fails the test.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Body = any;

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve("memory:", ["--log-level", "trace"]);
});
afterAll(() => endAll());

const lines = (): Line[] => server.cli.err.map((line) => JSON.parse(line) as Line);

/** The lines of a request, from its last one back. */
async function logOf(requestId: string): Promise<Line[]> {
  await server.cli.until(() =>
    lines().some((line) => line.requestId === requestId && `${line.event}`.startsWith("request_")),
  );
  return lines().filter((line) => line.requestId === requestId);
}

/** The bodies of all answers. Every secret that a client has received is in one of them. */
const received: string[] = [];
async function ask(
  method: string,
  path: string,
  body?: unknown,
  requestId = newLeaseId(systemRandom).slice(0, 12),
): Promise<Body> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "content-type": "application/json", "x-request-id": requestId },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  expect(response.headers.get("x-request-id")).toBe(requestId);
  const text = await response.text();
  received.push(text);
  return text === "" ? null : JSON.parse(text);
}

const newGrant = (resource: string) => {
  const leaseId = newLeaseId(systemRandom);
  const wire = toWireLeaseId(resource, leaseId);
  received.push(JSON.stringify({ leaseId: wire }));
  return { wire, grantId: grantIdOf(leaseId) };
};

it("tells the whole life of a lease, each event with the id of its request", async () => {
  const resource = "tenant_123:billing-close:2026-04";
  const [a, b, c, d] = [1, 2, 3, 4].map(() => newGrant(resource)) as [Grant, Grant, Grant, Grant];
  type Grant = ReturnType<typeof newGrant>;
  const acquire = async (grant: Grant, holder: string, ttlMs: number, requestId: string) => {
    const request = { leaseId: grant.wire, holder, ttlMs };
    return (await ask("POST", "/v1/leases/acquire", [request], requestId))[0];
  };
  const change = (operation: string, request: object, requestId: string) =>
    ask("POST", `/v1/leases/${operation}`, [request], requestId);

  const first = await acquire(a, "worker-7", 60_000, "req-acquire");
  await acquire(b, "worker-8", 60_000, "req-contend");
  await change("renew", { leaseId: a.wire, ttlMs: 90_000 }, "req-renew");
  await change("revoke", { resource, free: "now" }, "req-revoke");
  await change("renew", { leaseId: a.wire, ttlMs: 90_000 }, "req-late");
  const short = await acquire(c, "worker-9", 1_000, "req-short");
  let last: Body;
  await vi.waitFor(
    async () => {
      last = await acquire(d, "worker-10", 1_500, "req-takeover");
      expect(last.status).toBe("acquired");
    },
    { timeout: 20_000 },
  );
  await change("release", { leaseId: d.wire }, "req-release");
  await change("release", { leaseId: d.wire }, "req-again");

  const common = {
    resource,
    pid: server.cli.pid,
    time: expect.stringMatching(/Z$/),
    durationMs: expect.any(Number),
  };
  const info = { ...common, level: 30 };
  const debug = { ...common, level: 20 };
  const events = async (requestId: string) =>
    (await logOf(requestId)).filter((line) => String(line.event).startsWith("lock_"));
  expect(await events("req-acquire")).toEqual([
    {
      ...info,
      event: "lock_acquired",
      operation: "acquire",
      msg: "lock acquired",
      requestId: "req-acquire",
      ownerId: "worker-7",
      grantId: a.grantId,
      fencingToken: first.token,
      ttlSeconds: 60,
    },
  ]);
  expect(await events("req-contend")).toEqual([
    {
      ...debug,
      event: "lock_contended",
      operation: "acquire",
      msg: "lock contended",
      requestId: "req-contend",
      ownerId: "worker-8",
      heldBy: "worker-7",
      grantId: a.grantId,
      fencingToken: first.token,
    },
  ]);
  expect(await events("req-renew")).toEqual([
    {
      ...debug,
      event: "lock_renewed",
      operation: "renew",
      msg: "lock renewed",
      requestId: "req-renew",
      grantId: a.grantId,
      fencingToken: first.token,
      ttlSeconds: 90,
    },
  ]);
  expect(await events("req-revoke")).toEqual([
    {
      ...info,
      event: "lock_revoked",
      operation: "revoke",
      msg: "lock revoked",
      requestId: "req-revoke",
      fencingToken: first.token,
      free: "now",
    },
  ]);
  expect(await events("req-late")).toEqual([
    {
      ...info,
      event: "lock_renewal_failed",
      operation: "renew",
      msg: "lock renewal failed",
      requestId: "req-late",
      grantId: a.grantId,
      fencingToken: first.token,
      reason: "revoked",
    },
  ]);
  const takeover = (await events("req-takeover")).filter(({ level }) => level === 30);
  expect(takeover).toEqual([
    {
      ...info,
      event: "lock_expired",
      operation: "acquire",
      msg: "lock expired",
      requestId: "req-takeover",
      ownerId: "worker-9",
      grantId: c.grantId,
      fencingToken: short.token,
    },
    {
      ...info,
      event: "lock_acquired",
      operation: "acquire",
      msg: "lock acquired",
      requestId: "req-takeover",
      ownerId: "worker-10",
      grantId: d.grantId,
      fencingToken: last.token,
      ttlSeconds: 1.5,
    },
  ]);
  for (const requestId of ["req-release", "req-again"]) {
    const released = { event: "lock_released", operation: "release", msg: "lock released" };
    const grant = { grantId: d.grantId, fencingToken: last.token };
    expect(await events(requestId)).toEqual([{ ...info, ...released, ...grant, requestId }]);
  }
  const request = (await logOf("req-release")).at(-1);
  expect(request).toMatchObject({
    event: "request_answered",
    method: "POST",
    path: "/v1/leases/release",
    status: 200,
    level: 20,
    durationMs: expect.any(Number),
  });
});

it("tells what happens to tasks in the words of the HTTP API", async () => {
  const { id } = await ask("POST", "/api/tasks", { task_data: 1, kind: "k", maxAttempts: 2 });
  const next = async (processor: string, ttlMs: number) =>
    (await ask("POST", "/api/tasks/next", { processor, ttlMs, waitMs: 20_000 })).tasks[0];
  const dead = await next("worker-1", 1_000);
  const live = await next("worker-2", 60_000);
  const grant = ({ leaseId, fencingToken }: Body) => ({ leaseId, fencingToken });
  await ask("PUT", `/api/tasks/${id}/complete`, grant(dead));
  await ask("PUT", `/api/tasks/${id}/fail`, {
    ...grant(live),
    retryInMs: 0,
    error: `it broke under ${live.leaseId}`,
  });
  const done = await next("worker-3", 60_000);
  await ask("PUT", `/api/tasks/${id}/heartbeat`, grant(done));
  await ask("PUT", `/api/tasks/${id}/complete`, grant(done), "req-complete");
  await logOf("req-complete");

  const events = lines().filter((line) => line.id === id);
  const by = (processor: string, { fencingToken, attempt }: Body) => ({
    id,
    kind: "k",
    processor,
    fencingToken,
    attempt,
  });
  expect(events).toMatchObject([
    { event: "task_enqueued", level: 20, id, kind: "k", queue: "default", duplicate: false },
    { event: "task_claimed", level: 20, ...by("worker-1", dead), previousProcessor: null },
    { event: "task_expired", level: 30, ...by("worker-1", dead), state: "pending" },
    { event: "task_claimed", ...by("worker-2", live), previousProcessor: "worker-1" },
    {
      event: "task_refused",
      level: 30,
      ...by("worker-1", dead),
      operation: "complete",
      reason: "taken",
    },
    {
      event: "task_failed",
      level: 30,
      ...by("worker-2", live),
      state: "pending",
      retryInMs: 0,
      error: "it broke under [lease]",
    },
    { event: "task_claimed", ...by("worker-3", done) },
    { event: "task_renewed", level: 20, ...by("worker-3", done) },
    { event: "task_completed", level: 20, ...by("worker-3", done), repeated: false },
  ]);
});

it("contains no lease id and no claim id of any client, wherever they are sent", async () => {
  const claimId = newLeaseId(systemRandom);
  await ask("POST", "/api/tasks", [{ task_data: 1 }, { task_data: 2 }]);
  await ask("POST", "/api/tasks/next", { processor: "p", claimId, limit: 2 });
  received.push(JSON.stringify({ claimId }));
  const { wire } = newGrant("canary");
  await ask("POST", "/v1/leases/acquire", [{ leaseId: wire, holder: "h", ttlMs: 60_000 }]);

  const secrets = new Set(
    received.flatMap((text) =>
      [...text.matchAll(/"(?:leaseId|claimId)":"([^"]+)"/g)].map(([, secret = ""]) => secret),
    ),
  );
  expect(secrets.size).toBeGreaterThan(8);
  const encode = (text: string) =>
    text.replace(/./g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  const routes = [
    "/v1/locks/ID",
    "/v1/locks/ID/renew",
    "/v1/leases/ID",
    "/api/leases/ID",
    "/api/tasks/ID",
    "/api/tasks/ID/complete",
    "/ID",
    "/healthz/ID",
    "/v1/leases?cursor=ID",
    "/v1/leases?ID=1",
    "/api/tasks?state=ID",
    "/api/tasks/next?leaseId=ID",
    "/xIDx",
    "/ID/ID",
  ];
  const bodies = [
    '{"leaseId":"ID"}',
    '[{"leaseId":"ID"}]',
    '{"ID":1}',
    '[{"leaseId":"ID","ttlMs":1,"ID":2}]',
    '"ID"',
    "ID",
    '{"leaseId":"ID"',
    '{"leaseId":ID}',
    '[{"leaseId":"ID","ttlMs":60000}]',
    '{"leaseId":["ID"]}',
    '{"processor":"p","claimId":"ID","ID":1}',
    '{"claimId":"ID "}',
  ];
  const own = ["acquire", "renew", "release", "revoke", "get"].map((name) => `/v1/leases/${name}`);
  const task = `/api/tasks/${"0".repeat(8)}-0000-7000-8000-${"0".repeat(12)}/complete`;
  for (const secret of secrets) {
    const spellings = [secret, encode(secret), secret.replace(".", "%2E"), secret.toUpperCase()];
    const asked = spellings.flatMap((spelling) =>
      routes.flatMap((route) =>
        ["GET", "DELETE"].map((method) => ask(method, route.replaceAll("ID", spelling))),
      ),
    );
    for (const body of bodies.map((text) => text.replaceAll("ID", secret))) {
      for (const path of [...own, `/v1/locks/${secret}/renew`, "/api/tasks/next", task]) {
        asked.push(ask(path === task ? "PUT" : "POST", path, body));
      }
    }
    await Promise.all(asked);
  }
  await ask("GET", "/healthz", undefined, "req-last");
  await logOf("req-last");

  const log = server.cli.err.join("\n").toLowerCase();
  expect(server.cli.err.length).toBeGreaterThan(secrets.size * 100);
  for (const secret of secrets) {
    const bare = fromWireLeaseId(secret)?.leaseId ?? secret;
    expect(bare).toMatch(/^[0-9a-f]{48}$/);
    expect(log.includes(bare)).toBe(false);
    expect(log.includes(encode(bare))).toBe(false);
  }
  // What stands there instead: in texts of others, and in events.
  expect(log).toContain("/v1/locks/[lease]/renew");
  expect(log).toContain(grantIdOf(fromWireLeaseId(wire)?.leaseId ?? ""));
});

it("has each of its events in docs/logs.md", () => {
  const names = new Set(lines().flatMap(({ event }) => (event === undefined ? [] : [`${event}`])));
  const document = readFileSync(new URL("../../docs/logs.md", import.meta.url), "utf8");
  const documented = [
    ...document.matchAll(/^\| (`\w+`(?:, `\w+`)*) \| (?:debug|info|warn|error)/gm),
  ].flatMap(([, names = ""]) => names.replaceAll("`", "").split(", "));
  expect(documented).toEqual(expect.arrayContaining([...names]));
});
