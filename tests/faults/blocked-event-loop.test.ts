/**
 * Holders whose event loop is blocked, as real processes: with and without a renewal thread.
 * @module-tag safety
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { checkBuild, ownEnvironment } from "../support/processes/cli.js";
import { Child, endAll, temporaryFolder } from "../support/processes/processes.js";

const TTL_MS = 1_000;
const script = fileURLToPath(new URL("../support/processes/blocked-holder.js", import.meta.url));

type Said = Readonly<Record<string, unknown>>;

class Holder {
  readonly process: Child;

  constructor(source: string, options: object = {}) {
    const given = JSON.stringify({ graceMs: 0, ...options });
    const args = [script, source, given, `${TTL_MS}`];
    this.process = new Child(process.execPath, args, { env: ownEnvironment() });
  }

  /** The first line that it prints with this key. */
  says(key: string): Promise<Said> {
    return this.process.until((child) => all(child).find((said) => key in said));
  }

  get logged(): unknown[] {
    return all(this.process).flatMap(({ message }) => message ?? []);
  }
}

function all(child: Child): Said[] {
  return child.out.map((line) => JSON.parse(line) as Said);
}

/** As an argument of node, and closing nothing. */
const IDLE = `
  import { connect } from "leasehold";
  const leasehold = await connect(process.argv[1], { renewIn: "thread" });
  await leasehold.run("idle", () => console.log("ran"));`;

/** Holds again after its last lease, and says what was logged in more than maxBlockedMs. */
const TWICE = `
  import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
  import { connect } from "leasehold";
  const logged = [];
  const log = (_, message) => logged.push(message);
  const logger = { debug() {}, info() {}, warn: log, error: log };
  const leasehold = await connect(process.argv[1], { renewIn: "thread", maxBlockedMs: 3_000, logger });
  for (const resource of ["first", "second", "third"]) {
    await leasehold.run(resource, { ttlMs: 2_000 }, () => delay(resource === "third" ? 5_000 : 0));
    await delay(1_500);
  }
  console.log(JSON.stringify(logged));`;

function behave(open: () => Promise<{ url: string; remove(): Promise<unknown> }>): void {
  let source: Awaited<ReturnType<typeof open>>;
  let other: Leasehold;
  beforeAll(async () => {
    checkBuild();
    source = await open();
    other = await connect(source.url, { holder: "other", graceMs: 0 });
  });
  afterAll(async () => {
    await other.close();
    await source.remove();
  });

  it("loses its lease without a thread", async () => {
    const holder = new Holder(source.url);
    const { token } = await holder.says("token");
    holder.process.say(`block ${3 * TTL_MS}`);
    const lease = await other.acquire("r", { ttlMs: TTL_MS });
    expect(lease.token).toBeGreaterThan(Number(token));
    expect(await holder.says("alive")).toEqual({ alive: false, aborted: true, remainingMs: 0 });
    expect(await holder.says("lost")).toEqual({ lost: "expired" });
    await lease.release();
    await holder.process.endGroup();
  });

  it("keeps its lease with a thread, and the process ends after close()", async () => {
    const holder = new Holder(source.url, { renewIn: "thread" });
    const { token } = await holder.says("token");
    holder.process.say(`block ${3 * TTL_MS}`);
    await holder.says("blocked");
    await delay(2 * TTL_MS);
    expect(await other.tryAcquire("r")).toBeNull();
    expect(await other.get("r")).toMatchObject({ state: "live", token });
    const { alive, aborted, remainingMs } = await holder.says("alive");
    expect({ alive, aborted }).toEqual({ alive: true, aborted: false });
    expect(remainingMs).toBeGreaterThan(0);
    expect(remainingMs).toBeLessThan(TTL_MS);
    // It goes on as before: the lease outlives the next TTLs too.
    await delay(2 * TTL_MS);
    holder.process.say("check");
    expect(await holder.says("checked")).toEqual({ checked: true, aborted: false });
    expect(await other.get("r")).toMatchObject({ state: "live", token });
    holder.process.say("close");
    expect(await holder.process.ended).toMatchObject({ code: 0, stderr: "" });
    expect(await other.get("r")).toMatchObject({ state: "released" });
    expect(holder.logged).toEqual([]);
  });

  it("loses its lease when it blocks for longer than maxBlockedMs", async () => {
    const holder = new Holder(source.url, { renewIn: "thread", maxBlockedMs: 2 * TTL_MS });
    const { token } = await holder.says("token");
    const before = await other.get("r");
    const file = join(await temporaryFolder(), "go-on");
    holder.process.say(`block-until ${file}`);
    await holder.says("blocked");
    // It is blocked all the while.
    const lease = await other.acquire("r", { ttlMs: TTL_MS });
    expect(lease.token).toBeGreaterThan(Number(token));
    const { grantedAt } = (await other.get("r")) ?? {};
    await writeFile(file, "");
    // By the store's times. Without a renewal meanwhile, it were a TTL and little more.
    const renewedAt = before?.renewedAt ?? before?.grantedAt;
    const keptMs = Date.parse(grantedAt ?? "") - Date.parse(renewedAt ?? "");
    expect(keptMs).toBeGreaterThan(1.5 * TTL_MS);
    expect(await holder.says("alive")).toEqual({ alive: false, aborted: true, remainingMs: 0 });
    expect(await holder.says("lost")).toEqual({ lost: "expired" });
    await holder.process.until(() => holder.logged.length > 1);
    expect(holder.logged).toContain("the event loop is blocked: its leases are no longer renewed");
    expect(lease.checkAlive()).toBe(true);
    await lease.release();
    await holder.process.endGroup();
  });

  it("loses a revoked lease", async () => {
    const holder = new Holder(source.url, { renewIn: "thread" });
    const { token } = await holder.says("token");
    expect(await other.revoke("r", { free: "now" })).toMatchObject({ status: "revoked", token });
    expect(await holder.says("lost")).toEqual({ lost: "revoked" });
    await holder.process.endGroup();
  });

  it("goes on without its thread, and logs that", async () => {
    const holder = new Holder(source.url, { renewIn: "thread" });
    const { token } = await holder.says("token");
    holder.process.say("end-threads");
    expect(await holder.says("ended")).toEqual({ ended: 1 });
    const text = "the renewal thread has ended: the event loop renews alone";
    await holder.process.until(() => holder.logged.includes(text));
    await delay(3 * TTL_MS);
    holder.process.say("check");
    expect(await holder.says("checked")).toEqual({ checked: true, aborted: false });
    expect(await other.get("r")).toMatchObject({ state: "live", token });
    holder.process.say("close");
    expect(await holder.process.ended).toMatchObject({ code: 0, stderr: "" });
    expect(await other.get("r")).toMatchObject({ state: "released" });
  });

  it("shows that it runs when it holds again after its last lease", async () => {
    const args = ["--input-type=module", "-e", TWICE, source.url];
    const child = new Child(process.execPath, args, { env: ownEnvironment() });
    expect(await child.ended).toEqual({ code: 0, stdout: "[]", stderr: "" });
  });

  it("keeps no process alive that has nothing else to do", async () => {
    const args = ["--input-type=module", "-e", IDLE, source.url];
    const child = new Child(process.execPath, args, { env: ownEnvironment() });
    expect(await child.ended).toEqual({ code: 0, stdout: "ran", stderr: "" });
  });
}

let redis: RedisServer | undefined;
afterEach(() => endAll(redis?.process));

describePostgres("on PostgreSQL, a holder whose event loop is blocked", () => {
  behave(async () => {
    const database = await freshDatabase();
    return { url: database.url, remove: () => database.drop() };
  });
});

describeRedis("on Redis, a holder whose event loop is blocked", () => {
  behave(async () => {
    const server = await startRedis();
    redis = server;
    return { url: server.url, remove: () => server.remove() };
  });
});
