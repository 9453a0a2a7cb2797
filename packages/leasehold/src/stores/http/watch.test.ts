/** Watches a scripted server under a manual clock. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { watchAbortListeners } from "../../../../../tests/support/worlds/abort-listeners.js";
import { manualEnv } from "../../testing/index.js";
import { BOUNDS } from "../../wire/index.js";
import { HttpClient } from "./connection.js";
import { Servers } from "./connection-servers.js";
import { followEvents, type ServerEvent } from "./watch.js";

/** The result of one connection: a stream that the test writes to, a response, or a failure. */
type Step = "stream" | { status: number; body?: unknown; headers?: Record<string, string> } | Error;

class Connection {
  readonly headers: Record<string, string>;
  cancelled = false;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  readonly body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      this.#controller = controller;
    },
    cancel: () => {
      this.cancelled = true;
    },
  });

  constructor(
    readonly url: string,
    init: RequestInit,
  ) {
    this.headers = init.headers as Record<string, string>;
  }
  write(chunk: string | Uint8Array): void {
    const bytes = typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk;
    this.#controller.enqueue(bytes);
  }
  end(): void {
    this.#controller.close();
  }
  break(): void {
    this.#controller.error(new TypeError("terminated"));
  }
}

/** Watches a server that plays the steps in order and repeats the last one. */
function follow(...steps: Step[]) {
  return followWith({}, steps);
}
/** The same, by a client whose token comes from a function. */
follow.renewing = (...steps: Step[]) => followWith({ renewsToken: true }, steps);

function followWith(more: { readonly renewsToken?: boolean }, steps: readonly Step[]) {
  const env = manualEnv();
  const connections: Connection[] = [];
  const fetch = (url: string, init: RequestInit): Promise<Response> => {
    const step = steps[Math.min(connections.length, steps.length - 1)] ?? "stream";
    const connection = new Connection(url, init);
    connections.push(connection);
    if (step instanceof Error) return Promise.reject(step);
    if (step === "stream") {
      const headers = { "content-type": "text/event-stream; charset=utf-8" };
      return Promise.resolve(new Response(connection.body, { headers }));
    }
    const { status, body = null, headers = {} } = step;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return Promise.resolve(new Response(text, { status, headers }));
  };
  const client = new HttpClient({
    servers: new Servers(["http://server"]),
    namespace: "default",
    headers: { x: "1" },
    maxBodyBytes: BOUNDS.payloadBodyBytes,
    env,
    fetch,
    ...more,
  });
  const ending = new AbortController();
  const events: ServerEvent[] = [];
  const { signal } = ending;
  const ended = (async () => {
    const following = followEvents(client, { of: "leases", namespace: "default", signal });
    for await (const event of following) events.push(event);
  })();
  ended.catch(() => {});
  const { clock } = env;
  return {
    client,
    clock,
    connections,
    ended,
    events,
    ending,
    /** The open connection. */
    async connection(): Promise<Connection> {
      await clock.settle();
      return connections.at(-1)!;
    },
  };
}

const event = (id: number, resource: string) =>
  `id: e.${id}\nevent: lease\ndata: ${JSON.stringify({ resource })}\n\n`;
const lease = (resource: string): ServerEvent => ({ type: "lease", resource });

describe("watching a server", () => {
  test("goes on after a refused token, if a function returns another one", async () => {
    const refused = { status: 401, body: { code: "UNAUTHENTICATED" } };
    const lasting = follow(refused);
    await expect(lasting.ended).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
    const { clock, connection, connections, events, ending, ended } = follow.renewing(
      refused,
      refused,
      "stream",
    );
    await clock.advance(5_000);
    expect(connections).toHaveLength(3);
    (await connection()).write("id: e.1\nevent: resync\ndata: {}\n\n");
    await clock.settle();
    expect(events).toEqual([{ type: "resync" }]);
    ending.abort();
    await ended;
  });

  test("requests its topic, and resumes after the last event when the stream breaks", async () => {
    const { clock, connection, connections, events, ending, ended } = follow("stream");
    const first = await connection();
    expect(first.url).toBe("http://server/v1/events?of=leases");
    expect(first.headers).toEqual({ x: "1", accept: "text/event-stream" });
    first.write(`id: e.1\nevent: resync\ndata: {}\n\n${event(2, "a")}`);
    first.write("id: e.3\nevent: lease\ndata: {");
    await clock.settle();
    expect(events).toEqual([{ type: "resync" }, lease("a")]);
    first.break();
    await clock.advance(200);
    expect(connections[1]?.headers["last-event-id"], "of whole events only").toBe("e.2");
    connections[1]?.write(event(3, "b"));
    await clock.settle();
    connections[1]?.end();
    await clock.advance(400);
    expect(connections[2]?.headers["last-event-id"]).toBe("e.3");
    expect(events.slice(2)).toEqual([lease("b")]);
    ending.abort();
    await ended;
    expect(connections[2]?.cancelled).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  test("leaves no listener behind, neither at a reconnect nor at its end", async () => {
    const listeners = watchAbortListeners();
    const { clock, connection, connections, ending, ended } = follow("stream");
    for (let round = 1; round <= 20; round += 1) {
      (await connection()).break();
      while (connections.length === round) await clock.advance(1_000);
    }
    // That of the connection, and that of its client.
    expect(listeners()).toBeLessThanOrEqual(2);
    ending.abort();
    await ended;
    expect(listeners()).toBe(0);
  });

  test("resumes after the last event that had an id, though others came after it", async () => {
    const { clock, connection, connections } = follow("stream");
    const first = await connection();
    first.write(`${event(7, "a")}event: lease\ndata: {"resource":"b"}\n\n`);
    await clock.settle();
    first.break();
    await clock.advance(200);
    expect(connections[1]?.headers["last-event-id"]).toBe("e.7");
  });

  test("backs off between attempts, and resets the backoff after a stable stream", async () => {
    const { clock, connections, ending } = follow(new TypeError("refused"));
    await clock.advance(60_000);
    expect(connections.length).toBeGreaterThan(10);
    expect(connections.length).toBeLessThan(30);
    ending.abort();
    await clock.settle();
    expect(clock.pendingTimers).toBe(0);

    const held = follow(...Array<Step>(8).fill(new TypeError("refused")), "stream");
    while (held.connections.length < 9) await held.clock.advance(1_000);
    await held.clock.advance(10_000);
    held.connections[8]?.break();
    await held.clock.advance(200);
    expect(held.connections).toHaveLength(10);
  });

  test("drops a connection that is silent for 45 s, and no other", async () => {
    const { clock, connection, connections } = follow("stream");
    const first = await connection();
    for (let round = 0; round < 10; round++) {
      await clock.advance(40_000);
      first.write(": alive\n\n");
    }
    expect(connections).toHaveLength(1);
    await clock.advance(45_500);
    expect(connections).toHaveLength(2);
    expect(first.cancelled).toBe(true);
  });

  test("retries while the server is unavailable, after the delay that it requests", async () => {
    for (const status of [429, 500, 502, 503, 504]) {
      const headers = { "retry-after": "20" };
      const { clock, connections } = follow({ status, headers, body: "<html>" }, "stream");
      await clock.advance(19_000);
      expect(connections.length, `${status}`).toBe(status === 503 || status === 429 ? 1 : 2);
      await clock.advance(2_000);
      expect(connections).toHaveLength(2);
    }
  });

  test("heeds a requested delay once: later breaks cost the backoff alone", async () => {
    const refused = { status: 503, headers: { "retry-after": "20" }, body: "<html>" };
    const { clock, connections } = follow(refused, "stream");
    await clock.advance(21_000);
    expect(connections).toHaveLength(2);
    await clock.advance(10_000);
    for (const count of [3, 4]) {
      connections.at(-1)?.break();
      await clock.advance(1_000);
      expect(connections).toHaveLength(count);
    }
  });

  test("throws the error of any other call when the server rejects it", async () => {
    const errors = [{ path: "of", problem: "must be one of those" }];
    for (const [step, error] of [
      [{ status: 404, body: { code: "UNKNOWN_ROUTE" } }, { code: "STORE_MISCONFIGURED" }],
      [{ status: 401, body: {} }, { code: "STORE_MISCONFIGURED" }],
      [{ status: 302, body: "" }, { code: "STORE_MISCONFIGURED" }],
      [{ status: 200, body: {} }, { code: "STORE_MISCONFIGURED" }],
      [{ status: 200, body: "<html>" }, { code: "STORE_MISCONFIGURED" }],
      [
        { status: 422, body: { errors } },
        { code: "INVALID_OPTION", path: "of" },
      ],
    ] as const) {
      const { clock, ended } = follow(step);
      await expect(ended).rejects.toMatchObject(error);
      expect(clock.pendingTimers).toBe(0);
    }
    const { client, ending } = follow("stream");
    const { signal } = ending;
    const elsewhere = followEvents(client, { of: "tasks", namespace: "other", signal });
    await expect(elsewhere.next()).rejects.toMatchObject({ path: "namespace" });
    client.close();
    const late = followEvents(client, { of: "tasks", namespace: "default", signal });
    await expect(late.next()).rejects.toMatchObject({ code: "CLOSED" });
  });

  test("ends with its client in every state", async () => {
    for (const step of ["stream", new TypeError("refused")] as const) {
      const { client, clock, ended, connections } = follow(step);
      await clock.settle();
      client.close();
      await ended;
      expect(clock.pendingTimers).toBe(0);
      expect(connections).toHaveLength(1);
      expect(connections[0]?.cancelled).toBe(step === "stream");
    }
  });

  test("ignores unknown events, and treats malformed ones as a resync", async () => {
    const { clock, connection, events } = follow("stream");
    const stream = await connection();
    stream.write("event: lease\ndata: {}\n\n");
    stream.write("event: lease\ndata: nonsense\n\n");
    stream.write("event: lease\ndata: null\n\n");
    await clock.settle();
    expect(events.splice(0)).toEqual(Array(3).fill({ type: "resync" }));
    stream.write("event: leadership\ndata: {}\n\nunknown: field\ndata: {}\n\nevent: lease\n\n");
    stream.write(event(1, "a"));
    await clock.settle();
    expect(events).toEqual([lease("a")]);
  });

  test("drops a server that sends an endless event", async () => {
    const { clock, connection, connections } = follow("stream");
    const stream = await connection();
    for (let size = 0; size < 200; size++) stream.write("x".repeat(1_000));
    await clock.advance(1_000);
    expect(connections.length).toBeGreaterThan(1);
    expect(stream.cancelled).toBe(true);
  });

  test("parses any stream, split at any byte", async () => {
    const resource = fc.string({ unit: "grapheme", maxLength: 20 });
    const newline = fc.constantFrom("\n", "\r\n", "\r");
    const noise = fc.constantFrom("", ": alive\n\n", ":\n", "retry: 5\n", "id: nul\0\n", "\n\n");
    const written = fc.record({ resource, noise, lines: fc.boolean(), space: fc.boolean() });
    const property = fc.asyncProperty(
      fc.array(written, { maxLength: 8 }),
      newline,
      fc.boolean(),
      fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
      async (all, eol, bom, sizes) => {
        const { clock, connection, connections, ending, events, ended } = follow("stream");
        const texts = all.map(({ resource, noise, lines, space }, index) => {
          const colon = space ? ": " : ":";
          const data = JSON.stringify({ resource }).replace(":", lines ? `:\ndata${colon}` : ":");
          return `${noise}id${colon}e.${index}\nevent${colon}lease\ndata${colon}${data}\n\n`;
        });
        const text = `${bom ? "\ufeff" : ""}${texts.join("")}`.replaceAll("\n", eol);
        const bytes = new TextEncoder().encode(`${text}: the end${eol}`);
        const stream = await connection();
        for (let start = 0; start < bytes.length; ) {
          const size = sizes.next().value as number;
          stream.write(bytes.slice(start, start + size));
          start += size;
        }
        await clock.settle();
        expect(events).toEqual(all.map(({ resource }) => lease(resource)));
        stream.break();
        await clock.advance(200);
        const expected = all.length === 0 ? undefined : `e.${all.length - 1}`;
        expect(connections[1]?.headers["last-event-id"]).toBe(expected);
        ending.abort();
        await ended;
      },
    );
    await fc.assert(property, { numRuns: 200 });
  });
});
