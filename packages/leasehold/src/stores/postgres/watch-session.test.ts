/** The session of all notifications, over a scripted backend under a manual clock. */
import { expect, it } from "vitest";
import { manualEnv } from "../../testing/index.js";
import type { Backend } from "./connection.js";
import { DEFAULT_SCHEMA } from "./schema.js";
import { Listener, type ListenerEvent } from "./watch.js";

/** A session, with what the test lets it say. */
interface Session {
  stopped: number;
  checks: number;
  /** Whether it responds to checks. */
  responds: boolean;
  /** Lets the last check respond late. */
  respond(): void;
  lose(error?: Error): void;
}

async function open() {
  const warned: string[] = [];
  const warn = (_: object, message: string) => void warned.push(message);
  const env = manualEnv({ logger: { debug() {}, info() {}, error() {}, warn } });
  const sessions: Session[] = [];
  let deliver = (_: string) => {};
  /** Holds the next connections back until it resolves. */
  let gate: Promise<void> = Promise.resolve();
  const sql = {
    query: async <Row>(_: string, values: readonly unknown[] = []): Promise<Row[]> => {
      deliver(String(values[1]));
      return [];
    },
    transaction: () => expect.unreachable(),
  };
  const backend: Backend = {
    name: "scripted",
    schema: DEFAULT_SCHEMA,
    general: sql,
    control: sql,
    async listen(_, onPayload, onLost) {
      deliver = onPayload;
      const session: Session = {
        stopped: 0,
        checks: 0,
        responds: true,
        respond: () => {},
        lose: (error = new Error("lost")) => onLost(error),
      };
      await gate;
      sessions.push(session);
      return {
        check: () => {
          session.checks += 1;
          if (session.responds) return Promise.resolve();
          return new Promise<void>((resolve) => {
            session.respond = resolve;
          });
        },
        stop: async () => {
          session.stopped += 1;
        },
      };
    },
    close: async () => {},
  };
  const listener = await Listener.open(backend, env);
  const events: ListenerEvent[] = [];
  listener.subscribe(
    (event) => events.push(event),
    () => {},
  );
  const hold = () => {
    let go = () => {};
    gate = new Promise((resolve) => {
      go = resolve;
    });
    return go;
  };
  return { clock: env.clock, events, hold, listener, sessions, warned };
}

it("is checked every 15 s for as long as it responds, and kept", async () => {
  const { clock, events, listener, sessions, warned } = await open();
  await clock.advance(600_000);
  expect(sessions.map(({ checks, stopped }) => [checks, stopped])).toEqual([[40, 0]]);
  expect([events, warned]).toEqual([["resync"], []]);
  await listener.close();
  expect(clock.pendingTimers).toBe(0);
});

it("is replaced each time that it does not respond within 5 s, by one", async () => {
  const { clock, events, listener, sessions, warned } = await open();
  for (let round = 0; round < 3; round += 1) {
    const session = sessions.at(-1)!;
    session.responds = false;
    const sinceMs = clock.monotonic();
    while (sessions.length === round + 1) await clock.advance(100);
    expect(clock.monotonic() - sinceMs).toBeGreaterThan(19_000);
    expect(clock.monotonic() - sinceMs).toBeLessThan(21_000);
    expect(session.stopped).toBe(1);
    // Its response, and its end, come late.
    session.respond();
    session.lose();
    await clock.settle();
  }
  await clock.advance(60_000);
  expect(sessions).toHaveLength(4);
  expect(sessions.at(-1)?.checks).toBeGreaterThanOrEqual(3);
  expect(events).toEqual(["resync", "resync", "resync", "resync"]);
  expect(warned).toHaveLength(3);
  await listener.close();
  expect(clock.pendingTimers).toBe(0);
});

it("is not kept if the store is closed while it is opened", async () => {
  const { clock, events, hold, listener, sessions } = await open();
  const go = hold();
  sessions[0]?.lose();
  await clock.advance(1_000);
  await listener.close();
  go();
  await clock.advance(60_000);
  expect(sessions.map(({ stopped }) => stopped)).toEqual([1, 1]);
  expect(events).toEqual(["resync"]);
  expect(clock.pendingTimers).toBe(0);
});

it("ends each watcher once when the store is closed, and none that has left", async () => {
  const { listener } = await open();
  const ended: string[] = [];
  const subscribe = (name: string) =>
    listener.subscribe(
      () => {},
      () => ended.push(name),
    );
  const [, leave] = [subscribe("a"), subscribe("b"), subscribe("c")];
  leave?.();
  await listener.close();
  expect(ended).toEqual(["a", "c"]);
});
