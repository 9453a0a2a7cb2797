/** A connection over a driver with scripted responses and a manual clock. */
import { expect, it } from "vitest";
import { type ManualClock, manualEnv } from "../../testing/index.js";
import { Link, SessionEnded } from "./connection.js";
import {
  type Driver,
  type DriverClient,
  type DriverConnection,
  STATES,
  type Stat,
} from "./connection-driver.js";
import { Refused, Unanswered } from "./failures.js";

const SESSION_MS = 12_000;

class FakeClient {
  readonly asked: ((error: Error | null, stat: Stat | null) => void)[] = [];
  readonly read: Buffer[] = [];
  destroyed = false;
  connects = 0;
  #listener: (state: number) => void = () => {};
  readonly connectionManager: DriverConnection = {
    connect: () => {},
    onSocketConnected: () => {},
    onSocketDrain: () => {},
    onSocketClosed: () => {},
    setState: () => {},
    onSocketData: (message) => void this.read.push(message),
    on: (_, listener) => {
      this.#listener = listener;
    },
    socket: {
      destroyed: false,
      errored: null,
      destroy: () => {
        this.destroyed = true;
        this.#listener(STATES.disconnected);
      },
      unref: () => {},
    },
  };

  connect(): void {
    this.connects += 1;
  }
  becomes(state: number): void {
    this.#listener(state);
  }
  getSessionId = () => Buffer.from("0102030405060708", "hex");
  getSessionPassword = () => Buffer.alloc(16);
  getSessionTimeout = () => SESSION_MS;
  exists(_: string, callback: (error: Error | null, stat: Stat | null) => void): void {
    this.asked.push(callback);
  }
}

async function openLink(): Promise<{ link: Link; client: FakeClient; clock: ManualClock }> {
  const env = manualEnv({ seed: 1 });
  const client = new FakeClient();
  const opening = open(client, env);
  client.becomes(STATES.connected);
  return { link: await opening, client, clock: env.clock };
}
function open(client: FakeClient, env: ReturnType<typeof manualEnv>): Promise<Link> {
  const driver: Driver = {
    createClient: () => client as unknown as DriverClient,
    ACL: { OPEN_ACL_UNSAFE: [], CREATOR_ALL_ACL: [] },
  };
  const options = { server: "a", identity: null, sessionTimeoutMs: SESSION_MS, auth: undefined };
  return Link.open(driver, { ...options, withinMs: 1_000 }, env);
}
const now = (clock: ManualClock) => clock.monotonic();

it("computes the session's lifetime from what the leader knows, not from the last response", async () => {
  const { link, client, clock } = await openLink();
  const openedMs = now(clock);
  expect(link.lastsUntilMs(openedMs)).toBe(openedMs + SESSION_MS);
  await clock.advance(500);
  const asking = link.exists("/", now(clock) + 10_000);
  await clock.advance(100);
  client.asked.shift()?.(null, null);
  await asking;
  // A follower may keep it from the leader for a while.
  expect(link.lastsUntilMs(now(clock))).toBe(openedMs + SESSION_MS);
  expect(link.lastsUntilMs(now(clock) + SESSION_MS / 6)).toBe(openedMs + 500 + SESSION_MS);
  // Earlier results stay as they were.
  expect(link.lastsUntilMs(openedMs + 100)).toBe(openedMs + SESSION_MS);
});

it("keeps sending heartbeats, and ends when the server falls silent", async () => {
  const { link, client, clock } = await openLink();
  await clock.advance(SESSION_MS / 12);
  expect(client.asked).toHaveLength(1);
  client.asked.shift()?.(null, null);
  await clock.advance(SESSION_MS / 12);
  expect(client.asked).toHaveLength(1);
  const waiting = link.exists("/a", now(clock) + 60_000).catch((error: unknown) => error);
  await clock.advance(SESSION_MS / 2);
  expect(client.destroyed).toBe(true);
  expect(await waiting).toMatchObject({ sent: true });
  await link.ended;
  expect(
    await link.exists("/b", now(clock) + 1_000).catch((error: unknown) => error),
  ).toMatchObject({
    sent: false,
  });
});

it("distinguishes rejected, unanswered and unsent requests", async () => {
  const { link, client, clock } = await openLink();
  const outcome = (call: Promise<unknown>) => call.catch((error: unknown) => error);
  const refused = outcome(link.exists("/a", now(clock) + 100));
  client.asked.shift()?.(Object.assign(new Error("no"), { code: -102 }), null);
  expect(await refused).toBeInstanceOf(Refused);
  const late = outcome(link.exists("/a", now(clock) + 100));
  await clock.advance(100);
  expect(await late).toMatchObject({ sent: true });
  expect(await outcome(link.exists("/a", now(clock)))).toMatchObject({ sent: false });
});

it("gives the driver whole messages only, and nothing that is no message", async () => {
  const { client } = await openLink();
  const message = Buffer.from("0000000401020304", "hex");
  const bytes = Buffer.concat([message, message, message]);
  for (let at = 0; at < bytes.length; at += 5) {
    client.connectionManager.onSocketData(bytes.subarray(at, at + 5));
  }
  expect(client.read).toEqual([message, message, message]);
  client.connectionManager.onSocketData(Buffer.from("HTTP/1.1 400 Bad Request"));
  expect(client.destroyed).toBe(true);
});

it("ends where the driver throws", async () => {
  const client = new FakeClient();
  client.connectionManager.onSocketData = () => {
    throw new Error("Unknown code: -118");
  };
  const opening = open(client, manualEnv({ seed: 1 }));
  client.becomes(STATES.connected);
  const link = await opening;
  client.connectionManager.onSocketData(Buffer.from("00000000", "hex"));
  expect(client.destroyed).toBe(true);
  expect(link.isOpen).toBe(false);
});

it("does not connect again by itself, and says when the session has ended", async () => {
  const { client } = await openLink();
  client.connectionManager.connect();
  expect(client.connects).toBe(1);
  const late = new FakeClient();
  const opening = open(late, manualEnv({ seed: 1 }));
  late.becomes(STATES.expired);
  await expect(opening).rejects.toBeInstanceOf(SessionEnded);
  const refused = new FakeClient();
  const connecting = open(refused, manualEnv({ seed: 1 }));
  refused.becomes(STATES.disconnected);
  await expect(connecting).rejects.toBeInstanceOf(Unanswered);
});
