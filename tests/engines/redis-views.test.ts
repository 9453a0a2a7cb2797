/** What reads of leases cost Redis, whose scripts run one at a time: renewals wait for them. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { redis } from "../../packages/leasehold/src/stores/redis/index.js";
import { describeRedis, type RedisServer, startRedis } from "../support/engines/redis-engine.js";
import { Opened, requestOf } from "../support/faults/queue-site.js";
import { endAll } from "../support/processes/processes.js";

const namespace = "default";
const LEASES = 1_000;

describeRedis("reads of leases on Redis", () => {
  let server: RedisServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startRedis();
  });
  afterEach(() => opened.closeAll());
  afterAll(async () => {
    await server.remove();
    await endAll();
  });

  const calls = async (command: string) => {
    const statistics = `${await server.ask("info", "commandstats")}`;
    return Number(RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(statistics)?.[1] ?? 0);
  };
  const openFull = async () => {
    const stores = await redis({ url: `redis://127.0.0.1:${server.port}` }).open(systemEnv);
    const { leases } = opened.later(stores);
    const requests = Array.from({ length: LEASES }, (_, at) =>
      requestOf(`r${at}`, { holder: "h" }),
    );
    await leases.acquire(requests);
    return { leases, names: requests.map(({ resource }) => resource) };
  };

  it("a page reads the records that it returns, and one more", async () => {
    const { leases, names } = await openFull();
    const before = await calls("hmget");
    const page = await leases.list({ namespace, limit: 20 });
    expect(page.items.map(({ resource }) => resource)).toEqual(names.toSorted().slice(0, 20));
    expect((await calls("hmget")) - before).toBeLessThanOrEqual(21);
  });

  it("many records are read by several scripts, in the order of their names", async () => {
    const { leases, names } = await openFull();
    const before = await calls("evalsha");
    const views = await leases.get(names.map((resource) => ({ namespace, resource })));
    expect(views.map((view) => view?.resource)).toEqual(names);
    expect((await calls("evalsha")) - before).toBeGreaterThanOrEqual(10);
  });
});
