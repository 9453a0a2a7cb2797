import { once } from "node:events";
import { Redis } from "ioredis";
import { expect, it, onTestFinished } from "vitest";
import { describeRedis, startRedis } from "../../../../../tests/support/redis-engine.js";
import { systemEnv } from "../../env/index.js";
import { Connection } from "./connection.js";

describeRedis("a connection to Redis", () => {
  it("is dropped once, however many calls of a silent server are overdue", async () => {
    const server = await startRedis();
    onTestFinished(server.remove);
    const options = { lazyConnect: true, retryStrategy: () => null };
    const make = () => new Redis(server.port, "127.0.0.1", options);
    const connection = new Connection("Redis", systemEnv, make);
    onTestFinished(() => connection.close());
    const client = (await connection.open(systemEnv.clock.monotonic() + 60_000)) as Redis;
    const { stream } = client as unknown as { stream: NodeJS.EventEmitter };
    const before = stream.listenerCount("close");
    const ended = once(client, "end");
    // Their timers fire in one turn, before the socket has closed.
    for (let call = 0; call < 20; call += 1) connection.drop(client);
    expect(stream.listenerCount("close") - before).toBe(1);
    await ended;
  });
});
