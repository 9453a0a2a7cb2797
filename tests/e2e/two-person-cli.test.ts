/** `leasehold revoke` where two operators must agree, on a server and its PGlite directory. */
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, leasehold, serve } from "../support/processes/cli.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

it("requests, lists and confirms a revocation, also after a restart of the server", async () => {
  const store = `pglite:${join(await temporaryFolder(), "data")}`;
  const newKey = async (name: string, role: string, ...more: string[]) => {
    const options = ["--name", name, "--role", role, "--store", store, ...more];
    const { stdout } = await leasehold(["keys", "create", ...options]);
    const [text = ""] = /lh_[0-9a-f]{12}_\w+/.exec(stdout) ?? [];
    return text;
  };
  const holder = await newKey("web", "holder", "--prefix", "");
  const ann = await newKey("ann", "operator");
  const bob = await newKey("bob", "operator");
  const options = ["--require-keys", "--two-person-revoke", "*=pay/", "--two-person-within", "2h"];
  const first = await serve(store, options);
  const run = (url: string, key: string, ...args: string[]) =>
    leasehold(args, { env: { LEASEHOLD_STORE: url, LEASEHOLD_KEY: key } });
  const acquire = (resource: string) =>
    run(first.url, holder, "acquire", resource, "--ttl", "10m", "--json");
  const { token } = JSON.parse((await acquire("pay/eu")).stdout) as { token: number };
  await acquire("stock/eu");

  const why = ["--reason", "it hangs"];
  const direct = await run(first.url, ann, "revoke", "stock/eu", ...why);
  expect(direct).toMatchObject({ code: 0, stdout: expect.stringMatching(/^revoked stock\/eu/) });
  const asked = await run(first.url, ann, "revoke", "pay/eu", "--at", "now", ...why);
  expect(asked.code).toBe(75);
  const [, id = ""] = /^request (\d+) of key:\w+ can be confirmed until /m.exec(asked.stdout) ?? [];
  expect(asked.stdout).toContain(
    `leasehold revoke "pay/eu" --confirm ${id} --expected-token ${token} --at now --reason`,
  );
  const again = await run(first.url, ann, "revoke", "pay/eu", "--at", "now", "--json", ...why);
  expect(JSON.parse(again.stdout)).toMatchObject({ status: "requested", id: Number(id), token });
  expect(again.code).toBe(75);
  const confirm = (url: string, key: string, ...more: string[]) =>
    run(url, key, "revoke", "pay/eu", "--confirm", id, ...why, ...more);
  const exact = ["--expected-token", String(token), "--at", "now"];
  const own = await confirm(first.url, ann, ...exact);
  expect(own.code).toBe(78);
  expect(own.stderr).toContain("a second person must confirm this");
  first.cli.kill("SIGTERM");
  await first.cli.ended;

  const next = await serve(store, options);
  const listed = await run(next.url, bob, "revoke", "--list");
  expect(listed.stdout).toMatch(new RegExp(`${id} +"?pay/eu"? .* ${token} +now .*it hangs`));
  const otherMode = await confirm(next.url, bob, "--expected-token", String(token));
  expect(otherMode).toMatchObject({ code: 1 });
  expect(otherMode.stderr).toContain(
    "CONFIRMATION_REQUIRED: nothing was revoked: it was requested for",
  );
  const other = ["revoke", "pay/us", "--confirm", id, ...why, ...exact];
  const wrongName = await run(next.url, bob, ...other);
  expect(wrongName.code).toBe(64);
  const confirmed = await confirm(next.url, bob, ...exact);
  expect(confirmed).toMatchObject({ code: 0, stdout: `revoked pay/eu, token ${token}: free now` });
  const none = await run(next.url, bob, "revoke", "--list", "--json");
  expect(JSON.parse(none.stdout)).toEqual([]);
  const audit = await run(next.url, bob, "audit", "list", "--target", "pay/eu", "--json");
  const entries = JSON.parse(audit.stdout) as { action: string }[];
  expect(entries.map(({ action }) => action).reverse()).toEqual([
    "lease.requestRevoke",
    "lease.revoke",
    "lease.revoke",
    "lease.revoke",
  ]);
}, 180_000);

it("refuses options that exclude or need each other", async () => {
  const store = `pglite:${join(await temporaryFolder(), "data")}`;
  const run = (...args: string[]) => leasehold([...args, "--store", store]);
  const why = ["--reason", "r"];
  for (const [args, message] of [
    [["revoke", "a", "--confirm", "1", ...why], "--confirm needs --expected-token"],
    [["revoke", "a", "--list"], "--list lists all"],
    [["revoke", "--list", ...why], "--reason has no meaning with --list"],
    [["revoke", "a"], "required option '--reason <text>' not specified"],
    [["revoke", ...why], "missing required argument 'resource'"],
    [["serve", "--port", "0", "--two-person-revoke", "*=a"], "needs --require-keys"],
  ] as const) {
    const { code, stderr } = await run(...args);
    expect([code, stderr]).toEqual([64, expect.stringContaining(message)]);
  }
  await leasehold(["migrate", "--store", store]);
  const remote = await run("revoke", "--list");
  expect([remote.code, remote.stderr]).toEqual([64, expect.stringContaining("needs a server")]);
}, 120_000);
