/** The one connection of all watches, through several losses. */
import { expect, it } from "vitest";
import { fakeRedis } from "../../../../../tests/support/engines/fake-redis.js";
import { silentLogger } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { Servers } from "./connection-servers.js";
import { Notifications } from "./watch-connection.js";

const CHECK_MS = 15_000;

async function open() {
  const warnings: string[] = [];
  const warn = (_: object, message: string) => void warnings.push(message);
  const env = manualEnv({ logger: { ...silentLogger, warn } });
  const pings = { fail: false };
  const roles = { now: "master" };
  /** Called when the server receives a SUBSCRIBE, before it replies. */
  const subscribes = { onReceived: () => {} };
  const redis = fakeRedis(({ command }) => {
    if (command === "ping" && pings.fail) throw new Error("Connection is closed.");
    if (command === "info") return `role:${roles.now}`;
    if (command === "subscribe") subscribes.onReceived();
    return "OK";
  });
  const notifications = new Notifications(new Servers(redis.driver, env));
  await notifications.open("probe");
  const watch = (channel: string) => {
    const events: string[] = [];
    const stop = notifications.watch(channel, {
      resync: () => void events.push("resync"),
      notify: (message) => void events.push(message),
    });
    return { events, stop };
  };
  const commands = () =>
    redis.sent
      .splice(0)
      .map(({ command, args }) => [command, ...args].join(" "))
      .filter((command) => command !== "info replication");
  commands();
  const publish = (channel: string, message: string) =>
    void redis.open.at(-1)?.emit("message", channel, message);
  const { clock } = env;
  /** Ends the connection, and waits until there is another one. */
  const lose = async () => {
    redis.open.at(-1)?.disconnect();
    await clock.advance(10_000);
  };
  return {
    ...redis,
    clock,
    notifications,
    watch,
    commands,
    publish,
    lose,
    pings,
    roles,
    subscribes,
    warnings,
  };
}

it("subscribes to each channel while it has watchers, and notifies those alone", async () => {
  const { clock, watch, commands, publish, notifications } = await open();
  const [first, second, other] = [watch("n"), watch("n"), watch("other")];
  await clock.settle();
  publish("n", "1");
  for (const { events } of [first, second]) expect(events).toEqual(["resync", "1"]);
  expect(other.events).toEqual(["resync"]);
  commands();
  first.stop();
  await clock.settle();
  expect(commands()).toEqual([]);
  publish("n", "2");
  expect(first.events).toEqual(["resync", "1"]);
  expect(second.events).toEqual(["resync", "1", "2"]);
  second.stop();
  second.stop();
  await clock.settle();
  expect(commands()).toEqual(["unsubscribe n"]);
  const again = watch("n");
  second.stop();
  await clock.settle();
  expect(commands()).toEqual(["subscribe n"]);
  publish("n", "3");
  expect(again.events).toEqual(["resync", "3"]);
  notifications.close();
});

it("subscribes to all channels after each loss, and all watchers have to read anew", async () => {
  const {
    clock,
    open: connections,
    watch,
    commands,
    publish,
    lose,
    warnings,
    ...rest
  } = await open();
  const [n, second, other] = [watch("n"), watch("n"), watch("other")];
  const gone = watch("gone");
  await clock.settle();
  gone.stop();
  await clock.settle();
  commands();
  for (let loss = 1; loss <= 3; loss += 1) {
    await lose();
    expect(commands()).toEqual(["subscribe n other"]);
    expect(warnings).toHaveLength(loss);
    publish("n", `${loss}`);
    expect(n.events).toEqual([
      "resync",
      ...[1, 2, 3].slice(0, loss).flatMap((at) => ["resync", `${at}`]),
    ]);
    expect(second.events).toEqual(n.events);
    expect(other.events).toEqual(Array(loss + 1).fill("resync"));
    expect(connections).toHaveLength(1);
    expect(clock.pendingTimers).toBe(1);
  }
  expect(gone.events).toEqual(["resync"]);
  rest.notifications.close();
  expect(clock.pendingTimers).toBe(0);
});

it("takes watchers while there is no connection, and tries until there is one", async () => {
  const { clock, server, watch, lose, commands, notifications } = await open();
  watch("n");
  await clock.settle();
  commands();
  server.isDown = true;
  await lose();
  const late = watch("late");
  await clock.advance(60_000);
  expect(late.events).toEqual([]);
  server.isDown = false;
  await clock.advance(10_000);
  expect(commands()).toEqual(["subscribe n late"]);
  expect(late.events).toEqual(["resync"]);
  notifications.close();
});

it("subscribes to a channel whose first watcher arrives while the others are subscribed to", async () => {
  const { clock, watch, lose, commands, publish, subscribes, notifications } = await open();
  watch("n");
  await clock.settle();
  commands();
  const late: ReturnType<typeof watch>[] = [];
  subscribes.onReceived = () => {
    if (late.length === 0) late.push(watch("late"));
  };
  await lose();
  expect(commands()).toEqual(["subscribe n", "subscribe n late"]);
  publish("late", "1");
  expect(late.map(({ events }) => events)).toEqual([["resync", "1"]]);
  notifications.close();
});

it("checks the connection every 15 s, and opens another one when a check fails", async () => {
  const { clock, pings, watch, commands, notifications, warnings } = await open();
  const { events } = watch("n");
  await clock.settle();
  commands();
  await clock.advance(10 * CHECK_MS);
  expect(commands()).toEqual(Array(10).fill("ping"));
  for (let loss = 1; loss <= 2; loss += 1) {
    pings.fail = true;
    await clock.advance(CHECK_MS);
    pings.fail = false;
    await clock.advance(10 * CHECK_MS);
    const [failed, subscribed, ...checks] = commands();
    expect([failed, subscribed]).toEqual(["ping", "subscribe n"]);
    expect(checks.length).toBeGreaterThanOrEqual(9);
    expect(new Set(checks)).toEqual(new Set(["ping"]));
    expect(events).toHaveLength(1 + loss);
    expect(warnings).toHaveLength(loss);
  }
  notifications.close();
  await clock.advance(10 * CHECK_MS);
  expect(commands()).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

it("subscribes at a primary only, and asks a replica less and less often", async () => {
  const { clock, roles, sent, watch, lose, commands, notifications } = await open();
  const { events } = watch("n");
  await clock.settle();
  commands();
  roles.now = "slave";
  await lose();
  await clock.advance(60_000);
  expect(sent.length).toBeGreaterThan(10);
  expect(sent.length).toBeLessThan(40);
  expect(commands()).toEqual([]);
  expect(events).toEqual(["resync"]);
  roles.now = "master";
  await clock.advance(10_000);
  expect(commands()).toEqual(["subscribe n"]);
  expect(events).toEqual(["resync", "resync"]);
  notifications.close();
});
