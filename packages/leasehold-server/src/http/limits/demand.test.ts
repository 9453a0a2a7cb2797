/** What counts as in flight at an instance, and how much of it one tenant may use. */
import { nextTurn } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { TEST_LIMITS } from "../../../../../tests/support/server/test-limits.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";
import { createApp } from "../index.js";
import { Admission, Demand } from "./admission.js";

const NEXT = "/api/tasks/next";

function newAdmission(limits: ConstructorParameters<typeof Admission>[1]) {
  const env = manualEnv();
  const admission = new Admission(env.clock, limits);
  onTestFinished(() => admission.close());
  /** How many more demands of this tenant are admitted at once. */
  const admit = (tenant: string | null) => {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(tenant); leave; leave = admission.enter(tenant)) {
      leaving.push(leave);
    }
    return leaving;
  };
  return { env, admission, admit };
}

it("one tenant may use half of the room, and callers that cannot be distinguished all of it", () => {
  const { admit } = newAdmission({ inFlight: 10, lateMs: null });
  const ofA = admit("a");
  expect(ofA).toHaveLength(5);
  expect(admit("b")).toHaveLength(5);
  for (const leave of ofA) leave();
  expect(admit(null)).toHaveLength(5);
});

it("what a tenant has beyond its share after a reduction leaves room for the others", async () => {
  const { env, admission, admit } = newAdmission({ inFlight: 256, lateMs: 250 });
  const [first, ...ofA] = admit("a");
  expect(ofA).toHaveLength(127);
  // One fast answer, then one that is very late: the room falls to a quarter.
  admission.enter("b")?.();
  await env.clock.advance(5_000);
  first?.();
  expect(admission.isFull).toBe(false);
  expect(admit("a")).toHaveLength(0);
  expect(admit("b")).toHaveLength(32);
});

it("a paused demand occupies nothing, and its pause does not reduce the limit", async () => {
  const { env, admission, admit } = newAdmission({ inFlight: 256, lateMs: 250 });
  admission.enter()?.();
  const paused = Array.from({ length: 256 }, () => {
    const demand = new Demand(admission, false);
    demand.resume("a");
    demand.pause();
    return demand;
  });
  await env.clock.advance(60_000);
  for (const demand of paused) {
    expect(demand.resume("a")).toBe(true);
    demand.end();
  }
  expect(admit(null)).toHaveLength(256);
  expect(paused[0]?.resume("a")).toBe(false);
});

it("what a demand has taken before it pauses says nothing of the store", async () => {
  const { env, admission, admit } = newAdmission({ inFlight: 256, lateMs: 250 });
  admission.enter()?.();
  const demand = new Demand(admission, false);
  demand.resume(null);
  await env.clock.advance(5_000);
  demand.pause();
  expect(admit(null)).toHaveLength(256);
});

it("what a store in this process answers within a turn counts until the turn ends", async () => {
  // A tenant has half of it.
  const { app, b } = await open({ inFlight: 4 });
  const answer = { unsent: () => 0, bytes: () => 0, onEnd: () => {} };
  const ask = async () => {
    const headers = { authorization: `Bearer ${b}` };
    const request = new Request("http://x/v1/whoami", { headers });
    return (await app.fetch(request, { answer })).status;
  };
  // The first one also reads the key.
  await ask();
  await nextTurn();
  expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
  await nextTurn();
  expect(await ask()).toBe(200);
});

async function open(limits: object) {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env);
  const a = await tenants.newKey("a", "admin");
  const viewer = await tenants.newKey("a", "viewer");
  const b = await tenants.newKey("b", "admin");
  const app = createApp({
    ...stores,
    env,
    auth: "keys",
    limits: { ...TEST_LIMITS, ...limits },
    version: "1",
  });
  onTestFinished(async () => {
    await app.close();
    await tenants.app.close();
    await stores.close();
  });
  const ask = (key: string, method: string, path: string, init: object = {}, length?: number) => {
    const headers = new Headers({
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
    });
    if (length !== undefined) headers.set("content-length", `${length}`);
    return app.fetch(new Request(`http://x${path}`, { method, headers, ...init }));
  };
  /** Sends a request whose body has not arrived yet. */
  const upload = (key: string, path: string, bytes?: number) => {
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (of) => {
        controller = of;
      },
    });
    const answer = ask(key, "POST", path, { body, duplex: "half" }, bytes);
    const finish = (text: string) => {
      controller?.enqueue(new TextEncoder().encode(text.padEnd(bytes ?? 0)));
      controller?.close();
      return answer;
    };
    return { answer, finish };
  };
  return { env, app, a: a.text, viewer: viewer.text, b: b.text, ask, upload };
}

it.each([
  ["of a known length", 100],
  ["in chunks", undefined],
])(
  "bodies %s of one tenant that have not arrived refuse no demand of another",
  async (_, bytes) => {
    const { env, viewer, b, ask, upload } = await open({ inFlight: 4, tenantInFlight: 8 });
    const uploads = [];
    for (let count = 0; count < 8; count += 1) {
      uploads.push(upload(viewer, "/v1/leases/get", bytes));
      await env.clock.settle();
    }
    // The ninth is refused, as the tenant has as many in flight as it may.
    const refused = await upload(viewer, "/v1/leases/get", bytes).answer;
    expect(await refused.json()).toMatchObject({ code: "TOO_MANY_REQUESTS" });
    expect((await ask(b, "GET", "/v1/leases")).status).toBe(200);
    // An empty batch is invalid, which is known when it has arrived.
    for (const { finish } of uploads) expect((await finish("[]")).status).toBe(422);
  },
);

it("a body that a route does not take refuses no demand while it has not arrived", async () => {
  const { env, app, viewer, b, ask } = await open({ inFlight: 2 });
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  async function* bodyOfGet() {
    await arrived;
    yield new TextEncoder().encode("{}");
  }
  const answers = [];
  for (let count = 0; count < 4; count += 1) {
    const headers = { authorization: `Bearer ${viewer}` };
    answers.push(app.fetch(new Request("http://x/v1/leases", { headers }), { bodyOfGet }));
    await env.clock.settle();
  }
  expect((await ask(b, "GET", "/v1/leases")).status).toBe(200);
  arrive();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  // All arrive at once, and a tenant has half of the room.
  expect(statuses.toSorted()).toEqual([200, 429, 429, 429]);
});

it("the body of a claim counts in its tenant until it has arrived, and the wait then does not", async () => {
  const { env, app, a, b, ask, upload } = await open({ tenantInFlight: 2 });
  const claim = JSON.stringify({ processor: "p", waitMs: 20_000 });
  const waits = [];
  for (let round = 0; round < 2; round += 1) {
    const uploads = [upload(a, NEXT, 200), upload(a, NEXT, 200)];
    await env.clock.settle();
    const refused = await upload(a, NEXT, 200).answer;
    expect(await refused.json()).toMatchObject({ code: "TOO_MANY_REQUESTS" });
    expect((await ask(a, "GET", "/v1/leases")).status).toBe(200);
    const other = upload(b, NEXT, 200);
    await env.clock.settle();
    expect((await other.finish("{}")).status).toBe(422);
    for (const { finish } of uploads) waits.push(finish(claim));
    await env.clock.settle();
  }
  await app.close();
  for (const answer of await Promise.all(waits)) expect(answer.status).toBe(204);
});

it("a claim that is refused before its body has arrived leaves", async () => {
  const { viewer, upload } = await open({ tenantInFlight: 1 });
  for (let round = 0; round < 3; round += 1) {
    expect((await upload(viewer, NEXT, 200).answer).status).toBe(403);
  }
});
