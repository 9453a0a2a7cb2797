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
});
