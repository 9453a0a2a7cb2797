/** /v1/tasks/limits as programs, operators and tenants call it; the conformance suite has what limits do. */
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { createApp } from "../index.js";

const PATH = "/v1/tasks/limits";
const LIMIT = { scope: "kind", name: "report", running: 2, rate: { limit: 9, perMs: 60_000 } };

describe("the limits of kinds and queues", () => {
  it("are declared by programs, without an audit entry, and name the caller", async () => {
    const { ask } = await openTestApp();
    const headers = { "leasehold-actor": "worker%201" };
    const declared = await ask("PUT", PATH, LIMIT, { headers });
    expect(declared).toMatchObject({
      status: 200,
      body: { scope: "kind", name: "report", change: "added" },
    });
    expect((await ask("PUT", PATH, LIMIT)).body.change).toBe("none");
    const { items } = (await ask("GET", PATH)).body;
    expect(items).toMatchObject([{ ...LIMIT, declaredBy: "worker 1", live: 0, by: [] }]);
    const longer = { ...LIMIT, rate: { limit: 9, perMs: 60_001 } };
    expect((await ask("PUT", PATH, longer)).body.change).toBe("changed");
    expect((await ask("GET", PATH)).body.items[0].declaredBy).toBe("anyone");
    expect((await ask("GET", "/v1/audit")).body.items).toEqual([]);
  });

  it("are set and removed by operators, each with an audit entry that says which", async () => {
    const { ask } = await openTestApp();
    const headers = { "leasehold-actor": "ada" };
    const queue = { scope: "queue", name: "report", running: null, rate: LIMIT.rate };
    await ask("PUT", PATH, LIMIT);
    const set = await ask("POST", `${PATH}?reason=slow`, queue, { headers });
    expect(set.body).toEqual({ scope: "queue", name: "report", change: "added" });
    const listed = (await ask("GET", PATH)).body.items;
    expect(listed).toMatchObject([LIMIT, { ...queue, declaredBy: "ada" }]);
    const remove = `${PATH}?scope=queue&name=report&reason=over`;
    expect((await ask("DELETE", remove)).body).toMatchObject({ wasDeclared: true });
    expect((await ask("DELETE", remove)).body).toMatchObject({ wasDeclared: false });
    expect((await ask("GET", PATH)).body.items).toMatchObject([LIMIT]);
    const entries = (await ask("GET", "/v1/audit")).body.items.filter(
      ({ phase }: { phase: string }) => phase === "result",
    );
    expect(entries).toMatchObject([
      { action: "taskLimit.remove", details: { outcome: false } },
      { action: "taskLimit.remove", target: "queue report", details: { outcome: true } },
      {
        action: "taskLimit.set",
        target: "queue report",
        reason: "slow",
        claimedActor: "ada",
        details: { running: null, rate: LIMIT.rate, outcome: "added" },
      },
    ]);
  });

  it.each([
    [{ scope: "kind", name: "a" }, ""],
    [{ ...LIMIT, scope: "tenant" }, "scope"],
    [{ ...LIMIT, name: "" }, "name"],
    [{ ...LIMIT, running: 0 }, "running"],
    [{ ...LIMIT, running: 100_001 }, "running"],
    [{ ...LIMIT, rate: { limit: 1, perMs: 0 } }, "rate.perMs"],
    [{ ...LIMIT, rate: { limit: 1, perMs: 86_400_001 } }, "rate.perMs"],
    [{ ...LIMIT, rate: { limit: 1 } }, "rate.perMs"],
    [{ ...LIMIT, runing: 1 }, "runing"],
  ])("are refused as %j", async (wrong, path) => {
    const { ask } = await openTestApp();
    for (const [method, query] of [
      ["PUT", ""],
      ["POST", "?reason=test"],
    ] as const) {
      const answer = await ask(method, `${PATH}${query}`, wrong);
      expectProblem(answer, 422, "INVALID_REQUEST");
      expect(answer.body.errors[0].path).toContain(path);
    }
    expect((await ask("GET", PATH)).body.items).toEqual([]);
  });

  it("are at most a thousand of a tenant, for programs and operators", async () => {
    const { ask } = await openTestApp();
    for (let n = 0; n < 1_000; n += 1) await ask("PUT", PATH, { ...LIMIT, name: `kind ${n}` });
    expectProblem(await ask("PUT", PATH, LIMIT), 429, "LIMIT_REACHED");
    expectProblem(await ask("POST", `${PATH}?reason=test`, LIMIT), 429, "LIMIT_REACHED");
    const known = { ...LIMIT, name: "kind 7", running: 1 };
    expect((await ask("PUT", PATH, known)).body.change).toBe("changed");
  });

  it("are those of a tenant, and a holder declares but neither sets nor removes them", async () => {
    const env = manualEnv();
    const { app, ask, newKey } = openTenants(await memory().open(env), env);
    onTestFinished(() => app.close());
    const [holder, viewer] = [await newKey("a", "holder"), await newKey("a", "viewer")];
    const [operator, other] = [await newKey("a", "operator"), await newKey("b", "operator")];
    const send = async (key: { text: string }, method: string, query = "", body?: unknown) =>
      ask(key.text, { method, path: `${PATH}${query}`, ...(body !== undefined && { body }) });
    expect((await send(holder, "PUT", "", LIMIT)).status).toBe(200);
    expect((await send(holder, "POST", "?reason=test", LIMIT)).status).toBe(403);
    const remove = "?scope=kind&name=report";
    expect((await send(holder, "DELETE", `${remove}&reason=test`)).status).toBe(403);
    expect((await send(viewer, "PUT", "", LIMIT)).status).toBe(403);
    expect((await send(operator, "POST", "", LIMIT)).status).toBe(422);
    expect((await send(operator, "DELETE", remove)).status).toBe(422);
    const { text } = await send(other, "DELETE", `${remove}&reason=test`);
    expect(JSON.parse(text)).toMatchObject({ wasDeclared: false });
    const lists = await Promise.all([viewer, other].map((key) => send(key, "GET")));
    const names = lists.map((list) =>
      (JSON.parse(list.text) as { items: { name: string }[] }).items.map(({ name }) => name),
    );
    expect(names).toEqual([["report"], []]);
    expect((await send(operator, "DELETE", `${remove}&reason=test`)).status).toBe(200);
    expect(JSON.parse((await send(viewer, "GET")).text)).toEqual({ items: [] });
  });

  it("need a store of tasks that keeps them", async () => {
    const { tasks, ...stores } = await memory().open(manualEnv());
    const without = Object.assign(Object.create(tasks) as typeof tasks, { limits: undefined });
    const app = createApp({ ...stores, tasks: without, auth: "none", version: "test" });
    onTestFinished(() => app.close());
    const answer = await app.fetch(new Request(`http://localhost${PATH}`));
    expect(answer.status).toBe(501);
    expect(await answer.json()).toMatchObject({ code: "NO_TASK_LIMITS" });
  });
});
