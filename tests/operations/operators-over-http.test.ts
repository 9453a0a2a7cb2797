/** What operators see and do with the command line on an http:// store, by real processes. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { checkBuild, endAll, leasehold, type Serving, serve } from "../support/cli.js";

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
  expect(list.out).toMatch(/anyone, claims zoë +lease\.revoke +"audited" +result +stuck/);
  const json = await text("audit", "list", "--limit", "5", "--json");
  const entries = JSON.parse(json.out) as { actor: string; claimedActor: string }[];
  expect(entries).toHaveLength(5);
  for (const entry of entries)
    expect(entry).toMatchObject({ actor: "anyone", claimedActor: "zoë" });
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
  expect(stderr).toContain("more than 1 keys");
  expect(stdout).not.toContain(key);
}, 30_000);
