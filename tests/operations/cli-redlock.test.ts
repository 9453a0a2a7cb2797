/** What commands print of leases in a compatibility format, which keeps neither tokens nor TTLs. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { checkBuild, endAll, leasehold } from "../support/processes/cli.js";

describeRedis("on redis with format=redlock", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    checkBuild();
    redis = await startRedis();
  });
  afterAll(async () => {
    await endAll();
    await redis.remove();
  });

  it("no command prints a token or a TTL", async () => {
    const store = `${redis.url}?format=redlock`;
    await using client = await connect(store, { holder: "web-1", graceMs: 0, unfenced: true });
    await client.acquire("r", { ttlMs: 60_000 });
    const run = (...args: string[]) => leasehold([...args, "--store", store]);
    const json = async (...args: string[]) => JSON.parse((await run(...args, "--json")).stdout);
    const unknown = { token: null, ttlMs: null };
    expect((await json("show", "r")).lease).toMatchObject(unknown);
    expect((await json("why", "r")).lease).toMatchObject(unknown);
    for (const verb of ["show", "why"]) {
      const { stdout } = await run(verb, "r");
      expect(stdout).toContain("no token");
      expect(stdout).toMatch(/\d+s left/);
      expect(stdout).not.toMatch(/token 0|ttl|left of/);
    }
  });
});
