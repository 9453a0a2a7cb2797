/** What the command line says of who is refused by a pause: the callers of a server, or all. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

beforeAll(() => checkBuild());
afterEach(() => endAll());

const REASON = ["--reason", "migration"];
const OF_SERVERS =
  "servers refuse acquires within seconds; on the database itself they are granted";

interface Why {
  readonly refused: boolean;
  readonly reasons: readonly { readonly code: string; readonly text: string }[];
  readonly paused: readonly object[];
}

/** `why`, whose exit code must be that of an acquire by the same way. */
async function why(resource: string, stores: readonly string[]) {
  const [text, asJson, acquired] = [
    await leasehold(["why", resource, ...stores]),
    await leasehold(["why", resource, "--json", ...stores]),
    await leasehold(["acquire", resource, ...stores.slice(0, 2)]),
  ];
  expect([text.code, asJson.code]).toEqual([acquired.code, acquired.code]);
  return { code: acquired.code, text: text.stdout, ...(JSON.parse(asJson.stdout) as Why) };
}

/** What only servers enforce. */
async function grantsAllTheSame(resource: string, stores: readonly string[]) {
  const found = await why(resource, stores);
  expect(found).toMatchObject({ code: 0, refused: false, reasons: [] });
  expect(found.paused).toMatchObject([{ enforcedBy: "servers", refusesHere: false }]);
  expect(found.text).toContain(`${resource}  free: the next acquire is granted`);
  expect(found.text).toContain(
    "paused for callers of a server; an acquire on the database itself is granted:\n  cli:",
  );
}

describePostgres("a pause on PostgreSQL", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  it("of a prefix refuses callers of a server, and an acquire on the database is granted", async () => {
    const stores = ["--store", database.url];
    const paused = await leasehold(["pause", "--prefix", "p/", ...REASON, ...stores]);
    expect([paused.code, paused.stdout]).toEqual([0, `paused prefix "p/": ${OF_SERVERS}`]);
    await grantsAllTheSame("p/1", stores);
    const shown = await leasehold(["show", "p/1", ...stores]);
    expect(shown.stdout).toContain("paused for callers of a server by cli:");
    const { url } = await serve(database.url);
    const served = await why("p/2", ["--store", url]);
    expect(served).toMatchObject({ code: 75, refused: true, reasons: [{ code: "paused" }] });
  });

  it("of a resource is the store's own, and the error of acquire names it", async () => {
    const stores = ["--store", database.url];
    const other = ["--reason", "of the prefix"];
    await leasehold(["pause", "--prefix", "r/", ...other, ...stores]);
    const paused = await leasehold(["pause", "r/1", ...REASON, "--json", ...stores]);
    expect(JSON.parse(paused.stdout)).toMatchObject({ kind: "resource", enforcedBy: "store" });
    const again = await leasehold(["pause", "r/1", ...REASON, ...stores]);
    expect(again.stdout).toContain("the store itself refuses acquires at once");
    const found = await why("r/1", stores);
    expect(found).toMatchObject({ code: 75, refused: true });
    expect(found.reasons.map(({ text }) => text)).toEqual([
      expect.stringMatching(/has paused "r\/1": migration$/),
    ]);
    const refused = await leasehold(["acquire", "r/1", ...stores]);
    expect(refused.stderr).toContain("migration");
    expect(refused.stderr).not.toContain("of the prefix");
    const listed = await leasehold(["pause", "--list", "--json", ...stores]);
    const of = (JSON.parse(listed.stdout) as { name: string; enforcedBy: string }[]).map(
      ({ name, enforcedBy }) => `${name} ${enforcedBy}`,
    );
    expect(of).toEqual(expect.arrayContaining(["r/ servers", "r/1 store"]));
  });

  describeRedis("with the leases on Redis", () => {
    let redis: RedisServer;
    beforeAll(async () => {
      redis = await startRedis();
    });
    afterAll(() => redis.remove());

    it("of a resource refuses callers of a server alone", async () => {
      const stores = ["--store", redis.url, "--control", database.url];
      const paused = await leasehold(["pause", "apart", ...REASON, ...stores]);
      expect([paused.code, paused.stdout]).toEqual([0, `paused resource "apart": ${OF_SERVERS}`]);
      await grantsAllTheSame("apart", stores);
    });
  });
});

describe("pause", () => {
  it("through a server says that this server refuses", async () => {
    const { url } = await serve();
    const said = "this server refuses acquires at once, others within seconds";
    const { stdout } = await leasehold(["pause", "r", ...REASON, "--store", url]);
    expect(stdout).toBe(`paused resource "r": ${said}`);
    expect(await why("r", ["--store", url])).toMatchObject({ code: 75, refused: true });
  });

  it("notes that a queue has no task yet, whose name may be misspelt", async () => {
    const { url } = await serve();
    const run = (...args: string[]) => leasehold([...args, "--store", url]);
    const note = expect.stringContaining('no task is in queue "mails" yet: check its name');
    for (const verb of [
      ["tasks", "pause-queue", "mails"],
      ["pause", "--queue", "mails"],
    ]) {
      expect(await run(...verb, ...REASON)).toMatchObject({ code: 0, stderr: note });
    }
    expect((await run("enqueue", "mail", "1", "--queue", "mails")).code).toBe(0);
    expect(await run("pause", "--queue", "mails", ...REASON)).toMatchObject({ stderr: "" });
  });

  it("says in its help who enforces what", async () => {
    const { stdout } = await leasehold(["pause", "--help"]);
    expect(stdout).toContain("with --control that of a resource too");
  });
});
