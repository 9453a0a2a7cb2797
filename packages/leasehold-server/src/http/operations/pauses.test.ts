import type { Pause, Role } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { withLeasesApart } from "../../../../leasehold/src/control/index.js";
import { nextTurn, systemEnv } from "../../../../leasehold/src/env/index.js";
import { Pauses } from "./pauses.js";

const pause = (kind: Pause["kind"], name: string): Pause => ({
  namespace: "n",
  kind,
  name,
  actor: "a",
  reason: "r",
  since: "",
});
const key = (resource: string, namespace = "n") => ({ namespace, resource });

function open(leasesApart = false) {
  const env = manualEnv();
  let answer = async (): Promise<readonly Pause[]> => [];
  const control = { leasesApart, pauses: { list: () => answer() } };
  const pauses = new Pauses(control, env);
  onTestFinished(() => pauses.stop());
  return {
    env,
    pauses,
    answers: (next: () => Promise<readonly Pause[]>) => {
      answer = next;
    },
  };
}

it("refuses resources below a paused prefix, and paused resources only if their store does not", async () => {
  for (const apart of [false, true]) {
    const { pauses, answers } = open(apart);
    answers(async () => [pause("prefix", "billing/"), pause("resource", "r"), pause("queue", "q")]);
    expect(await pauses.covers(key("billing/1"))).toBe(true);
    expect(pauses.covers(key("billing"))).toBe(false);
    expect(pauses.covers(key("billing/1", "other"))).toBe(false);
    expect(pauses.covers(key("r"))).toBe(apart);
    expect(await pauses.openQueues("n", ["q", "p"])).toEqual(["p"]);
    expect(await pauses.openQueues("n", ["q"])).toEqual([""]);
    expect(await pauses.openQueues("other", ["q"])).toEqual(["q"]);
  }
});

it("grants nothing before the first read, then continues with the known pauses", async () => {
  const { env, pauses, answers } = open();
  answers(async () => Promise.reject(new Error("unavailable")));
  await expect(pauses.covers(key("r"))).rejects.toThrow("unavailable");
  await expect(pauses.openQueues("n", ["q"])).rejects.toThrow("unavailable");
  answers(async () => [pause("prefix", "r")]);
  expect(await pauses.covers(key("r"))).toBe(true);
  answers(async () => Promise.reject(new Error("unavailable")));
  await env.clock.advance(5_000);
  expect(pauses.covers(key("r"))).toBe(true);
  answers(async () => []);
  await env.clock.advance(20_000);
  expect(pauses.covers(key("r"))).toBe(false);
});

it("shares one read under way and one after it, and waits for a read that began after the call", async () => {
  const { env, pauses, answers } = open();
  const reads: ((list: readonly Pause[]) => void)[] = [];
  answers(() => new Promise((resolve) => reads.push(resolve)));
  const answered: string[] = [];
  const refresh = (name: string) => pauses.refresh().then(() => answered.push(name));
  const first = [refresh("a"), refresh("b")];
  await env.clock.settle();
  expect(reads).toHaveLength(1);
  const second = [refresh("c"), refresh("d"), refresh("e")];
  await env.clock.settle();
  expect(reads).toHaveLength(1);
  reads[0]?.([]);
  await Promise.all(first);
  await env.clock.settle();
  expect(answered).toEqual(["a", "b"]);
  expect(reads).toHaveLength(2);
  reads[1]?.([pause("prefix", "r")]);
  await Promise.all(second);
  expect(pauses.covers(key("r"))).toBe(true);
  expect(reads).toHaveLength(2);
});

it("reads again after a shared read has failed", async () => {
  const { pauses, answers } = open();
  answers(async () => Promise.reject(new Error("unavailable")));
  const failing = [pauses.refresh(), pauses.refresh()];
  for (const refreshed of failing) await expect(refreshed).rejects.toThrow("unavailable");
  answers(async () => [pause("prefix", "r")]);
  await pauses.refresh();
  expect(pauses.covers(key("r"))).toBe(true);
});

/** An app whose reads of all pauses are counted, and wait while there is a gate. */
async function counted() {
  const { control, ...stores } = await memory().open(systemEnv);
  if (!control) throw new Error("memory keeps a control");
  const reads = { ofAll: 0, ofTenant: 0, set: 0 };
  const gate: { open?: Promise<void>; onSet?: () => void } = {};
  const app = await openApp({
    ...stores,
    control: {
      ...control,
      pauses: {
        async list(namespace) {
          reads[namespace === null ? "ofAll" : "ofTenant"] += 1;
          await gate.open;
          return control.pauses.list(namespace);
        },
      },
      async perform(...args) {
        const value = await control.perform(...args);
        reads.set += 1;
        gate.onSet?.();
        return value;
      },
    },
  });
  onTestFinished(() => app.close());
  const put = (name: string) => app.ask("PUT", "/v1/pauses", { kind: "prefix", name, reason: "x" });
  return { app, control, reads, gate, put };
}

it("shows holders the pauses that concern what they may acquire or claim", async () => {
  const tenants = openTenants(await memory().open(systemEnv), systemEnv);
  onTestFinished(() => tenants.app.close());
  const key = async (...[role, options]: [Role, { prefixes?: string[] }?]) =>
    (await tenants.newKey("n", role, options)).text;
  const operator = await key("operator");
  for (const [kind, name] of [
    ["resource", "web/a"],
    ["resource", "web"],
    ["resource", "db/a"],
    ["prefix", ""],
    ["prefix", "we"],
    ["prefix", "web/a/"],
    ["prefix", "db/"],
    ["queue", "web/q"],
  ]) {
    const body = { kind, name, reason: "test" };
    expect((await tenants.ask(operator, { method: "PUT", path: "/v1/pauses", body })).status).toBe(
      200,
    );
  }
  const shown = async (asker: string) => {
    const { text } = await tenants.ask(asker, { method: "GET", path: "/v1/pauses" });
    const { items } = JSON.parse(text) as { items: Pause[] };
    return items.map(({ kind, name }) => `${kind} ${name}`);
  };
  const ofWeb = ["prefix ", "prefix we", "prefix web/a/", "resource web/a"];
  expect(await shown(await key("holder", { prefixes: ["web/"] }))).toEqual(ofWeb);
  const several = await key("holder", { prefixes: ["x/", "web/", "task:1"] });
  expect(await shown(several)).toEqual(ofWeb);
  expect(await shown(await key("holder", { prefixes: ["tas"] }))).toEqual([
    "prefix ",
    "queue web/q",
  ]);
  for (const role of ["viewer", "operator", "admin"] as const) {
    expect(await shown(await key(role))).toHaveLength(8);
  }
  expect(await shown(await key("holder", { prefixes: [""] }))).toHaveLength(8);
});

it("takes a queue of any name, but no resource of a task", async () => {
  const { app } = await counted();
  const put = async (kind: Pause["kind"]) => {
    const body = { kind, name: "task:mails", reason: "x" };
    return (await app.ask("PUT", "/v1/pauses", body)).status;
  };
  expect([await put("queue"), await put("prefix"), await put("resource")]).toEqual([200, 422, 422]);
});

it("reads the pauses for many concurrent changes as often as for two", async () => {
  const { app, reads, gate, put } = await counted();
  await put("first");
  Object.assign(reads, { ofAll: 0, ofTenant: 0, set: 0 });
  let release = () => {};
  gate.open = new Promise((resolve) => {
    release = resolve;
  });
  const allSet = new Promise<void>((resolve) => {
    gate.onSet = () => reads.set === 20 && resolve();
  });
  const names = Array.from({ length: 20 }, (_, at) => `billing/${at}`);
  const answers = names.map(put);
  await allSet;
  await nextTurn();
  release();
  for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
  expect(reads.ofTenant).toBe(0);
  // The background read may be among them.
  expect(reads.ofAll).toBeLessThanOrEqual(3);
  const acquired = await app.ask("POST", "/v1/locks/acquire", {
    resource: "billing/19/x",
    ownerId: "o",
  });
  expect(acquired.body).toMatchObject({ acquired: false, ownerId: "paused" });
});

it("limits the pauses of a tenant, and takes into account what other instances have changed", async () => {
  const { control, put } = await counted();
  const at = { namespace: "default", kind: "prefix", actor: "a", reason: "r" } as const;
  for (let made = 0; made < 999; made += 1) {
    await control.actors.pauses.set({ ...at, name: `made/${made}` });
  }
  const statusOf = async (name: string) => (await put(name)).status;
  expect(await statusOf("a")).toBe(200);
  expect(await statusOf("b")).toBe(429);
  expect(await statusOf("made/1")).toBe(200);
  await control.actors.pauses.clear({ ...at, name: "made/2" });
  expect(await statusOf("c")).toBe(200);
  expect(await statusOf("d")).toBe(429);
});

it("counts the pauses of all kinds of one tenant, and has room for those that exist", async () => {
  const { pauses, answers } = open();
  answers(async () => [pause("resource", "x"), pause("prefix", "x"), pause("queue", "x")]);
  const hasRoom = (kind: Pause["kind"], name: string, namespace = "n") =>
    Promise.all([3, 4].map((most) => pauses.hasRoom({ namespace, kind, name }, most)));
  for (const kind of ["resource", "prefix", "queue"] as const) {
    expect(await hasRoom(kind, "y")).toEqual([false, true]);
    expect(await hasRoom(kind, "x")).toEqual([true, true]);
    expect(await hasRoom(kind, "y", "other")).toEqual([true, true]);
  }
});

it("pauses a resource whose lease is in another store than the pause", async () => {
  const env = manualEnv();
  const [leases, kept] = [await memory().open(env), await memory().open(env)];
  if (!kept.control) throw new Error("memory keeps a control");
  const control = withLeasesApart(kept.control, leases.leases);
  const app = await openApp({ env, leases: leases.leases, tasks: kept.tasks, control });
  onTestFinished(() => app.close());
  const acquire = async () =>
    (await app.ask("POST", "/v1/locks/acquire", { resource: "r", ownerId: "o" })).body;
  await app.ask("PUT", "/v1/pauses", { kind: "resource", name: "r", reason: "x" });
  expect(await acquire()).toMatchObject({ acquired: false, ownerId: "paused" });
  await app.ask("DELETE", "/v1/pauses?kind=resource&name=r");
  expect(await acquire()).toMatchObject({ acquired: true });
  const revoked = await app.ask("POST", "/v1/leases/revoke", [{ resource: "r", reason: "x" }]);
  expect(revoked.body).toMatchObject([{ status: "revoked" }]);
  const { body } = await app.ask("GET", "/v1/audit?action=lease.revoke");
  const phases = body.items.map(({ phase }: { phase: string }) => phase);
  expect(phases).toEqual(["result", "intent"]);
});
