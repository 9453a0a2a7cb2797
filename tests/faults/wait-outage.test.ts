/** Commands that wait say who holds the lease, when their store stops answering, and when it answers again. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { Cli } from "../support/processes/cli.js";

describeRedis("commands that wait, whose Redis is killed", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ appendonly: "yes" });
  });
  afterAll(() => server.remove());

  const HELD = /^leasehold: "n" is held by a for another \d.*; waiting/;
  const SILENT = /^leasehold: the store has not answered since 20\d\d-\S+Z: .*; retrying/;
  const BACK = "leasehold: the store answers again";

  it("is reported once by run, acquire and watch", async () => {
    const start = (...args: string[]) => new Cli([...args, "--store", server.url]);
    const run = (...args: string[]) =>
      new Cli(["run", "n", "--store", server.url, ...args, "--", "echo", "done"]);
    const holder = start("acquire", "n", "--holder", "a", "--ttl", "10m", "--json");
    const { leaseId } = JSON.parse((await holder.ended).stdout) as { leaseId: string };
    const forEver = run();
    const bounded = run("--wait", "5m");
    const asJson = run("--wait", "5m", "--json");
    const acquiring = start("acquire", "n", "--wait", "5m");
    const watching = start("watch");
    const waiting = [forEver, bounded, acquiring];
    for (const cli of waiting) await cli.until(({ err }) => err.some((line) => HELD.test(line)));
    const held = await asJson.until(({ err }) => err.find((line) => line.includes('"waiting"')));
    expect(JSON.parse(held)).toMatchObject({
      event: "waiting",
      resource: "n",
      holder: "a",
      remainingMs: expect.any(Number),
      until: expect.any(String),
    });
    await watching.until(({ out }) => out.length === 1);
    await server.kill9();
    for (const cli of [...waiting, watching]) {
      await cli.until(({ err }) => err.some((line) => SILENT.test(line)));
    }
    const lost = await asJson.until(({ err }) => err.find((line) => line.includes('"retrying"')));
    expect(JSON.parse(lost)).toMatchObject({
      event: "retrying",
      since: expect.any(String),
      until: expect.any(String),
    });
    for (const cli of [forEver, bounded, acquiring]) {
      expect(cli.err.join("\n")).toMatch(/; retrying until 20\d\d-/);
    }
    // Two more polls of the watch would repeat it.
    await server.start();
    for (const cli of [...waiting, watching]) await cli.until(({ err }) => err.includes(BACK));
    await asJson.until(({ err }) => err.some((line) => line.includes('"answering"')));
    expect(watching.err.filter((line) => SILENT.test(line))).toHaveLength(1);
    await start("release", leaseId).ended;
    for (const cli of [forEver, bounded, asJson]) expect((await cli.ended).code).toBe(0);
    expect((await acquiring.ended).code).toBe(0);
    for (const cli of waiting) {
      expect(cli.err.every((line) => line.startsWith("leasehold: "))).toBe(true);
      expect(cli.err.filter((line) => SILENT.test(line))).toHaveLength(1);
    }
    expect((await watching.end("SIGTERM")).code).toBe(0);
  });
});
