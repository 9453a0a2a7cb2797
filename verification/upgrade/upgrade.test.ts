/** Two versions at once, as `npm run verify -- upgrade` runs them. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describePostgres, freshDatabase } from "../../tests/support/engines/postgres.js";
import { describeRedis, startRedis } from "../../tests/support/engines/redis-engine.js";
import { endAll } from "../../tests/support/processes/processes.js";
import { onLeases, onPostgres, onServers } from "./story.js";
import { buildVersions, type Versions } from "./versions.js";

let versions: Versions;
beforeAll(async () => {
  versions = await buildVersions();
});
afterAll(async () => {
  await endAll();
  await versions?.remove();
});

/** Each step of a story fails by itself if it does not come. */
async function stepsOf(story: AsyncGenerator<string>): Promise<number> {
  let count = 0;
  for await (const _ of story) count += 1;
  return count;
}

describePostgres("on PostgreSQL", () => {
  it.each([
    ["old clients go on beside next ones, whose release migrates", onPostgres, 11],
    ["clients of both go on at servers of both", onServers, 7],
  ] as const)("%s", async (_, story, count) => {
    const { url, drop } = await freshDatabase();
    expect(await stepsOf(story(versions, url))).toBe(count);
    await drop();
  });
});

describeRedis("on Redis", () => {
  it("clients of both share leases", async () => {
    const redis = await startRedis();
    expect(await stepsOf(onLeases(versions, redis.url))).toBe(2);
    await redis.remove();
  });
});
