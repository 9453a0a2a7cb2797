/** What SQLite alone does: several connections to one file, and files that cannot be used. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  grantIdOf,
  newLeaseId,
  systemEnv,
  systemRandom,
} from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { isSafeInWal } from "../../packages/leasehold/src/stores/sqlite/connection-driver.js";
import { sqlite } from "../../packages/leasehold/src/stores/sqlite/index.js";
import { LeaseWatching } from "../../packages/leasehold/src/testing/lease-suite/fixture.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";

let folder: string;
let file: string;
const closing: (() => Promise<void> | void)[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-sqlite-"));
  file = join(folder, "leases.db");
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await rm(folder, { recursive: true });
});

const open = async (): Promise<LeaseStore> => {
  const { leases, close } = await sqlite({ file }).open(systemEnv);
  closing.push(close);
  return leases;
};
/** A connection of another program. */
const database = () => {
  const opened = new Database(file);
  closing.push(() => void opened.close());
  return opened;
};
const request = (resource: string, queueMs = 0) => ({
  namespace: "n",
  resource,
  leaseId: newLeaseId(systemRandom),
  holder: "h",
  ttlMs: 60_000,
  ...(queueMs > 0 && { queueMs }),
});

describe("several connections to one file", () => {
  it("exclude each other, and the next waiter is woken by a release of another one", async () => {
    const [one, other] = await Promise.all([open(), open()]);
    const [held, waiter] = [request("r"), request("r", 30_000)];
    expect(await one.acquire([held])).toMatchObject([{ status: "acquired" }]);
    expect(await other.acquire([waiter])).toMatchObject([{ status: "held", ahead: 0 }]);
    const watching = new LeaseWatching(other, "n");
    await until(expect, "it watches", () => watching.events.length === 1);
    await one.release([held]);
    await until(expect, "the notice", () => watching.changed.length === 1);
    expect(watching.changed).toMatchObject([{ wakes: grantIdOf(waiter.leaseId) }]);
    await watching.stop();
    expect(await other.acquire([waiter])).toMatchObject([{ status: "acquired" }]);
  });

  it("serve clients that wait for each other's leases", async () => {
    const clients = await Promise.all([1, 2, 3].map(() => connect(`sqlite:${file}`)));
    closing.push(...clients.map((client) => () => client.close()));
    let inside = 0;
    const work = clients.map(async (client) => {
      for (let round = 0; round < 10; round += 1) {
        await client.run("r", { waitMs: 30_000 }, async () => {
          inside += 1;
          expect(inside).toBe(1);
          await Promise.resolve();
          inside -= 1;
        });
      }
    });
    await Promise.all(work);
  });

  it("wait without blocking the event loop while another program writes, and answer `no` in the end", async () => {
    const store = await open();
    const other = database();
    other.exec("BEGIN IMMEDIATE");
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 1);
    expect(await store.acquire([request("r")], { timeoutMs: 100 })).toMatchObject([
      { status: "failed", applied: "no", retryable: true, error: { code: "STORE_UNAVAILABLE" } },
    ]);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(5);
    const acquiring = store.acquire([request("r")]);
    other.exec("COMMIT");
    expect(await acquiring).toMatchObject([{ status: "acquired" }]);
  });

  it("commit once readers of a rollback journal have ended", async () => {
    const store = await open();
    const reader = database();
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM leasehold_lease").get();
    const acquiring = store.acquire([request("r")]);
    await until(expect, "it waits", () => true);
    reader.exec("COMMIT");
    expect(await acquiring).toMatchObject([{ status: "acquired" }]);
  });

  it("answer each call of a transaction for itself: its mistake, and the end of its time", async () => {
    const store = await open();
    const reader = database();
    const [held, listed] = await Promise.allSettled([
      store.acquire([request("a")]),
      store.list({ namespace: "n", cursor: "none" }),
    ]);
    expect(held).toMatchObject({ value: [{ status: "acquired" }] });
    expect(listed).toMatchObject({ reason: { code: "INVALID_OPTION" } });

    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM leasehold_lease").get();
    const patient = store.acquire([request("b")]);
    expect(await store.acquire([request("c")], { timeoutMs: 100 })).toMatchObject([
      { status: "failed", applied: "no", retryable: true },
    ]);
    reader.exec("COMMIT");
    expect(await patient).toMatchObject([{ status: "acquired" }]);
  });

  it("go on after a full disk, of which they say that nothing was written", async () => {
    const store = await open();
    const inside = (store as unknown as { file: { database: { exec(sql: string): void } } }).file;
    inside.database.exec("PRAGMA max_page_count = 1");
    const large = Array.from({ length: 100 }, (_, at) => request(`large ${at}`));
    for (const outcome of await store.acquire(large)) {
      expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: true });
    }
    inside.database.exec("PRAGMA max_page_count = 1000000");
    for (const outcome of await store.acquire(large)) {
      expect(outcome).toMatchObject({ status: "acquired" });
    }
  });

  it("reject what waits when they close", async () => {
    const { leases, close } = await sqlite({ file }).open(systemEnv);
    const other = database();
    other.exec("BEGIN IMMEDIATE");
    const waiting = leases.acquire([request("r")]);
    await until(expect, "it waits", () => true);
    await close();
    expect(await waiting).toMatchObject([{ status: "failed", applied: "no", retryable: false }]);
    other.exec("ROLLBACK");
  });

  it("keep tokens growing over records that were collected", async () => {
    const store = await open();
    const held = request("r");
    const [first] = await store.acquire([held]);
    await store.release([held]);
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    database().prepare("UPDATE leasehold_lease SET token = ?").run(ahead);
    await until(expect, "it is collected", async () => (await store.collect(0)) === 1);
    const [second] = await store.acquire([request("r")]);
    expect(first).toMatchObject({ status: "acquired" });
    expect(second).toMatchObject({ status: "acquired", token: ahead + 1 });
  });
});

describe("a file", () => {
  const refusal = (path: string) =>
    sqlite({ file: path })
      .open(systemEnv)
      .then(
        ({ close }) => close().then(() => null),
        (error: Error) => error,
      );

  it("that is no database is refused", async () => {
    await writeFile(
      file,
      "something else, which is long enough to have a header of its own".repeat(4),
    );
    expect(await refusal(file)).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/^SQLite cannot use .*leases\.db: .*name another file$/),
    });
  });

  it("in a folder that is missing is refused", async () => {
    expect(await refusal(join(folder, "no", "leases.db"))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/its folder must exist/),
    });
  });

  it("in WAL mode is used only with a SQLite that loses nothing in it", async () => {
    database().exec("PRAGMA journal_mode = WAL; CREATE TABLE mine (a)");
    const { version } = database().prepare("SELECT sqlite_version() AS version").get() as {
      version: string;
    };
    // From version 22.5 on, Node has one of its own.
    const hasOwn = Number(process.versions.node.split(".")[0]) > 20;
    expect((await refusal(file)) === null).toBe(hasOwn || isSafeInWal(version));
  });

  it.each([
    ["3.45.1", false],
    ["3.51.2", false],
    ["3.51.3", true],
    ["3.50.7", true],
    ["3.50.6", false],
    ["3.44.6", true],
    ["3.54.1", true],
    ["3.7.0", false],
  ])("of SQLite %s may be in WAL mode: %s", (version, isSafe) => {
    expect(isSafeInWal(version)).toBe(isSafe);
  });

  it.each(["", ":memory:", 7])("called %j is none", (name) => {
    expect(() => sqlite({ file: name as string })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", path: "file" }),
    );
  });
});
