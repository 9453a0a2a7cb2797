/** Each example as its heading says to run it, as a real process: what it prints is what it shows. */
import { execFile, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { quickPglite } from "../support/engines/pglite.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { describeRedis, startRedis } from "../support/engines/redis-engine.js";
import { checkBuild, endAll, ownEnvironment, serve } from "../support/processes/cli.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** The machine may be slow; each takes seconds. */
const TIMEOUT_MS = 120_000;
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** Handlers and their like, which show nothing by themselves: who runs each, in a test of its own. */
const RUN_ELSEWHERE: Readonly<Record<string, string>> = {
  "sleep.js": "packages/leasehold-server/src/cli/demo.ts",
  "files.js": "tests/docs/files-example.test.ts",
  "files-enqueue.js": "tests/docs/files-example.test.ts",
  "express.js": "tests/docs/framework-examples.test.ts",
};

type Check = (out: string) => void;

/** What the example shows, in its output. */
const SHOWS: Readonly<Record<string, Check>> = {
  "run-under-a-lease.js": (out) => {
    const [, first, last] =
      /^(worker-\d) works, token \d+$[^]*^\1 is done[^]*^(worker-\d) works/m.exec(out) ?? [];
    expect([first, last].sort()).toEqual(["worker-1", "worker-2"]);
    expect(out).toMatch(/^visitor: worker-\d has the lease$/m);
    const times = [...out.matchAll(/is done after ([\d.]+) s, on a lease of ([\d.]+) s/g)];
    expect(times).toHaveLength(2);
    for (const [, worked, ttl] of times) expect(Number(worked)).toBeGreaterThan(Number(ttl));
    const tokens = numbers(out, /works, token (\d+)/g);
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0);
  },
  "bill-once.js": (out) => {
    expectInOrder(out, [
      "with run: 3 bills",
      "web-1: the printer is out of paper",
      "web-2 sent bill 17",
      "web-3: bill 17 was sent by web-2",
      "with once: 1 bill\n",
    ]);
  },
  "two-versions.js": (out) => {
    expectInOrder(out, [
      "the old worker did 2 invoices of version 1",
      "the new worker did 1 invoice of version 2",
      "the new worker upgraded invoice 3: 30 euros are 3000 cents",
      "none is dead",
    ]);
  },
  "scheduled-report.js": (out) => {
    expectInOrder(out, [
      "reports at ",
      "web-1 has ended",
      " reports, ",
      "declared again by web-4: paused, the warehouse moves",
      "run by hand all the same",
    ]);
    const [, reports, times] = /^(\d+) reports, (\d+) times$/m.exec(out) ?? [];
    expect(Number(reports)).toBeGreaterThanOrEqual(5);
    expect(times).toBe(reports);
  },
  "lease-api.js": (out) => {
    const [first, again, second] = numbers(out, /acquire\(\) is true, token (\d+)/g);
    expect(again).toBe(first);
    expect(second).toBeGreaterThan(first ?? 0);
    expectInOrder(out, [
      "node-2: acquire() is false",
      "node-2: released, checkAlive() is false",
      "node-1: shard-7 allocated",
      "operator: revoked",
      "node-1: lost the lease (revoked)",
      "node-1: rejected, lease lost: revoked",
      "node-1: rejected, not the leader",
      "node-2: acquire() is true",
      "node-2: shard-9 allocated",
    ]);
  },
  "fenced-update.js": (out) => {
    const [without = "", within = ""] = out.split("with the fence");
    expect(without).toContain("checkAlive() is false");
    expect(without).toContain("slow   has written");
    expect(without).toContain('{"status":"COLLECTING INVOICES","written_by":"slow"}');
    const [, older, newer] =
      /slow {3}is refused: STALE_TOKEN, (\d+) after (\d+)/.exec(within) ?? [];
    expect(Number(newer)).toBeGreaterThan(Number(older));
    expect(within).toContain('{"status":"CLOSED","written_by":"quick"}');
  },
  "enqueue-in-a-transaction.js": (out) => {
    expectInOrder(out, [
      "ada@example.com: committed",
      "bob@example.com: rolled back, the card was declined",
      "1 orders, 1 tasks",
      "mail for order 1 to ada@example.com",
    ]);
    expect(out.match(/^mail/gm)).toHaveLength(1);
  },
  "one-account-at-a-time.js": (out) => {
    for (const [account, attempts] of [
      ["ada", ["1, attempt 1", "1, attempt 2", "2, attempt 1", "3, attempt 1"]],
      ["joan", ["1, attempt 1", "2, attempt 1", "3, attempt 1"]],
    ] as const) {
      const ran = [...out.matchAll(new RegExp(`^${account} (.*)$`, "gm"))].map(([, what]) => what);
      expect(ran).toEqual(attempts);
    }
    expect(out).toMatch(/^all paid$/m);
  },
  "ten-a-second.js": (out) => {
    const [, seconds, most] =
      /^25 calls in (\S+) s, at most (\d) at a time$/m.exec(out) ?? expect.unreachable(out);
    // Two windows have to end first.
    expect(Number(seconds)).toBeGreaterThanOrEqual(2);
    expect(Number(most)).toBeLessThanOrEqual(3);
    expect(out).toContain("the kind provider.call: 3 at a time, 10 in 1000 ms");
  },
  "limits-of-time.js": (out) => {
    expectInOrder(out, [
      "transferred at attempt 3, with 0 failures",
      "dead because it ran longer than 300 ms (maxRunMs)",
      "expired",
    ]);
  },
  "typed-task.js": (out) => {
    expectInOrder(out, [
      "refused: data.pages",
      "attempt 1 of 3: ada, 2026",
      "attempt 2 of 3: ada, 2026",
      'done, output {"file":"ada.pdf","bytes":4000}',
      "attempt 1 failed, Error: the printer is on fire",
      "attempt 2 done",
    ]);
    expect(out).toMatch(/^progress \{"page":\d,"of":4\}$/m);
  },
  "outbox-leader.js": (out) => {
    expect(numbers(out, /marks (\d+) as sent/g)).toEqual(
      Array.from({ length: 12 }, (_, at) => at + 1),
    );
    const tokens = numbers(out, /leads, token (\d+)/g);
    expect(tokens.length).toBeGreaterThanOrEqual(3);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    const [, older, newer] = /node-1 is refused: STALE_TOKEN, (\d+) after (\d+)/.exec(out) ?? [];
    expect(Number(newer)).toBeGreaterThan(Number(older));
    expectInOrder(out, ["node-1 publishes 4", "node-1 stands still", "node-2 publishes 4"]);
    expectInOrder(out, ["node-2 has stopped, and released", "12 of 12 messages are sent"]);
  },
  "leader-election.js": (out) => {
    expectInOrder(out, [
      "cid leads, token",
      "cid leads: true",
      " writes, token",
      "cid's late write fails",
    ]);
    const [, older, newer] = /refused: token (\d+) after (\d+)/.exec(out) ?? [];
    expect(Number(newer)).toBeGreaterThan(Number(older));
    expect(out).toMatch(/^cid's late write fails: LEASE_LOST$/m);
  },
  "shards.js": (out) => {
    const parts = [...out.matchAll(/^(ann|bob|cid): ([\d ]+)$/gm)].map(([, name, held = ""]) => ({
      name,
      held: held.split(" ").map(Number),
    }));
    expect(parts.map(({ name }) => name).join(" ")).toBe("ann ann bob ann bob cid bob cid");
    expect(parts.map(({ held }) => held.length)).toEqual([12, 6, 6, 4, 4, 4, 6, 6]);
    const [, first, , second] = parts;
    expect(second?.held.every((shard) => first?.held.includes(shard))).toBe(true);
    expect(out).toContain("some work was done: true");
  },
  "singleton.js": (out) => {
    const starts = [...out.matchAll(/^(ann|bob|cid) starts, token (\d+)$/gm)];
    const tokens = starts.map(([, , token]) => Number(token));
    expect(starts.length).toBeGreaterThanOrEqual(4);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    const [first, second] = starts.slice(-3).map(([, name]) => name);
    expectInOrder(out, [
      `${first} starts`,
      `${first} stops`,
      `${second} starts`,
      "the other has taken over",
      "the other does not stop: STILL_RUNNING",
      "its lease is released: false",
      "cid starts",
      `${second} stops`,
      "cid stops",
    ]);
  },
  "transfers.js": (out) => {
    expect(out).toMatch(/^40 transfers at once, sum 300: ada 110, bob 90, cid 100$/m);
    expect(out).toContain("a transfer ends: LEASE_LOST, revoked; nothing moved: true");
  },
  "permits.js": (out) => {
    expect(out).toBe("8 downloads, at most 3 at once, 0 beside the clean-up\n");
    // What the page shows of it, below its imports, is what was run.
    const [, recipe = "nothing"] =
      /^## Permits\n[^]*?^```js\n(?:import .*\n+)*([^]*?)^```$/m.exec(
        read("docs/coordination.md"),
      ) ?? [];
    expect(read("examples/permits.js")).toContain(recipe);
  },
  "guarded-http.js": (out) => {
    const [, older, newer] = /^refused: token (\d+) after (\d+)$/m.exec(out) ?? [];
    expect(Number(newer)).toBeGreaterThan(Number(older));
    expectInOrder(out, [
      "slow is answered 204",
      "quick is answered 204",
      "slow is answered 412 STALE_TOKEN",
      "anonymous is answered 428 TOKEN_REQUIRED",
      "written by slow, quick; refusals: 1",
    ]);
  },
  "custom-store.js": (out) => {
    const written = numbers(out, /writes (\d+), token/g);
    expect(written).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
    const tokens = numbers(out, /writes \d+, token (\d+)/g);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expectInOrder(out, [
      "is killed before it writes 10",
      "writes 10,",
      "20 numbers, in order: true, tokens grow: true, killed: 1",
    ]);
  },
};

/** Those that speak HTTP: what they need to be run, and what they show. */
const SPEAK_HTTP: Readonly<Record<string, { needs: string; check: Check }>> = {
  "locks-with-curl.sh": { needs: "curl", check: showsEveryRoute },
  "locks-with-python.py": {
    needs: "python3",
    check: (out) => {
      expectInOrder(out, [
        "worker-2: the lock is held by worker-1",
        "worker-1: step 6 of 6",
        "worker-3: step 1 of 6",
        "worker-3: stops, because another worker may hold the lock by now",
        "worker-4: has it, and the token has grown: True",
      ]);
      expect(out).not.toContain("worker-3: step 6");
    },
  },
};

function showsEveryRoute(out: string): void {
  const answers = out
    .split("\n\n")
    .filter((part) => !part.startsWith("#"))
    .map((part) => /^([A-Z]+) (\S+).*\n {2}(\d{3}) (.*)/.exec(part)?.slice(1) ?? [part]);
  const run = /billing-close:(\d+)/.exec(out)?.[1];
  const withoutIds = (path = "") =>
    path.replace(/[\w-]+\.[0-9a-f]+/, "ID").replace(/\?.*/, "") || path;
  expect(answers.map(([method, path, status]) => [method, withoutIds(path), status])).toEqual([
    ["POST", "/v1/locks/acquire", "200"],
    ["POST", "/v1/locks/acquire", "200"],
    ["POST", "/v1/locks/ID/renew", "200"],
    ["GET", "/v1/locks/ID", "200"],
    ["GET", "/v1/locks", "200"],
    ["DELETE", "/v1/locks/ID", "200"],
    ["POST", "/v1/locks/ID/renew", "409"],
    ["POST", "/v1/locks/acquire", "200"],
    ["DELETE", "/v1/locks/ID", "200"],
    ["POST", "/api/leases", "201"],
    ["POST", "/api/leases", "409"],
    ["PUT", "/api/leases/renew", "200"],
    ["GET", "/api/leases", "200"],
    ["GET", "/api/leases/active", "200"],
    ["GET", "/api/leases/renewed", "200"],
    ["DELETE", "/api/leases/release", "200"],
    ["GET", "/api/leases/ID", "200"],
    ["GET", "/api/leases/released", "200"],
    ["POST", "/api/leases", "201"],
    ["GET", "/api/leases/expired", "200"],
    ["POST", "/api/leases", "201"],
    ["DELETE", "/api/leases/ID", "200"],
  ]);
  const bodies = answers.map(([, , , body]) => JSON.parse(body ?? "") as object);
  expect(bodies[1]).toMatchObject({ acquired: false, ownerId: "worker-7" });
  expect(bodies[4]).toMatchObject({ items: [{ resource: `tenant_123:billing-close:${run}` }] });
  expect(bodies[10]).toMatchObject({ code: "LEASE_HELD", holder: "worker-7" });
  expect(bodies[16]).toMatchObject({ resource: `printer-${run}`, state: "released" });
  expect(bodies[19]).toMatchObject({ items: [{ state: "expired" }] });
  expect(out).toContain("the token has grown: yes");
}

const files = readdirSync(join(root, "examples"), { withFileTypes: true })
  .filter((entry) => entry.isFile() && !/\.(md|json)$/.test(entry.name))
  .map(({ name }) => name);
/** Of each row of the table in the README: the file and its command. */
const table = new Map(
  [...read("examples/README.md").matchAll(/^\| \[([^\]]+)\]\(\1\) \| `([^`]+)` \|/gm)].map(
    ([, name = "", command = ""]) => [name, command],
  ),
);

beforeAll(checkBuild);
afterAll(() => endAll());

it("all stand in the table of the README, with the command of their heading, and are tested", () => {
  expect([...table.keys()].sort()).toEqual([...files].sort());
  const tested = [SHOWS, SPEAK_HTTP, RUN_ELSEWHERE].flatMap((each) => Object.keys(each));
  expect(tested.sort()).toEqual(files.sort());
  for (const [name, command] of table) expect(read(`examples/${name}`)).toContain(command);
  for (const [name, path] of Object.entries(RUN_ELSEWHERE)) {
    expect(read(path)).toContain(`examples/${name}`);
  }
});

/** Those that take a URL do the same without one: they share that step, which these two show. */
const WITHOUT_URL = ["lease-api.js", "outbox-leader.js"];
const ON_SERVER = [
  "run-under-a-lease.js",
  "lease-api.js",
  "fenced-update.js",
  "typed-task.js",
  "limits-of-time.js",
];
const takesUrl = (name: string) => read(`examples/${name}`).includes(`${name} [URL]`);

// One after the other: each starts a PGlite, which is seconds of computing.
describe("runs as its heading says:", () => {
  const own = Object.keys(SHOWS).filter((name) => !takesUrl(name) || WITHOUT_URL.includes(name));
  it.each(own)("%s", { timeout: 2 * TIMEOUT_MS }, async (name) => {
    await expectToShow(name, SHOWS[name]);
  });
});

describe.concurrent("runs against a server:", () => {
  let url: string;
  beforeAll(async () => {
    ({ url } = await serve("pglite:"));
  });

  it.each(ON_SERVER)("%s", { timeout: 2 * TIMEOUT_MS }, async (name) => {
    await expectToShow(name, SHOWS[name], { args: [url] });
  });

  for (const [name, { needs, check }] of Object.entries(SPEAK_HTTP)) {
    const missing = spawnSync(needs, ["--version"]).error ? `no ${needs} here` : null;
    const title = missing === null ? name : `${name} (skipped: ${missing})`;
    it.skipIf(missing !== null)(title, { timeout: 2 * TIMEOUT_MS }, async () => {
      await Promise.all([
        expectToShow(name, check, { args: [url] }),
        expectToShow(name, check, { env: { LEASEHOLD_URL: url } }),
      ]);
    });
  }
});

describeRedis("runs on a Redis server:", () => {
  it("outbox-leader.js", { timeout: 2 * TIMEOUT_MS }, async () => {
    const server = await startRedis();
    await expectToShow("outbox-leader.js", SHOWS["outbox-leader.js"], { args: [server.url] });
    await server.remove();
  });
});

describePostgres("runs on a PostgreSQL server:", () => {
  const others = Object.keys(SHOWS).filter(
    (name) => takesUrl(name) && !ON_SERVER.includes(name) && !WITHOUT_URL.includes(name),
  );
  it.concurrent.each(others)("%s", { timeout: 2 * TIMEOUT_MS }, async (name) => {
    const { url, drop } = await freshDatabase();
    await expectToShow(name, SHOWS[name], { args: [url] });
    await drop();
  });

  it("outbox-leader.js", { timeout: 2 * TIMEOUT_MS }, async () => {
    const { url, drop } = await freshDatabase();
    await expectToShow("outbox-leader.js", SHOWS["outbox-leader.js"], { args: [url] });
    const client = new pg.Client(url);
    await client.connect();
    // Its own schema is gone; in ours are the leases, and the fence that has seen their tokens.
    const schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'example%'";
    expect((await client.query(schemas)).rows).toEqual([]);
    const fenced = `SELECT f.token = l.token AS same FROM leasehold.fence f
      JOIN leasehold.lease l USING (namespace, resource)`;
    expect((await client.query(fenced)).rows).toEqual([{ same: true }]);
    await client.end();
    await drop();
  });

  it("enqueue-in-a-transaction.js", async () => {
    const { url, drop } = await freshDatabase();
    const name = "enqueue-in-a-transaction.js";
    await expectToShow(name, SHOWS[name], { args: [url] });
    await drop();
  });
});

interface How {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

async function expectToShow(name: string, check?: Check, how: How = {}): Promise<void> {
  const ended = await runCommand(table.get(name) ?? "", how);
  expect(ended).toMatchObject({ code: 0, stderr: "" });
  check?.(ended.stdout);
}

/** A command as people type it in a clone. */
async function runCommand(command: string, { args = [], env = {} }: How) {
  const [program = "", ...own] = command.split(" ");
  const { NODE_OPTIONS = "", ...quick } = await quickPglite();
  const options = {
    cwd: root,
    env: {
      ...ownEnvironment(),
      ...quick,
      // Many of them lose a lease or fail a task on purpose, which is a warning of the process.
      NODE_OPTIONS: `${NODE_OPTIONS} --disable-warning=LeaseholdWarning`,
      ...env,
    },
    timeout: TIMEOUT_MS,
  };
  return new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    execFile(program, [...own, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error ? (error.code ?? error.signal) : 0, stdout, stderr }),
    );
  });
}

function numbers(out: string, pattern: RegExp): number[] {
  return [...out.matchAll(pattern)].map(([, digits]) => Number(digits));
}

/** Other lines may stand between them. */
function expectInOrder(out: string, lines: readonly string[]): void {
  let rest = out;
  for (const line of lines) {
    expect(rest).toContain(line);
    rest = rest.slice(rest.indexOf(line) + line.length);
  }
}
