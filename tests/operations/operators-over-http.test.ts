/** What operators see and do with the command line on an http:// store, by real processes. */
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  Cli,
  checkBuild,
  endAll,
  leasehold,
  type Serving,
  serve,
} from "../support/processes/cli.js";
import { openLiveServer } from "../support/server/http-story.js";

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterEach(() => endAll(server.cli));
afterAll(() => endAll());

const text = async (...args: string[]) => {
  const { code, stdout, stderr } = await leasehold([...args, "--store", server.url]);
  return { code, out: stdout.trim(), stderr };
};

it("ls, show and why say when a revoked lease is free", async () => {
  await using leases = await connect(server.url, { holder: "ann", graceMs: 0 });
  await leases.acquire("revoked/a", { ttlMs: 600_000, autoRenew: false });
  expect((await text("revoke", "revoked/a", "--reason", "stuck")).code).toBe(0);
  const [ls, live, json, show, why] = await Promise.all([
    text("ls", "revoked/"),
    text("ls", "revoked/", "--state", "live"),
    text("ls", "revoked/", "--json"),
    text("show", "revoked/a"),
    text("why", "revoked/a"),
  ]);
  expect(ls.out).toMatch(/^revoked\/a +revoked +ann .* free in (9m|10m)/m);
  expect(live.out).toBe("no leases");
  const [item] = (JSON.parse(json.out) as { items: { freeInMs: number }[] }).items;
  expect(item?.freeInMs).toBeGreaterThan(500_000);
  expect(show.out).toMatch(/ttl 10m(in)?, free in /);
  expect(why).toMatchObject({ code: 75 });
  expect(why.out).toMatch(/still excludes other holders for another (9m|10m)/);
  expect((await text("revoke", "revoked/a", "--at", "now", "--reason", "stuck")).code).toBe(0);
  expect((await text("ls", "revoked/")).out).toBe("no leases");
}, 30_000);

it("the audit log shows --actor as a claim, and FORCE_UNLOCK is an alias of its action", async () => {
  await using leases = await connect(server.url, { holder: "ann", graceMs: 0 });
  await leases.acquire("audited", { ttlMs: 600_000, autoRenew: false });
  const why = ["--reason", "stuck", "--actor", "zoë"];
  expect((await text("revoke", "audited", ...why)).code).toBe(0);
  expect((await text("pause", "--prefix", "audited/", ...why)).code).toBe(0);
  expect((await text("resume", "--prefix", "audited/", ...why)).code).toBe(0);

  const list = await text("audit", "list", "--action", "FORCE_UNLOCK", "--target", "audited");
  expect(list.out).toMatch(/anyone, claims cli:zoë +lease\.revoke +"audited" +result +stuck/);
  const json = await text("audit", "list", "--limit", "5", "--json");
  const entries = JSON.parse(json.out) as { actor: string; claimedActor: string }[];
  expect(entries).toHaveLength(5);
  for (const entry of entries)
    expect(entry).toMatchObject({ actor: "anyone", claimedActor: "cli:zoë" });
  expect(await text("audit", "verify")).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^entries: \d+, all unchanged/),
  });
  const all = await text("audit", "list", "--all");
  expect(all).toMatchObject({ code: 64, stderr: expect.stringContaining("must be one tenant") });
}, 30_000);

it("keys list asks the server", async () => {
  const own = await serve("memory:keys");
  const create = async (name: string, key?: string) => {
    const response = await fetch(`${own.url}/v1/keys`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify({ name, role: "admin", reason: "test" }),
    });
    return ((await response.json()) as { key: string }).key;
  };
  const key = await create("first");
  await create("second", key);
  const keys = (...args: string[]) =>
    leasehold(["keys", "list", ...args, "--store", own.url], { env: { LEASEHOLD_KEY: key } });
  await expect.poll(async () => (await keys()).stdout).toMatch(/admin .* second +good/);
  const { stdout, stderr } = await keys("--limit", "1", "--json");
  expect(JSON.parse(stdout)).toMatchObject([{ name: "second" }]);
  expect(stderr).toContain("there is more than 1 key: raise --limit");
  expect(stdout).not.toContain(key);
}, 30_000);

it("the demo's worker takes a task that was posted without a kind", async () => {
  const own = await serve("memory:kinds");
  const handlers = "packages/leasehold-server/dist/demo/sleep.js";
  new Cli(["worker", "--handlers", handlers, "--store", own.url]);
  const body = JSON.stringify({ task_data: { sleep_duration_seconds: 0.2 } });
  const headers = { "content-type": "application/json" };
  const added = await fetch(`${own.url}/api/tasks`, { method: "POST", headers, body });
  const { id } = (await added.json()) as { id: string };
  const task = async () =>
    (await (await fetch(`${own.url}/api/tasks/${id}`)).json()) as { state: string; kind: string };
  await expect.poll(task, { timeout: 20_000 }).toMatchObject({ kind: "default", state: "done" });
}, 30_000);

it("tasks warns about a kind that no live worker handles", async () => {
  // The time of this server is long past, so its tasks are long due.
  const own = await openLiveServer();
  onTestFinished(() => own.close());
  const list = () => leasehold(["tasks", "--store", own.url]);
  const json = async () =>
    JSON.parse((await leasehold(["tasks", "--json", "--store", own.url])).stdout) as object;
  const post = async (path: string, body: object) =>
    (
      await fetch(`${own.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      })
    ).status;
  expect((await list()).stderr).toBe("");
  expect(await post("/api/tasks", { task_data: { sleep_duration_seconds: 5 } })).toBe(201);
  const { code, stderr } = await list();
  expect(code).toBe(0);
  expect(stderr).toContain(
    'warning: no live worker handles the kind "default" of the queue "default": 1 task is due',
  );
  expect(await json()).toMatchObject({ unhandled: [{ kind: "default", tasks: 1 }] });
  expect(await post("/api/tasks/next", { processor: "w" })).toBe(200);
  expect((await list()).stderr).toBe("");
  expect(await json()).toMatchObject({ unhandled: [] });
}, 30_000);
