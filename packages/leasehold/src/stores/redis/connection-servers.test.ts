/** Which server gets a script: one that has lost it, and a cluster whose slots move. */
import { expect, it } from "vitest";
import {
  fakeRedis,
  replyError,
  type Sent,
} from "../../../../../tests/support/engines/fake-redis.js";
import { manualEnv } from "../../testing/index.js";
import { type Lane, Servers } from "./connection-servers.js";
import { slotOf } from "./keys.js";

const SCRIPT = { text: "return 1", sha: "sha-1" };
const KEY = "{k}:r";
const SLOT = slotOf(KEY);
const LATER_MS = 10_000;

it("sends the text of a script that the server has lost, each time", async () => {
  let isLoaded = true;
  const { driver, sent } = fakeRedis(({ command }) => {
    if (command === "evalsha" && !isLoaded) throw replyError("NOSCRIPT No matching script.");
    if (command === "eval") isLoaded = true;
    return "done";
  });
  const servers = new Servers(driver, manualEnv());
  const run = (lane: Lane) => servers.run(lane, SCRIPT, [KEY, "other"], ["x", 7], LATER_MS);
  for (let round = 0; round < 3; round += 1) {
    isLoaded = false;
    sent.length = 0;
    expect(await run("general")).toBe("done");
    const rest = [2, KEY, "other", "x", 7];
    expect(sent.map(({ command, args }) => [command, ...args])).toEqual([
      ["evalsha", SCRIPT.sha, ...rest],
      ["eval", SCRIPT.text, ...rest],
    ]);
    sent.length = 0;
    await run("general");
    expect(sent.map(({ command }) => command)).toEqual(["evalsha"]);
  }
  // Acquires must not delay a renewal.
  await run("control");
  const lanes = new Set(sent.map(({ connection }) => connection));
  expect(lanes.size).toBe(2);
  servers.close();
});

/** A cluster of nodes `a:1`, `b:2` and `c:3`, in which the first owns all slots. */
async function cluster(answer: (sent: Sent) => unknown = () => "done") {
  const map = { owner: ["a", 1] as [string, number], reads: [] as string[] };
  const redis = fakeRedis(
    (sent) => {
      if (sent.command !== "cluster") return answer(sent);
      map.reads.push(sent.node);
      return [
        [0, SLOT - 1, ["a", 1]],
        [SLOT, SLOT, map.owner],
        [SLOT + 1, 16_383, ["b", 2]],
      ];
    },
    [
      { host: "a", port: 1 },
      { host: "b", port: 2 },
    ],
  );
  const env = manualEnv();
  const servers = new Servers(redis.driver, env);
  await servers.readSlots(LATER_MS);
  const run = async () => {
    redis.sent.length = 0;
    await servers.run("general", SCRIPT, [KEY], [], env.clock.monotonic() + LATER_MS);
    return redis.sent.map(({ node, command }) => `${node} ${command}`);
  };
  return { ...redis, map, servers, run, clock: env.clock };
}

it("follows a slot that has moved, and remembers where", async () => {
  let owner = "b:2";
  const { run, servers } = await cluster(({ node }) => {
    if (node !== owner) throw replyError(`MOVED ${SLOT} ${owner}`);
    return "done";
  });
  expect(await run()).toEqual(["a:1 evalsha", "b:2 evalsha"]);
  expect(await run()).toEqual(["b:2 evalsha"]);
  owner = "c:3";
  expect(await run()).toEqual(["b:2 evalsha", "c:3 evalsha"]);
  expect(await run()).toEqual(["c:3 evalsha"]);
  expect(servers.nodes()).toContain("c:3");
  servers.close();
});

it("asks another node only once while a slot is moving, and says so in its own command", async () => {
  const { run, servers } = await cluster(({ node, command }) => {
    if (node === "a:1" && command !== "asking") throw replyError(`ASK ${SLOT} b:2`);
    return "done";
  });
  for (let round = 0; round < 3; round += 1) {
    expect(await run()).toEqual(["a:1 evalsha", "b:2 asking", "b:2 evalsha"]);
  }
  servers.close();
});

it("takes the host of the node that answers where a redirection has none", async () => {
  const { run, servers } = await cluster(({ node }) => {
    if (node === "a:1") throw replyError(`MOVED ${SLOT} :7`);
    return "done";
  });
  expect(await run()).toEqual(["a:1 evalsha", "a:7 evalsha"]);
  servers.close();
});

it("gives up after five redirections", async () => {
  const { run, servers, sent } = await cluster(({ node }) => {
    throw replyError(`MOVED ${SLOT} ${node === "a:1" ? "b:2" : "a:1"}`);
  });
  await expect(run()).rejects.toMatchObject({ retryable: true, outcome: "none" });
  expect(sent).toHaveLength(6);
  servers.close();
});

it("reads the slots again after a node has failed, each time, from any that answers", async () => {
  const failed = new Set(["a:1"]);
  const { map, run, servers, clock } = await cluster(({ node }) => {
    if (failed.has(node)) throw new Error("Connection is closed.");
    return "done";
  });
  map.reads.length = 0;
  map.owner = ["b", 2];
  await expect(run()).rejects.toMatchObject({ outcome: "unknown" });
  await clock.settle();
  expect(map.reads).toHaveLength(1);
  expect(await run()).toEqual(["b:2 evalsha"]);
  failed.add("b:2");
  failed.delete("a:1");
  map.owner = ["a", 1];
  await expect(run()).rejects.toMatchObject({ outcome: "unknown" });
  await clock.settle();
  expect(map.reads).toHaveLength(2);
  expect(await run()).toEqual(["a:1 evalsha"]);
  servers.close();
});

it("reads the slots from a node that answers, though others do not", async () => {
  let reads = 0;
  const { driver, sent } = fakeRedis(
    ({ node }) => {
      reads += 1;
      if (node === "a:1") throw new Error("Connection is closed.");
      return [[0, 16_383, [null, 2]]];
    },
    [
      { host: "a", port: 1 },
      { host: "b", port: 2 },
    ],
  );
  const servers = new Servers(driver, manualEnv());
  expect(servers.isCluster).toBe(false);
  await expect(servers.readSlots(LATER_MS)).resolves.toBeUndefined();
  expect(servers.isCluster).toBe(true);
  expect(servers.nodes()).toEqual(["b:2"]);
  expect(reads).toBe(sent.length);
  servers.close();
});

it("reads the slots last from the node that failed, which may be cut off from the others", async () => {
  const { driver } = fakeRedis(
    ({ node, command }) => {
      if (command === "cluster") return [[0, 16_383, node === "a:1" ? ["a", 1] : ["b", 2]]];
      if (node === "a:1") throw replyError("CLUSTERDOWN The cluster is down");
      return "done";
    },
    [
      { host: "a", port: 1 },
      { host: "b", port: 2 },
    ],
  );
  const env = manualEnv();
  const servers = new Servers(driver, env);
  const run = () =>
    servers.run("general", SCRIPT, [KEY], [], env.clock.monotonic() + LATER_MS).catch(String);
  await servers.readSlots(LATER_MS);
  expect(servers.nodes()).toEqual(["a:1"]);
  expect(await run()).toMatch(/CLUSTERDOWN/);
  await env.clock.settle();
  expect(await run()).toBe("done");
  servers.close();
});

it("leaves all connections to a server when one of them learns that it is a replica", async () => {
  const isReplica = new Set([1, 2]);
  const { driver, sent, open } = fakeRedis(({ command, connection }) => {
    const isRefused = command === "evalsha" && isReplica.has(connection);
    return isRefused ? [7, ["failed", "READONLY You can't write."]] : "done";
  });
  const env = manualEnv();
  const servers = new Servers(driver, env);
  const lefts: string[] = [];
  const stop = servers.onLeft(() => void lefts.push("left"));
  const run = async (lane: Lane) => {
    const reply = servers.run(lane, SCRIPT, [KEY], [], env.clock.monotonic() + LATER_MS);
    await env.clock.advance(100);
    return reply;
  };
  await servers.commandTo(undefined, LATER_MS, "time");
  await run("control");
  expect(lefts.length).toBeGreaterThan(0);
  expect(await run("general")).toBe("done");
  expect(await run("control")).toBe("done");
  expect(open).toHaveLength(2);
  expect(sent.filter(({ command }) => command === "evalsha")).toHaveLength(3);
  stop();
  servers.close();
});

it("takes the host of the URL where a cluster does not say its own", async () => {
  for (const host of [null, ""]) {
    const answer = () => [
      [0, 99, [host, 1]],
      [100, 16_383, [host, 2]],
    ];
    const { driver } = fakeRedis(answer, [{ host: "a", port: 1 }]);
    const servers = new Servers(driver, manualEnv());
    await servers.readSlots(LATER_MS);
    expect(servers.nodes()).toEqual(["a:1", "a:2"]);
    servers.close();
  }
});
