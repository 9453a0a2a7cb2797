/**
 * The requests of the two articles, sent by curl as they are printed there, to a live server: what
 * docs/http.md says of the lock service, the lease service and the task processor.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bash, type LiveServer, openLiveServer } from "../support/server/http-story.js";

let server: LiveServer;
beforeAll(async () => {
  server = await openLiveServer();
});
afterAll(() => server.close());

interface Answer {
  readonly status: number;
  // Tests look into it; a wrong guess fails them.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly body: any;
}

/** Sent by `curl -X METHOD url -H content-type -d body`, as a reader would. */
async function curl(method: string, path: string, body?: string): Promise<Answer> {
  const sent = body === undefined ? "" : `-H 'content-type: application/json' -d '${body}'`;
  const script = `command curl -s -w '\\n%{http_code}' -X ${method} ${sent} '${server.url}${path}'`;
  const lines = (await bash(script)).split("\n");
  const status = Number(lines.pop());
  const text = lines.join("\n");
  return { status, body: text === "" ? null : JSON.parse(text) };
}

describe("the lock service of the article", () => {
  const ACQUIRE = `{
"resource": "tenant_123:billing-close:2026-04",
"ownerId": "worker-7",
"ttlSeconds": 60
}`;
  const RESOURCE = "tenant_123:billing-close:2026-04";
  let leaseId: string;
  let fencingToken: number;

  it("POST /v1/locks/acquire answers the members of the article", async () => {
    const { status, body } = await curl("POST", "/v1/locks/acquire", ACQUIRE);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      acquired: true,
      leaseId: expect.any(String),
      fencingToken: expect.any(Number),
      expiresAt: "2026-04-08T10:16:30.000Z",
    });
    ({ leaseId, fencingToken } = body);
  });

  it("POST /v1/locks/acquire names the holder to the next caller, and omits the leaseId", async () => {
    const { status, body } = await curl("POST", "/v1/locks/acquire", ACQUIRE);
    expect(status).toBe(200);
    expect(body).toMatchObject({ acquired: false, ownerId: "worker-7", remainingMs: 60_000 });
    expect(JSON.stringify(body)).not.toContain(leaseId);
  });

  it("POST /v1/locks/{leaseId}/renew extends it: as printed without a body, and as the client sends it", async () => {
    await server.advance(20_000);
    const bare = await curl("POST", `/v1/locks/${leaseId}/renew`);
    expect(bare.status).toBe(200);
    expect(bare.body).toMatchObject({ fencingToken, remainingMs: 60_000 });
    const said = await curl("POST", `/v1/locks/${leaseId}/renew`, '{ "ttlSeconds": 60 }');
    expect(said.body).toMatchObject({ fencingToken, expiresAt: "2026-04-08T10:16:50.000Z" });
  });

  it("shows the record of the article, but for the leaseId", async () => {
    const { status, body } = await curl("GET", "/v1/locks?prefix=tenant_123:");
    expect(status).toBe(200);
    expect(body.items).toHaveLength(1);
    expect(body.items[0]).toMatchObject({
      resource: RESOURCE,
      ownerId: "worker-7",
      fencingToken,
      expiresAt: "2026-04-08T10:16:50.000Z",
      createdAt: "2026-04-08T10:15:30.000Z",
    });
    expect(JSON.stringify(body)).not.toContain(leaseId);
  });

  it("DELETE /v1/locks/{leaseId} releases it, and the next grant has a larger token", async () => {
    expect((await curl("DELETE", `/v1/locks/${leaseId}`)).status).toBe(200);
    const { body } = await curl("POST", "/v1/locks/acquire", ACQUIRE);
    expect(body.acquired).toBe(true);
    expect(body.fencingToken).toBeGreaterThan(fencingToken);
    // A release of the former grant does not touch this one.
    await curl("DELETE", `/v1/locks/${leaseId}`);
    expect((await curl("GET", `/v1/locks/${body.leaseId}`)).status).toBe(200);
  });

  it("a token is larger also when the lock was taken over after its expiry", async () => {
    const resource = '{ "resource": "index-rebuild", "ownerId": "a", "ttlSeconds": 1 }';
    const first = (await curl("POST", "/v1/locks/acquire", resource)).body;
    await server.advance(1_001);
    const second = (await curl("POST", "/v1/locks/acquire", resource)).body;
    expect(second.acquired).toBe(true);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    const late = await curl("POST", `/v1/locks/${first.leaseId}/renew`);
    expect(late.status).toBe(409);
    expect(late.body.code).toBe("LEASE_TAKEN");
  });

  it("the leaseId as printed is unknown: ours name their resource", async () => {
    const renewed = await curl("POST", "/v1/locks/lease_abc/renew");
    expect(renewed.status).toBe(404);
    expect(renewed.body.code).toBe("UNKNOWN_LEASE");
    expect((await curl("DELETE", "/v1/locks/lease_abc")).status).toBe(404);
  });
});

describe("the lease service of the article", () => {
  const NAMES = `{
    "resource": "resource_name",
    "holder": "holder_name"
}`;
  const OTHER = NAMES.replace("holder_name", "another_name");
  let id: string;
  let fencingToken: number;

  it("POST /api/leases grants 30 seconds", async () => {
    const { status, body } = await curl("POST", "/api/leases", NAMES);
    expect(status).toBe(201);
    expect(body).toMatchObject({
      resource: "resource_name",
      holder: "holder_name",
      remainingMs: 30_000,
      renewed_at: null,
      released_at: null,
    });
    ({ id, fencingToken } = body);
    const again = await curl("POST", "/api/leases", OTHER);
    expect(again.status).toBe(409);
    expect(again.body).toMatchObject({ code: "LEASE_HELD", holder: "holder_name" });
  });

  it("PUT /api/leases/renew extends it, for its holder alone", async () => {
    await server.advance(20_000);
    const { status, body } = await curl("PUT", "/api/leases/renew", NAMES);
    expect(status).toBe(200);
    expect(body).toMatchObject({ id, fencingToken, remainingMs: 30_000 });
    expect(Date.parse(body.renewed_at) - Date.parse(body.created_at)).toBe(20_000);
    expect((await curl("PUT", "/api/leases/renew", OTHER)).status).toBe(404);
    const unknown = NAMES.replace("resource_name", "never_leased");
    expect((await curl("PUT", "/api/leases/renew", unknown)).status).toBe(404);
  });

  it("GET /api/leases, active, renewed and [id] show it, and who is at work", async () => {
    const all = await curl("GET", "/api/leases");
    expect(all.status).toBe(200);
    expect(all.body.items.map((lease: { id: string }) => lease.id)).toContain(id);
    const [worker] = all.body.workers.filter(
      ({ holder }: { holder: string }) => holder === "holder_name",
    );
    expect(worker).toMatchObject({
      lastHeartbeatAt: expect.any(String),
      holds: ["resource_name"],
    });
    for (const list of ["active", "renewed"]) {
      const { items } = (await curl("GET", `/api/leases/${list}`)).body;
      expect(
        items.map((lease: { id: string }) => lease.id),
        list,
      ).toContain(id);
    }
    const one = await curl("GET", `/api/leases/${id}`);
    expect(one.body).toMatchObject({ id, resource: "resource_name", state: "live" });
  });

  it("DELETE /api/leases/release ends it at once, also when it is repeated", async () => {
    expect((await curl("DELETE", "/api/leases/release", OTHER)).status).toBe(404);
    for (const _ of [1, 2]) {
      const { status, body } = await curl("DELETE", "/api/leases/release", NAMES);
      expect(status).toBe(200);
      expect(body).toMatchObject({ id, state: "released", released_at: expect.any(String) });
    }
    const { items } = (await curl("GET", "/api/leases/released")).body;
    expect(items).toContainEqual(expect.objectContaining({ id }));
  });

  it("DELETE /api/leases/[id] ends that lease and no other", async () => {
    const next = await curl("POST", "/api/leases", NAMES);
    expect(next.status).toBe(201);
    expect(next.body.fencingToken).toBeGreaterThan(fencingToken);
    expect((await curl("DELETE", `/api/leases/${id}`, NAMES)).status).toBe(409);
    expect((await curl("GET", `/api/leases/${next.body.id}`)).body.state).toBe("live");
    const ended = await curl("DELETE", `/api/leases/${next.body.id}`, NAMES);
    expect(ended).toMatchObject({ status: 200, body: { state: "released" } });
  });

  it("GET /api/leases/expired lists an expired lease, which can no longer be renewed", async () => {
    const { body } = await curl("POST", "/api/leases", NAMES);
    await server.advance(30_001);
    const { items } = (await curl("GET", "/api/leases/expired")).body;
    expect(items).toContainEqual(expect.objectContaining({ id: body.id, released_at: null }));
    const late = await curl("PUT", "/api/leases/renew", NAMES);
    expect(late).toMatchObject({ status: 409, body: { code: "LEASE_EXPIRED" } });
    expect((await curl("POST", "/api/leases", OTHER)).status).toBe(201);
  });
});

describe("the task processor of the article", () => {
  it("POST /api/tasks/next, PUT heartbeat and complete, with what next answered", async () => {
    const added = await curl(
      "POST",
      "/api/tasks",
      '{ "task_data": {"sleep_duration_seconds": 5} }',
    );
    expect(added.status).toBe(201);
    const { id } = added.body;
    const next = await curl("POST", "/api/tasks/next", '{ "processor": "task-processor" }');
    expect(next.status).toBe(200);
    expect(next.body.tasks).toMatchObject([{ id, task_data: { sleep_duration_seconds: 5 } }]);
    const { leaseId, fencingToken } = next.body.tasks[0];

    const byName = '{ "processor": "task-processor" }';
    expect((await curl("PUT", `/api/tasks/${id}/heartbeat`, byName)).status).toBe(422);
    const grant = `"processor": "task-processor", "leaseId": "${leaseId}", "fencingToken": ${fencingToken}`;
    expect((await curl("PUT", `/api/tasks/${id}/heartbeat`, `{ ${grant} }`)).status).toBe(202);
    expect((await curl("GET", "/api/tasks/started")).body.items).toMatchObject([{ id }]);
    const output = `{ ${grant}, "task_output": { "slept": 5 } }`;
    expect((await curl("PUT", `/api/tasks/${id}/complete`, output)).status).toBe(202);
    expect((await curl("PUT", `/api/tasks/${id}/complete`, output)).body.repeated).toBe(true);

    expect((await curl("GET", "/api/tasks/processed")).body.items).toMatchObject([{ id }]);
    expect((await curl("GET", "/api/tasks")).body.items).toMatchObject([{ id }]);
    const task = await curl("GET", `/api/tasks/${id}`);
    expect(task.body).toMatchObject({ processor: "task-processor", task_output: { slept: 5 } });
  });

  it("no task is 204, an unknown one 404, a former holder's 409", async () => {
    expect(await curl("POST", "/api/tasks/next", '{ "processor": "a" }')).toEqual({
      status: 204,
      body: null,
    });
    expect((await curl("GET", "/api/tasks/17")).status).toBe(404);
    const { id } = (await curl("POST", "/api/tasks", '{ "task_data": 1 }')).body;
    const none = '{ "leaseId": "none", "fencingToken": 1 }';
    expect((await curl("PUT", `/api/tasks/${id}/complete`, none)).status).toBe(404);
    const next = await curl("POST", "/api/tasks/next", '{ "processor": "a" }');
    const { leaseId, fencingToken } = next.body.tasks[0];
    const former = JSON.stringify({ leaseId, fencingToken });
    await curl("PUT", `/api/tasks/${id}/return`, former);
    await curl("POST", "/api/tasks/next", '{ "processor": "b" }');
    expect((await curl("PUT", `/api/tasks/${id}/complete`, former)).status).toBe(409);
  });
});
