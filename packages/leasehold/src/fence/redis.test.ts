import { afterAll, beforeAll, expect, it } from "vitest";
import {
  describeRedis,
  type RedisServer,
  startRedis,
} from "../../../../tests/support/engines/redis-engine.js";
import { endAll } from "../../../../tests/support/processes/processes.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { type RedisGuard, type Refusal, redisGuard } from "./index.js";

it.each<[unknown, string]>([
  ["QUEUED", "got QUEUED"],
  [undefined, "got undefined"],
  [null, "got null"],
  [1, "got the number 1"],
  [new Error("aborted"), "got an object"],
  [[null, [1, "OK"]], "got an array"],
  [[], "got an array"],
])("names send, which answers %j instead of the reply of the script", async (answer, got) => {
  const guard = redisGuard(async () => answer);
  const message = expect.stringContaining(`${got}: pass (...args) => redis.call(...args)`);
  await expect(guard.write("r", 1, { script: "return 1" })).rejects.toEqual(
    expect.objectContaining({ code: "INVALID_OPTION", path: "send", message }),
  );
  expect(guard.refusals).toBe(0);
});

it.each([
  [[1, "OK"], "OK"],
  [["1"], undefined],
])("takes the reply %j of a client", async (answer, value) => {
  expect(await redisGuard(async () => answer).write("r", 1, { script: "" })).toBe(value);
});

describeRedis("the guard of Redis", () => {
  let server: RedisServer;
  let guard: RedisGuard;
  const SET = "return redis.call('SET', KEYS[1], ARGV[1])";
  beforeAll(async () => {
    server = await startRedis();
    guard = redisGuard((...command) => server.ask(...command));
  });
  afterAll(async () => {
    await server.remove();
    await endAll();
  });
  const set = (token: number, value: string) =>
    guard.write("r", token, { script: SET, keys: ["balance"], args: [value] });

  it("writes for a newer and an equal token, and refuses an older one with nothing written", async () => {
    expect(await set(9, "a")).toBe("OK");
    expect(await set(10, "b")).toBe("OK");
    expect(await set(10, "b again")).toBe("OK");
    expect(await set(1_795_231_079_067_001, "c")).toBe("OK");
    await expect(set(1_795_231_079_067_000, "stale")).rejects.toMatchObject({
      code: "STALE_TOKEN",
      resource: "r",
      lastToken: 1_795_231_079_067_001,
    });
    expect(await server.ask("GET", "balance")).toBe("c");
    expect(guard.refusals).toBe(1);
  });

  it("lets tokens only grow, whatever the order of many callers", async () => {
    const script = "return redis.call('RPUSH', KEYS[1], ARGV[1])";
    const tokens = Array.from({ length: 200 }, (_, at) => 1 + ((at * 37) % 200));
    const all = tokens.map((token) =>
      guard
        .write("crowd", token, { script, keys: ["order"], args: [token] })
        .catch(() => "refused"),
    );
    expect(await Promise.all(all)).toContain("refused");
    const order = ((await server.ask("LRANGE", "order", "0", "-1")) as string[]).map(Number);
    expect(order).toEqual([...order].sort((a, b) => a - b));
  });

  it("keeps the tokens of each namespace, and tells whose write it refused", async () => {
    const refused: Refusal[] = [];
    const { telemetry, valuesOf } = recordedTelemetry();
    const onRefused = (refusal: Refusal) => void refused.push(refusal);
    const guardOf = (namespace: string) =>
      redisGuard((...command) => server.ask(...command), { namespace, onRefused, telemetry });
    const write = (namespace: string, token: number) =>
      guardOf(namespace).write("shared", token, { script: "return 1" });
    // A namespace may contain what stands between the parts of a key.
    for (const [namespace, token] of [
      ["a", 11],
      ["b", 5],
      ["1:a", 3],
    ] as const) {
      expect(await write(namespace, token)).toBe(1);
    }
    await expect(write("b", 4)).rejects.toMatchObject({ code: "STALE_TOKEN", lastToken: 5 });
    expect(refused).toEqual([{ namespace: "b", resource: "shared", token: 4, lastToken: 5 }]);
    expect(valuesOf("leasehold.fence.refusals")).toEqual([[{}, 1]]);
  });

  it("keeps each token without an expiry, as a paused holder may write much later", async () => {
    await guard.write("kept", 3, { script: "return 1" });
    await guard.write("kept", 4, { script: "return 1" });
    const places = (await server.ask("KEYS", "leasehold:fence:*:{kept}")) as string[];
    expect(places).toHaveLength(1);
    for (const place of places) expect(await server.ask("PTTL", place)).toBe(-1);
  });

  it("keeps the token of a write that failed half-way, and what an empty one answers", async () => {
    const script = "redis.call('SET', KEYS[1], 'half'); error('broken')";
    await expect(guard.write("half", 5, { script, keys: ["half"] })).rejects.toThrow("broken");
    await expect(guard.write("half", 4, { script: "return 1" })).rejects.toMatchObject({
      lastToken: 5,
    });
    expect(await guard.write("half", 5, { script: "" })).toBeUndefined();
  });

  it("says what is wrong", async () => {
    await expect(guard.write("", 1, { script: SET })).rejects.toMatchObject({ path: "resource" });
    for (const [path, write] of [
      ["write", undefined],
      ["script", {}],
      ["keys", { script: SET, keys: "balance" }],
      ["keys.0", { script: SET, keys: [1] }],
      ["args.0", { script: SET, args: [Symbol("a")] }],
      ["argv", { script: SET, argv: [1] }],
    ] as const) {
      const asked = guard.write("wrong", 7, write as never);
      await expect(asked).rejects.toMatchObject({ code: "INVALID_OPTION", path });
    }
    expect(await guard.write("wrong", 1, { script: "return 1" })).toBe(1);
    expect(() => redisGuard({} as never)).toThrow(/send must be a function/);
  });
});
