/** `leasehold elect` says when its store stops answering, and when it answers again. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { Cli } from "../support/processes/cli.js";

describeRedis("elect, whose Redis is killed", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ appendonly: "yes" });
  });
  afterAll(() => server.remove());

  const SILENT = /^leasehold: the store has not answered since 20\d\d-\S+Z: .*; retrying$/;
  const BACK = "leasehold: the store answers again";

  it("reports it on stderr as a candidate and as an observer", async () => {
    const elect = (...args: string[]) => new Cli(["elect", "n", "--store", server.url, ...args]);
    const leader = elect("--ttl", "2s", "--holder", "a");
    await leader.until(({ out }) => out.length === 1);
    const observer = elect("--observe");
    const asJson = elect("--observe", "--json");
    for (const cli of [observer, asJson]) await cli.until(({ out }) => out.length === 1);
    await server.kill9();
    for (const cli of [leader, observer]) {
      await cli.until(({ err }) => err.some((line) => SILENT.test(line)));
    }
    await observer.until(({ out }) => out[1] === "leader unknown: the store does not answer");
    const lost = await asJson.until(({ out }) => out[1]);
    expect(JSON.parse(lost)).toMatchObject({ leader: null, unavailable: true });
    // A slow start is reported in the same way, with the time until which it is tried.
    const notice = await asJson.until(({ err }) => err.find((line) => line.includes('"since"')));
    expect(JSON.parse(notice)).toMatchObject({ event: "retrying", since: expect.any(String) });
    await server.start();
    for (const cli of [leader, observer]) await cli.until(({ err }) => err.includes(BACK));
    await asJson.until(({ err }) => err.some((line) => line.includes('"answering"')));
    await observer.until(({ out }) => out.at(-1)?.startsWith("a leads, token "));
    // Each outage is reported once.
    expect(observer.err.filter((line) => SILENT.test(line))).toHaveLength(1);
    expect(leader.err.join("\n")).toContain('the lease on "n" is lost');
    for (const cli of [leader, observer, asJson]) expect((await cli.end("SIGTERM")).code).toBe(0);
  });
});
