/** `leasehold migrate` of stores without tables of ours, by real processes. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

beforeAll(checkBuild);
afterAll(() => endAll());

const LOOKS = [[], ["--dry-run"], ["--sql"], ["--status"]];

it("reports that a store does not answer", async () => {
  const store = "redis://127.0.0.1:1";
  for (const look of LOOKS) {
    const { code, stdout, stderr } = await leasehold(["migrate", ...look, "--store", store]);
    expect([look, code, stdout]).toEqual([look, 69, ""]);
    expect(stderr).toContain("STORE_UNAVAILABLE");
  }
});

it("refuses a server, whose database may need migrations, before it migrates anything", async () => {
  const { url } = await serve();
  for (const look of LOOKS) {
    const own = await leasehold(["migrate", ...look, "--store", url]);
    const control = await leasehold(["migrate", ...look, "--store", "memory:", "--control", url]);
    for (const { code, stdout, stderr } of [own, control]) {
      expect([look, code, stdout]).toEqual([look, 64, ""]);
      expect(stderr).toContain(`${url} is a server: migrate the database behind it`);
    }
  }
});

describeRedis("of Redis", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.remove());

  it("says that there are no tables", async () => {
    const migrate = (...look: string[]) => leasehold(["migrate", ...look, "--store", redis.url]);
    const said = `${redis.url}: redis has no tables: nothing to migrate`;
    expect(await migrate()).toMatchObject({ code: 0, stdout: said });
    expect(await migrate("--status")).toMatchObject({ code: 0, stdout: said });
    expect(await migrate("--sql")).toMatchObject({ code: 0, stdout: `-- ${said}` });
    expect(JSON.parse((await migrate("--json")).stdout)).toEqual({ store: redis.url, applied: [] });
  });
});
