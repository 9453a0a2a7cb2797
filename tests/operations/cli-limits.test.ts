/** What the command line says at a limit of a server's tenant. */
import { afterEach, beforeAll, expect, it } from "vitest";
import { Cli, checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

beforeAll(() => checkBuild());
afterEach(() => endAll());

it("names the limit that refuses an acquire, also at the end of a wait, a run and an enqueue", async () => {
  const { url } = await serve("memory:", ["--limits", "leases=1,tasks=1"]);
  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: url } });
  expect((await run("acquire", "a")).code).toBe(0);
  expect((await run("enqueue", "mail", "1")).code).toBe(0);
  // A process that takes long to connect must still be refused within its wait.
  const refused = await Promise.all([
    run("acquire", "b"),
    run("acquire", "b", "--wait", "12s"),
    run("run", "b", "--wait", "12s", "--", "true"),
    run("enqueue", "mail", "2"),
  ]);
  for (const { code, stderr } of refused) {
    expect([code, stderr]).toEqual([
      69,
      expect.stringMatching(/STORE_UNAVAILABLE: the server refused, by a limit: .*at most 1 /),
    ]);
  }
});

it("why tells of the limit, and of a role that may not acquire", async () => {
  const { url } = await serve("memory:why", ["--limits", "leases=1"]);
  const create = async (role: string, key?: string) => {
    const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch(`${url}/v1/keys`, {
      method: "POST",
      headers: { "content-type": "application/json", ...authorization },
      body: JSON.stringify({ name: role, role, reason: "test" }),
    });
    return ((await response.json()) as { key: string }).key;
  };
  const admin = await create("admin");
  const why = async (key: string) => {
    const env = { LEASEHOLD_STORE: url, LEASEHOLD_KEY: key };
    const { code, stdout } = await leasehold(["why", "b", "--json"], { env });
    const { refused, reasons } = JSON.parse(stdout) as { refused: boolean; reasons: object[] };
    return { code, refused, reasons };
  };
  expect(await why(admin)).toEqual({ code: 0, refused: false, reasons: [] });
  const env = { LEASEHOLD_STORE: url, LEASEHOLD_KEY: admin };
  expect((await leasehold(["acquire", "a", "--ttl", "10m"], { env })).code).toBe(0);
  const text = expect.stringContaining("at most 1 leases at once");
  expect(await why(admin)).toEqual({ code: 75, refused: true, reasons: [{ code: "limit", text }] });
  for (const role of ["viewer", "operator"]) {
    const forbidden = expect.stringContaining(
      `${role === "operator" ? "an" : "a"} ${role}'s key cannot do this`,
    );
    const reasons = [{ code: "forbidden", text: forbidden }];
    expect(await why(await create(role, admin))).toEqual({ code: 78, refused: true, reasons });
  }
  const plain = await leasehold(["why", "b"], { env });
  expect([plain.code, plain.stdout]).toEqual([75, expect.stringContaining("refused now:")]);
  expect(plain.stdout).toContain(
    'leasehold limits set --leases N --reason "..." --namespace default --control "$DATABASE"',
  );
});

it("refuses a run without a wait at once, and one that waits and a candidate say it", async () => {
  const { url } = await serve("memory:", ["--limits", "leases=1"]);
  const env = { LEASEHOLD_STORE: url };
  const { stdout } = await leasehold(["acquire", "a", "--ttl", "10m", "--json"], { env });
  const { leaseId } = JSON.parse(stdout) as { leaseId: string };
  const impatient = await leasehold(["run", "b", "--", "true"], { env });
  expect([impatient.code, impatient.stderr]).toEqual([
    69,
    expect.stringMatching(
      /^leasehold: STORE_UNAVAILABLE: the server refused, by a limit: .*at most 1 /,
    ),
  ]);
  const waiting = new Cli(["run", "b", "--wait", "5m", "--json", "--", "true"], { env });
  const candidate = new Cli(["elect", "c", "--", "echo", "leading"], { env });
  const refusal = await waiting.until(({ err }) => err[0]);
  expect(JSON.parse(refusal)).toMatchObject({
    event: "refused",
    message: expect.stringContaining("at most 1 leases at once"),
    since: expect.any(String),
    until: expect.any(String),
  });
  const said = await candidate.until(({ err }) => err[0]);
  expect(said).toMatch(
    /^leasehold: the server has refused since 20.*at most 1 leases at once.*; retrying$/,
  );
  await leasehold(["release", leaseId], { env });
  expect((await waiting.ended).code).toBe(0);
  expect((await candidate.ended).code).toBe(0);
  expect(candidate.err).toEqual([said, "leasehold: the server no longer refuses"]);
  expect(candidate.out).toEqual(["leading"]);
});
