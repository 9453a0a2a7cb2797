/** Code of the program throws any value: handlers, work, listeners, loggers, telemetry. What called it goes on. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { revoked, THROWN, unreadable } from "../../../tests/support/worlds/thrown.js";
import { guardedTelemetry, type Logger, type Telemetry } from "./env/index.js";
import { fencing, type GuardOptions, memoryGuard } from "./fence/index.js";
import { connect, defineTask } from "./index.js";
import { manualEnv } from "./testing/index.js";

const unhandled = vi.fn();
const emitted = vi.fn();

// An unhandled rejection ends the process of a program.
beforeEach(() => {
  process.on("unhandledRejection", unhandled);
  process.on("warning", emitted);
});

afterEach(async () => {
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", unhandled).off("warning", emitted);
  expect(unhandled.mock.calls).toEqual([]);
  vi.resetAllMocks();
});

function thrower(make: () => unknown): () => never {
  return () => {
    throw make();
  };
}

/** Throws at each line. */
function broken(make: () => unknown = () => new Error("full")): Logger {
  const line = thrower(make);
  return { debug: line, info: line, warn: line, error: line };
}

describe("a worker", () => {
  it.each(THROWN)("records a failure of a handler that throws %s", async (_, make) => {
    const leasehold = await connect("memory:");
    const odd = defineTask("odd", { maxAttempts: 1 });
    const fine = defineTask("fine");
    const { id } = await leasehold.tasks.enqueue(odd, null);
    const worker = leasehold.tasks.work([odd.handle(thrower(make)), fine.handle(() => "done")]);
    await expect(leasehold.tasks.result(id)).rejects.toMatchObject({ code: "TASK_FAILED" });
    expect((await leasehold.tasks.get(id))?.error).toMatch(/./);
    expect(worker.running).toBe(0);
    const next = await leasehold.tasks.enqueue(fine, null);
    expect(await leasehold.tasks.result(next.id)).toBe("done");
    await leasehold.close();
  });

  it("records the cause of a failure, the members of an AggregateError, and the content of an object", async () => {
    const leasehold = await connect("memory:");
    const causes: Record<string, () => unknown> = {
      cause: () => new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") }),
      members: () => new AggregateError([new Error("one"), new Error("two")]),
      object: () => ({ status: 507 }),
      nul: () => new Error("a\0b\ud800"),
      empty: () => "",
    };
    const odd = defineTask<string>("odd", { maxAttempts: 1 });
    leasehold.tasks.work([
      odd.handle((name) => {
        throw causes[name]?.();
      }),
    ]);
    const errorOf = async (name: string) => {
      const { id } = await leasehold.tasks.enqueue(odd, name);
      await leasehold.tasks.result(id).catch(() => {});
      return (await leasehold.tasks.get(id))?.error;
    };
    expect(await errorOf("cause")).toMatch(
      /fetch failed[^]*caused by: Error: connect ECONNREFUSED/,
    );
    expect(await errorOf("members")).toMatch(/Error: one[^]*Error: two/);
    expect(await errorOf("object")).toBe('{"status":507}');
    expect(await errorOf("nul")).toContain("a\u{fffd}b\u{fffd}");
    expect(await errorOf("empty")).toBe("an empty string");
    await leasehold.close();
  });

  it.each([
    ["a getter", () => Object.defineProperty({}, "x", { get: thrower(revoked), enumerable: true })],
    ["a toJSON", () => ({ x: { toJSON: thrower(unreadable) } })],
    ["a circle", () => circular()],
    ["a bigint", () => ({ x: 1n })],
  ])("refuses data that cannot be kept, with its path: %s", async (_, make) => {
    const leasehold = await connect("memory:");
    const any = defineTask<unknown>("any");
    const failure = { code: "INVALID_OPTION", path: "data.x" };
    await expect(leasehold.tasks.enqueue(any, make())).rejects.toMatchObject(failure);
    await leasehold.close();
  });

  it("goes on without a logger that can take what a handler logs", async () => {
    const leasehold = await connect("memory:");
    const task = defineTask("logs");
    leasehold.tasks.work([
      task.handle((_, { log }) => {
        const odd = log as { warn(fields?: unknown, message?: unknown): void };
        odd.warn({ request: circular() }, "circular");
        odd.warn({ deep: { id: 1n } }, "nested bigint");
        odd.warn({ kind: Symbol("s"), by: { at: Symbol("t") } }, "symbol");
        odd.warn(null, "null");
        odd.warn(undefined, "undefined");
        odd.warn({ err: revoked() }, "revoked");
        odd.warn(
          Object.defineProperty({}, "x", { get: thrower(unreadable), enumerable: true }),
          "getter",
        );
        odd.warn({ at: { toJSON: thrower(revoked) } }, "toJSON");
        odd.warn("only a text");
        odd.warn({}, Symbol("message"));
        odd.warn();
        return "done";
      }),
    ]);
    const { id } = await leasehold.tasks.enqueue(task, null);
    expect(await leasehold.tasks.result(id)).toBe("done");
    await leasehold.close();
    const messages = emitted.mock.calls.map(([warning]) => (warning as Error).message);
    expect(messages).toEqual(
      expect.arrayContaining([
        "circular",
        "nested bigint",
        "symbol",
        "null",
        "undefined",
        "revoked: [a value that cannot be read]",
        "getter",
        "toJSON",
        "only a text",
        "Symbol(message)",
      ]),
    );
    const details = emitted.mock.calls.map(([warning]) => (warning as { detail: string }).detail);
    expect(details.join("\n")).toContain('request: {"x":[circular]}');
    expect(details.join("\n")).toContain('deep: {"id":1n}');
  });
});

function circular(): object {
  const circle: { x?: unknown } = {};
  circle.x = circle;
  return circle;
}

describe("a lease", () => {
  it.each(THROWN)("is lost for all handlers, though one throws %s", async (_, make) => {
    const leasehold = await connect("memory:");
    const lease = await leasehold.acquire("billing");
    const others = vi.fn();
    lease.onLost(thrower(make));
    lease.onLost(async () => {
      throw make();
    });
    lease.onLost(others);
    await leasehold.revoke("billing", { free: "now" });
    await lease.renew().catch(() => {});
    expect(others).toHaveBeenCalledWith("revoked");
    await leasehold.close();
  });

  it.each(THROWN)(
    "is released, and run rejects with it, if the work throws %s",
    async (_, make) => {
      const leasehold = await connect("memory:");
      const thrown = make();
      const settled = await leasehold
        .run("billing", () => {
          throw thrown;
        })
        .then(
          () => "resolved",
          (error: unknown) => error === thrown,
        );
      expect(settled).toBe(true);
      expect(await leasehold.tryRun("billing", () => 1)).toEqual({ ran: true, value: 1 });
      const again = await leasehold
        .once("key", () => {
          throw thrown;
        })
        .then(
          () => "resolved",
          (error: unknown) => error === thrown,
        );
      expect(again).toBe(true);
      expect(await leasehold.once("key", () => 1)).toEqual({ ran: true, value: 1 });
      await leasehold.close();
    },
  );

  it("is lost for a reusable lease too, whose handler throws later", async () => {
    const env = manualEnv();
    const leasehold = await connect("memory:", { env });
    const lease = leasehold.reusableLease("billing", { ttlMs: 1_000 });
    const others = vi.fn();
    lease.onLost(() => Promise.reject(revoked()));
    lease.onLost(others);
    await lease.acquire();
    await leasehold.revoke("billing", { free: "now" });
    await env.clock.advance(1_000);
    expect(others).toHaveBeenCalledWith("revoked");
    await leasehold.close();
  });
});

describe("a logger that throws", () => {
  it.each(THROWN)("fails no work: %s", async (_, make) => {
    const leasehold = await connect("memory:", { logger: broken(make) });
    expect(await leasehold.run("billing", () => 1)).toBe(1);
    const task = defineTask("fails", { maxAttempts: 2, backoff: { firstMs: 0 } });
    let attempts = 0;
    leasehold.tasks.work([
      task.handle((_, { log }) => {
        log.info({}, "begins");
        attempts += 1;
        if (attempts === 1) throw new Error("first");
        return attempts;
      }),
    ]);
    const { id } = await leasehold.tasks.enqueue(task, null);
    expect(await leasehold.tasks.result(id)).toBe(2);
    await leasehold.close();
    expect(emitted.mock.calls[0]?.[0]).toMatchObject({ code: "LEASEHOLD_W_LOGGER_THREW" });
  });

  it("fails no work if its methods are asynchronous", async () => {
    const line = async () => {
      throw new Error("full");
    };
    const logger = { debug: line, info: line, warn: line, error: line };
    const leasehold = await connect("memory:", { logger });
    expect(await leasehold.run("billing", () => 1)).toBe(1);
    await leasehold.close();
  });

  it("gets the line again as text, if it throws at a value", async () => {
    const lines: unknown[] = [];
    const write = (fields: object, message: string) => {
      lines.push([message, JSON.parse(JSON.stringify(fields))]);
    };
    const logger = { debug() {}, info: write, warn: write, error: write };
    const leasehold = await connect("memory:", { logger });
    const task = defineTask("logs");
    leasehold.tasks.work([
      task.handle((_, { log }) => {
        log.info({ request: circular(), id: 1n, n: 1 }, "seen");
        return null;
      }),
    ]);
    const { id } = await leasehold.tasks.enqueue(task, null);
    await leasehold.tasks.result(id);
    await leasehold.close();
    expect(lines).toContainEqual(["seen", { request: '{"x":[circular]}', id: "1n", n: 1 }]);
  });

  it("leaves the other leases scheduled while one is lost", async () => {
    const env = manualEnv({ logger: broken() });
    const leasehold = await connect("memory:", { env });
    const [first, second] = await Promise.all(
      ["a", "b"].map((resource) => leasehold.acquire(resource, { ttlMs: 1_000 })),
    );
    await leasehold.revoke("a", { free: "now" });
    await env.clock.advance(1_000);
    expect(first?.checkAlive()).toBe(false);
    // Two more TTLs, which only renewals bring.
    await env.clock.advance(2_000);
    expect(second?.checkAlive()).toBe(true);
    // It waits for the holder of the second for its grace of 5 s.
    await Promise.all([leasehold.close(), env.clock.advance(5_000)]);
  });
});

describe("a callback that must not be async", () => {
  const rejects = async () => {
    throw new Error("rejected");
  };
  /** As promises of other libraries. */
  const rejectsOddly = () => ({
    // biome-ignore lint/suspicious/noThenProperty: the test is about objects with this method.
    // oxlint-disable-next-line unicorn/no-thenable
    then: (_: unknown, reject: (error: Error) => void) => reject(new Error("rejected")),
  });
  const count = rejects as unknown as Telemetry["count"];

  it.each<[string, GuardOptions]>([
    ["callback", { onRefused: rejects }],
    ["callback, oddly,", { onRefused: rejectsOddly }],
    ["telemetry", { telemetry: { count } as Telemetry }],
  ])("changes no refusal of a guard whose %s rejects", async (_, options) => {
    const guard = memoryGuard(options);
    await guard.guard("r", 2, () => {});
    await expect(guard.guard("r", 1, () => {})).rejects.toMatchObject({ code: "STALE_TOKEN" });
  });

  it.each<[string, () => unknown]>([
    ["rejects", rejects],
    ["resolves", async () => "name"],
    ["rejects oddly", rejectsOddly],
  ])("names no resource and no concurrency key if it %s", async (_, callback) => {
    const resource = callback as () => string;
    const refused = (path: string) =>
      expect.objectContaining({
        code: "INVALID_OPTION",
        path,
        message: expect.stringContaining("but it returned a promise") as string,
      }) as unknown;
    const { fastify } = fencing({ store: memoryGuard(), resource });
    const reply = { raw: { closed: true, once: () => {} } } as never;
    await expect(fastify({ headers: { "fencing-token": "1" } }, reply)).rejects.toEqual(
      refused("resource"),
    );
    const keyed = defineTask("keyed", { concurrencyKey: resource });
    const leasehold = await connect("memory:");
    await expect(leasehold.tasks.enqueue(keyed, null)).rejects.toEqual(refused("concurrencyKey"));
    await leasehold.close();
  });

  it("gives no context of telemetry", async () => {
    const methods = { here: rejects, outgoing: rejects, incoming: rejects };
    const telemetry = guardedTelemetry(methods as unknown as Telemetry);
    expect(telemetry.here()).toEqual({});
    expect(telemetry.outgoing()).toEqual({});
    expect(telemetry.incoming(() => null)).toEqual({});
  });
});

describe("telemetry that throws", () => {
  const methods = ["measured", "count", "change", "measure", "observe", "tally"] as const;
  const traces = ["span", "here", "within", "outgoing", "incoming"] as const;

  it.each(THROWN)("fails no work: %s", async (_, make) => {
    const failing = Object.fromEntries(
      [...methods, ...traces].map((name) => [name, thrower(make)]),
    );
    const telemetry = failing as unknown as Telemetry;
    const leasehold = await connect("memory:", { env: { telemetry } });
    let runs = 0;
    expect(await leasehold.run("billing", () => (runs += 1))).toBe(1);
    const task = defineTask("counted");
    leasehold.tasks.work([task.handle(() => "done")]);
    const { id } = await leasehold.tasks.enqueue(task, null);
    expect(await leasehold.tasks.result(id)).toBe("done");
    await leasehold.close();
    const codes = emitted.mock.calls.map(([warning]) => (warning as { code: string }).code);
    expect(codes).toContain("LEASEHOLD_W_TELEMETRY_THREW");
  });
});
