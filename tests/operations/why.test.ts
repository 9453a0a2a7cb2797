/** `leasehold why`, by real processes: through a server, and straight on the stores that list waiters. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import {
  checkBuild,
  endAll,
  leasehold,
  ownEnvironment,
  type Serving,
  serve,
} from "../support/processes/cli.js";

const TTL_MS = 600_000;
const root = fileURLToPath(new URL("../..", import.meta.url));

interface Why {
  readonly refused: boolean;
  readonly reasons: readonly { code: string; text: string }[];
  readonly lease: { holder: string; token: number; expiresAt: string } | null;
  readonly heldMs: number | null;
  readonly waiters: readonly { holder: string }[] | null;
  readonly paused: readonly object[] | null;
  readonly remedies: readonly { command: string; warning: string | null }[];
}

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterAll(() => endAll());

let names = 0;
const fresh = () => `why/${(names += 1)} it's`;

async function why(resource: string, store: string) {
  const env = { LEASEHOLD_STORE: store };
  const { code, stdout } = await leasehold(["why", resource, "--json"], { env });
  return { code, ...(JSON.parse(stdout) as Why) };
}

/** What the command prints when it is pasted into a shell. */
function runInShell(command: string, store: string) {
  const main = "packages/leasehold-server/dist/cli/main.js";
  const script = `leasehold() { "${process.execPath}" ${main} "$@"; }; ${command} --json`;
  const env = { ...ownEnvironment(), LEASEHOLD_STORE: store };
  return JSON.parse(
    execFileSync("bash", ["-c", script], { cwd: root, encoding: "utf8", env }),
  ) as object;
}

/** Grants, however the store is reached. */
function explains(where: () => string) {
  it("a resource that was never held, and one that is free again", async () => {
    const resource = fresh();
    expect(await why(resource, where())).toMatchObject({
      code: 0,
      refused: false,
      reasons: [],
      lease: null,
      remedies: [],
    });
    await using leases = await connect(where());
    await (await leases.acquire(resource)).release();
    const free = await leasehold(["why", resource, "--store", where()]);
    expect(free.code).toBe(0);
    expect(free.stdout).toContain(`${resource}  free: the next acquire is granted`);
    expect(free.stdout).toMatch(/last holder: \S+, released at 20/);
  });

  it("a held resource: by whom, for how long, and what frees it", async () => {
    const resource = fresh();
    await using leases = await connect(where(), { holder: "web-3", graceMs: 0 });
    const lease = await leases.acquire(resource, { ttlMs: TTL_MS });
    const found = await why(resource, where());
    expect(found).toMatchObject({
      code: 75,
      refused: true,
      reasons: [{ code: "held" }],
      lease: { holder: "web-3", token: lease.token },
      waiters: [],
      paused: [],
    });
    expect(found.heldMs).toBeGreaterThanOrEqual(0);
    const shown = await leasehold(["why", resource, "--store", where()]);
    expect(shown.code).toBe(75);
    expect(shown.stdout).toMatch(/is held by web-3 for another (9m|10m)/);
    expect(shown.stdout).toMatch(/holder: web-3, since 20.* \(\d/);
    expect(shown.stdout).toContain("by the clock of the store");
    // What it prints can be run as it stands.
    const [atExpiry, now] = found.remedies;
    expect(atExpiry?.warning).toBeNull();
    expect(now?.warning).toContain("fencing token");
    expect(runInShell(atExpiry?.command ?? "", where())).toMatchObject({ status: "revoked" });
    const revoked = await why(resource, where());
    expect(revoked).toMatchObject({ code: 75, reasons: [{ code: "revoked" }] });
    expect(revoked.remedies).toHaveLength(1);
    // The time in the store is when the resource is free, not when the lease was revoked.
    const freeAt = revoked.lease?.expiresAt;
    for (const verb of ["why", "show"]) {
      const { stdout } = await leasehold([verb, resource, "--store", where()]);
      expect(stdout).toContain(`free at ${freeAt}`);
      expect(stdout).not.toMatch(/revoked at|expires/);
    }
    expect(runInShell(revoked.remedies[0]?.command ?? "", where())).toMatchObject({ freeInMs: 0 });
    const after = await why(resource, where());
    expect(after.code).toBe(0);
    const ended = await leasehold(["why", resource, "--store", where()]);
    expect(ended.stdout).toContain(
      `last holder: web-3, revoked, free since ${after.lease?.expiresAt}`,
    );
  });
}

function explainsWaiters(where: () => string) {
  it("who waits, and in which order", async () => {
    const resource = fresh();
    const clients = await Promise.all(
      ["web-1", "web-2", "web-3"].map((holder) => connect(where(), { holder, graceMs: 0 })),
    );
    const [first, ...others] = clients as [Leasehold, Leasehold, Leasehold];
    await first.acquire(resource, { ttlMs: TTL_MS });
    const stop = new AbortController();
    const waiting = [];
    for (const [index, leases] of others.entries()) {
      waiting.push(leases.acquire(resource, { signal: stop.signal }).catch(() => "stopped"));
      await until(expect, "it is in the queue", async () => {
        return (await why(resource, where())).waiters?.length === index + 1;
      });
    }
    const { code, waiters } = await why(resource, where());
    expect(code).toBe(75);
    expect(waiters?.map(({ holder }) => holder)).toEqual(["web-2", "web-3"]);
    const { stdout } = await leasehold(["why", resource, "--store", where()]);
    expect(stdout).toContain("waiters, the next one first:\n  1. web-2\n  2. web-3");
    stop.abort();
    await Promise.all(waiting);
    await Promise.all(clients.map((leases) => leases.close()));
  });
}

/** Of a server, which enforces all of them. For databases, see cli-pauses.test.ts. */
function explainsPauses(where: () => string) {
  it("pauses of the resource and of a prefix, and ends them", async () => {
    const resource = fresh();
    const pause = ["--reason", "migration", "--store", where()];
    expect((await leasehold(["pause", resource, ...pause])).code).toBe(0);
    expect((await leasehold(["pause", "--prefix", "why/", ...pause])).code).toBe(0);
    const found = await why(resource, where());
    expect(found).toMatchObject({ code: 75, lease: null });
    expect(found.reasons.map(({ code }) => code)).toEqual(["paused", "paused"]);
    const { stdout } = await leasehold(["why", resource, "--store", where()]);
    expect(stdout).toMatch(/has paused everything below "why\/": migration/);
    for (const { command } of found.remedies) {
      expect(runInShell(command, where())).toMatchObject({ wasPaused: true });
    }
    expect((await why(resource, where())).code).toBe(0);
  });
}

describe("why, through a server, explains", () => {
  explains(() => server.url);
  explainsWaiters(() => server.url);
  explainsPauses(() => server.url);
});

describePostgres("why, on PostgreSQL, explains", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  it("a grant, and repeats the store and the namespace in the commands, but no key", async () => {
    const resource = fresh();
    const own = await serve(database.url);
    const create = ["keys", "create", "--name", "n", "--role", "admin", "--store", database.url];
    const { stdout: key } = await leasehold(create);
    const url = own.url.replace("http://", `http://${key}@`);
    await using leases = await connect(url, { graceMs: 0 });
    await leases.acquire(resource, { ttlMs: TTL_MS });
    const typed = ["--store", url, "--namespace", "default"];
    const { code, stdout } = await leasehold(["why", resource, ...typed]);
    expect(code).toBe(75);
    const shown = url.replace(key, "\\*\\*\\*");
    expect(stdout).toMatch(new RegExp(`revoke .* --store '${shown}/?' --namespace default\\n`));
    expect(stdout).not.toContain(key);
  });
  it("pauses to a holder whose key has a prefix", async () => {
    const own = await serve(database.url);
    const key = ["keys", "create", "--name", "h", "--role", "holder", "--prefix", "mine/"];
    const { stdout } = await leasehold([...key, "--store", database.url]);
    const url = own.url.replace("http://", `http://${stdout}@`);
    const pause = ["pause", "mine/x", "--reason", "migration", "--store", database.url];
    expect((await leasehold(pause)).code).toBe(0);
    expect(await why("mine/x", url)).toMatchObject({ code: 75, reasons: [{ code: "paused" }] });
    const { stdout: shown } = await leasehold(["show", "mine/x", "--store", url]);
    expect(shown).toMatch(/paused .*migration/);
    expect(await why("mine/y", url)).toMatchObject({ code: 0, paused: [] });
  });
  explains(() => database.url);
  explainsWaiters(() => database.url);

  it("show says that only servers record earlier holders, unless there are some", async () => {
    const resource = fresh();
    const show = async () =>
      (await leasehold(["show", resource, "--store", database.url])).stdout.split("\n");
    const note = "earlier holders: only of leases acquired through a server";
    await using leases = await connect(database.url, { holder: "web-1" });
    for (const _ of [1, 2]) await (await leases.acquire(resource)).release();
    expect(await show()).toContain(note);
    const { url } = await serve(database.url);
    const key = ["keys", "create", "--name", "n", "--role", "admin", "--store", database.url];
    const { stdout } = await leasehold(key);
    await using served = await connect(url.replace("http://", `http://${stdout}@`));
    for (const _ of [1, 2]) await (await served.acquire(resource)).release();
    await until(expect, "the server has written the history", async () => {
      return !(await show()).includes(note);
    });
    expect((await show()).join("\n")).toMatch(/before +holder/);
    const store = url.replace("http://", `http://${stdout}@`);
    const remote = await leasehold(["show", resource, "--store", store]);
    expect(remote.stdout).toContain("earlier holders: not shown through a server; see its console");
  });
});

describeRedis("why, on Redis, explains", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.remove());

  explainsWaiters(() => redis.url);

  it("that the store keeps no pauses, and that revoking needs an audit elsewhere", async () => {
    const resource = fresh();
    await using leases = await connect(redis.url, { graceMs: 0 });
    await leases.acquire(resource, { ttlMs: TTL_MS });
    const { code, paused, remedies } = await why(resource, redis.url);
    expect([code, paused]).toEqual([75, null]);
    for (const { command } of remedies) expect(command).toMatch(/ --control "\$DATABASE"$/);
    const { stdout } = await leasehold(["why", resource, "--store", redis.url]);
    expect(stdout).toContain("waiters: none\npauses: this store keeps none");
  });

  it("that a server cannot keep the audit log of another store, and names a database instead", async () => {
    const resource = fresh();
    await using leases = await connect(redis.url, { graceMs: 0 });
    await leases.acquire(resource, { ttlMs: TTL_MS });
    const stores = ["--store", redis.url, "--control", server.url];
    const { stdout } = await leasehold(["why", resource, ...stores, "--json"]);
    const { remedies } = JSON.parse(stdout) as Why;
    expect(remedies).toHaveLength(2);
    for (const { command } of remedies) {
      expect(command.match(/ --control .*/g)).toEqual([' --control "$DATABASE"']);
    }
    const operatorActions = [
      ["revoke", resource, "--reason", "test"],
      ["pause", resource, "--reason", "test"],
      ["pause", "--list"],
      ["resume", resource, "--reason", "test"],
    ];
    for (const action of operatorActions) {
      const { code, stderr } = await leasehold([...action, ...stores]);
      // On a busy machine, a line before says that there is no connection yet.
      expect([code, stderr.split("\n").at(-1)]).toEqual([
        64,
        `leasehold: ${server.url} is a server, which keeps the audit log of its own leases alone: ` +
          `name its database with --control, or pass --store ${server.url} for a lease of that server`,
      ]);
    }
  });
});

describe("why", () => {
  it("ends with 69 if the store is unavailable, and with 64 if no engine has the URL", async () => {
    const [away, unknown] = await Promise.all([
      leasehold(["why", "r", "--store", "redis://127.0.0.1:1"]),
      leasehold(["why", "r", "--store", "mysql://localhost"]),
    ]);
    expect(away).toMatchObject({ code: 69, stdout: "" });
    expect(away.stderr).toContain("STORE_UNAVAILABLE");
    expect(unknown).toMatchObject({ code: 64, stdout: "" });
    expect(unknown.stderr).toContain("must begin with one of");
  });

  it("says what its exit codes mean", async () => {
    const { stdout } = await leasehold(["why", "--help"]);
    expect(stdout).toContain("Exit codes: 0 an acquire is granted now; 75 it is refused");
  });
});
