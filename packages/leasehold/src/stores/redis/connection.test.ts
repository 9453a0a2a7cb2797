import { once } from "node:events";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { fakeRedis, replyError } from "../../../../../tests/support/engines/fake-redis.js";
import { describeRedis, startRedis } from "../../../../../tests/support/engines/redis-engine.js";
import { systemEnv } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
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

const LATER_MS = 100_000;
/** For a command by itself, and for one request in the batch of a script. */
const REPLIES = {
  itself: (message: string) => {
    throw replyError(message);
  },
  "in a batch": (message: string) => [7, 1, ["failed", message]],
};

/** A connection to a server that a test plays. */
function connectionTo(answer: Parameters<typeof fakeRedis>[0]) {
  const [redis, env, lefts] = [fakeRedis(answer), manualEnv(), [] as string[]];
  const make = () => redis.driver.open();
  const onLeft = () => void lefts.push("left");
  const connection = new Connection("Redis", env, make, undefined, onLeft);
  const call = (command: string) =>
    connection.call(env.clock.monotonic() + LATER_MS, command).catch(String);
  return { ...redis, connection, lefts, call, clock: env.clock };
}

describe.each(Object.entries(REPLIES))("a reply %s", (_, reply) => {
  it.each([
    "READONLY You can't write against a read only replica.",
    "@user_script: 12: -READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "ERR Can not execute the command on a stale replica script: 1f, on @user_script:3.",
    "NOREPLICAS Not enough good replicas to write.",
    "LOADING Redis is loading the dataset in memory",
    "NOAUTH Authentication required.",
  ])("%s makes the next call open another connection", async (message) => {
    const { connection, sent, lefts, call, clock } = connectionTo(({ command, connection }) =>
      command === "work" && connection === 1 ? reply(message) : "done",
    );
    await call("work");
    expect(lefts).toEqual(["left"]);
    const next = call("work");
    await clock.advance(1_000);
    expect(await next).toBe("done");
    expect(sent.map(({ command, connection }) => `${connection} ${command}`)).toEqual([
      "1 work",
      "1 quit",
      "2 work",
    ]);
    connection.close();
  });

  it.each([
    "OOM command not allowed when used memory > 'maxmemory'.",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to disk.",
    "BUSY Redis is busy running a script.",
  ])("%s does not", async (message) => {
    const { connection, sent, lefts, call } = connectionTo(() => reply(message));
    for (let time = 0; time < 3; time += 1) await call("work");
    expect(lefts).toEqual([]);
    expect(new Set(sent.map(({ connection }) => connection)).size).toBe(1);
    connection.close();
  });
});

it("gives the calls in flight their replies before a connection is left", async () => {
  const replies: ((reply: unknown) => void)[] = [];
  const { connection, open, call, clock } = connectionTo(
    () => new Promise((resolve) => replies.push(resolve)),
  );
  const calls = [call("first"), call("second")];
  await clock.settle();
  replies[0]?.([7, ["failed", "READONLY"]]);
  await calls[0];
  expect(open).toHaveLength(1);
  replies[1]?.("done");
  expect(await calls[1]).toBe("done");
  // To QUIT.
  replies[2]?.("OK");
  await clock.settle();
  expect(open).toHaveLength(0);
  connection.close();
});

it("reopens less and less often while the server refuses, and at once after a time that it served", async () => {
  let isReadOnly = true;
  const { connection, sent, call, clock } = connectionTo(({ command }) => {
    if (isReadOnly && command === "work") throw replyError("READONLY");
    return "done";
  });
  const connectionsWithin = async (seconds: number) => {
    sent.length = 0;
    for (let tenth = 0; tenth < 10 * seconds; tenth += 1) {
      void call("work");
      await clock.advance(100);
    }
    return new Set(sent.map(({ connection }) => connection)).size;
  };
  expect(await connectionsWithin(60)).toBeLessThan(100);
  isReadOnly = false;
  expect(await connectionsWithin(5)).toBe(1);
  isReadOnly = true;
  await call("work");
  isReadOnly = false;
  const [called, beforeMs] = [call("work"), clock.monotonic()];
  await clock.advance(40);
  expect(await called).toBe("done");
  expect(clock.monotonic() - beforeMs).toBe(40);
  connection.close();
});

it("opens no connection once it is closed, also during a backoff", async () => {
  const { connection, open, call, clock } = connectionTo(({ command }) => {
    if (command === "work") throw replyError("READONLY");
    return "OK";
  });
  await call("work");
  const next = call("work");
  connection.close();
  expect(await next).toMatch(/closed/);
  await clock.advance(1_000);
  expect(open).toHaveLength(0);
  expect(clock.pendingTimers).toBe(0);
});
