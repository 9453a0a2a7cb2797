import { describe, expect, test } from "vitest";
import { manualEnv } from "../../testing/index.js";
import { BOUNDS } from "../../wire/index.js";
import { chunked, sendBatch } from "./batch.js";
import { HttpClient } from "./connection.js";
import { Servers } from "./connection-servers.js";

test("chunks are JSON arrays within the limit, in order", () => {
  const items = Array.from({ length: 2_100 }, (_, index) => ({
    index,
    text: "é".repeat(index % 9),
  }));
  for (const maxBytes of [100, 1_000, 1_000_000]) {
    const chunks = chunked(items, maxBytes);
    expect(chunks.flatMap(({ body }) => JSON.parse(body) as unknown[])).toEqual(items);
    for (const { body, count } of chunks) {
      expect(JSON.parse(body)).toHaveLength(count);
      expect(count).toBeLessThanOrEqual(BOUNDS.batch);
      expect(new TextEncoder().encode(body).length).toBeLessThanOrEqual(maxBytes);
    }
  }
  expect(chunked(["x".repeat(100)], 10), "one larger item goes alone").toHaveLength(1);
  expect(chunked([], 10)).toEqual([]);
  const few = chunked(items, 1_000_000, BOUNDS.revocations);
  expect(few.map(({ count }) => count)).toEqual(Array.from({ length: 21 }, () => 100));
});

describe("a batch in several calls", () => {
  const REFUSED = { errors: [{ path: "0", problem: "is wrong" }] };
  const echo = (items: unknown[]) => Response.json(items.map((item) => ({ status: "ok", item })));
  const ok = (item: unknown) => ({ status: "ok", item });

  /** @param answer to the items of each call, the first of which is call 1 */
  function open(answer: (items: unknown[], call: number) => Response, takesMs = 0) {
    const env = manualEnv();
    const calls: { items: unknown[]; bytes: number; headers: Record<string, string> }[] = [];
    const fetch = async (_: string, init: RequestInit): Promise<Response> => {
      const items = JSON.parse(init.body as string) as unknown[];
      const bytes = (init.body as string).length;
      calls.push({ items, bytes, headers: init.headers as Record<string, string> });
      const call = calls.length;
      if (takesMs > 0) {
        await new Promise<void>((resolve, reject) => {
          const timer = env.clock.timer(takesMs, resolve);
          init.signal?.addEventListener("abort", () => {
            timer.cancel();
            reject(init.signal?.reason as Error);
          });
        });
      }
      return answer(items, call);
    };
    const client = new HttpClient({
      servers: new Servers(["http://server"]),
      namespace: "default",
      headers: {},
      maxBodyBytes: 1_000,
      env,
      fetch,
    });
    const send = (requests: readonly unknown[], more: object = {}) =>
      sendBatch(client, { path: "/x", requests, maxBytes: 1_000_000, maxCount: 1, ...more });
    return { clock: env.clock, calls, send };
  }

  test("has one time budget for all of them", async () => {
    const { clock, calls, send } = open(echo, 400);
    const sent = send(["a", "b", "c", "d"], { timeoutMs: 1_000 });
    await clock.advance(2_000);
    const outcomes = await sent;
    expect(calls.map(({ headers }) => headers["leasehold-budget-ms"])).toEqual([
      "1000",
      "600",
      "200",
    ]);
    expect(outcomes.slice(0, 2)).toEqual([ok("a"), ok("b")]);
    expect(outcomes[2]).toMatchObject({ status: "failed", applied: "maybe" });
    expect(outcomes[3]).toMatchObject({ status: "failed", applied: "no", retryable: true });
    expect(clock.pendingTimers).toBe(0);
  });

  test("sends nothing after a transient failure, and says so of the rest", async () => {
    const { calls, send } = open((items, call) =>
      call === 2 ? Response.json({}, { status: 500 }) : echo(items),
    );
    expect(await send(["a", "b", "c", "d"])).toMatchObject([
      ok("a"),
      { status: "failed", applied: "maybe", retryable: true },
      { status: "failed", applied: "no", retryable: true },
      { status: "failed", applied: "no", retryable: true },
    ]);
    expect(calls).toHaveLength(2);
  });

  test("goes on after a call that no repetition heals", async () => {
    const { calls, send } = open((items, call) =>
      call === 2 ? Response.json(REFUSED, { status: 422 }) : echo(items),
    );
    const refused = { status: "failed", applied: "no", retryable: false };
    expect(await send(["a", "b", "c"])).toMatchObject([ok("a"), refused, ok("c")]);
    expect(calls).toHaveLength(3);
  });

  test("gives no request the outcome of another one if an answer is too short or too long", async () => {
    for (const more of [-1, 1]) {
      const { send } = open((items) =>
        echo(more < 0 ? items.slice(0, more) : [...items, "another"]),
      );
      const unknown = { status: "failed", applied: "maybe", retryable: false };
      expect(await send(["a", "b", "c"], { maxCount: 3 })).toMatchObject(Array(3).fill(unknown));
    }
  });

  test("has the actor in each, also after one was split", async () => {
    const { calls, send } = open((items) =>
      items.length > 1 && items.includes("bad")
        ? Response.json(REFUSED, { status: 422 })
        : echo(items),
    );
    await send(["a", "b", "bad", "c"], { maxCount: 4, actor: "Zoë" });
    expect(calls.length).toBeGreaterThan(2);
    const actors = calls.map(({ headers }) => headers["leasehold-actor"]);
    expect(actors).toEqual(calls.map(() => encodeURIComponent("Zoë")));
  });

  test("stays below the limit of the server, though that of the route is larger", async () => {
    const { calls, send } = open(echo);
    const items = Array.from({ length: 50 }, (_, index) => `${index}`.padEnd(90, "x"));
    expect(await send(items, { maxCount: 1_000 })).toEqual(items.map(ok));
    expect(Math.max(...calls.map(({ bytes }) => bytes))).toBeLessThanOrEqual(1_000);
    const large = await send(["small", "y".repeat(2_000), "last"], { maxCount: 1_000 });
    expect(large).toMatchObject([ok("small"), { error: { code: "INVALID_OPTION" } }, ok("last")]);
  });
});
