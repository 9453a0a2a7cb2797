/** The ticks of one process, over a store of which a test gives each answer. */
import { expect, it, vi } from "vitest";
import { importsSettled } from "../../../../../tests/support/runner/imports.js";
import { recordedTelemetry } from "../../../../../tests/support/worlds/recorded-telemetry.js";
import { silentLogger } from "../../env/index.js";
import { StoreUnavailableError } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import type { DueSchedule, FireOutcome, FireRequest, Ticking } from "./port.js";
import { startTicker } from "./ticker.js";

const MINUTE_MS = 60_000;
const NOW_MS = 10 * MINUTE_MS + 3_000;
/** Fire times in a time zone that no process knows. */
const LUNAR = { cron: "0 0 * * *", everyMs: null, timeZone: "Moon/Tycho" };

function due(name: string, more: Partial<DueSchedule["declaration"]> = {}): DueSchedule {
  const declaration = { cron: null, timeZone: "UTC", everyMs: MINUTE_MS, jitterMs: 0, ...more };
  return {
    namespace: "n",
    name,
    revision: 7,
    lastFireAtMs: NOW_MS - 3_000 - 3 * MINUTE_MS,
    waiting: [],
    isRunning: false,
    declaration: { catchUp: { most: 2 }, overlap: "allow", ...declaration },
  };
}

const fired = ({ fires }: FireRequest): FireOutcome => ({
  status: "fired",
  taskIds: fires.map(({ id }) => id),
  kind: "k",
  queue: "q",
});

/** Schedules by the number of each, which is its revision too. */
function numbered(from: number, to: number, more?: Partial<DueSchedule["declaration"]>) {
  return Array.from({ length: to - from }, (_, at) => ({
    ...due(`s${from + at}`, more),
    revision: from + at,
  }));
}

/** Ticks over schedules that are always due. */
function world(schedules: readonly DueSchedule[], nextInMs: number | null = null) {
  const { telemetry, valuesOf } = recordedTelemetry();
  const env = { ...manualEnv({ logger: { ...silentLogger } }), telemetry };
  const warn = vi.spyOn(env.logger, "warn");
  const ticking = {
    due: vi.fn<Ticking["due"]>(async (limit, except = []) => ({
      schedules: schedules.filter(({ revision }) => !except.includes(revision)).slice(0, limit),
      nowMs: NOW_MS,
      nextInMs,
    })),
    fire: vi.fn<Ticking["fire"]>(async (request) => fired(request)),
  };
  const ticker = startTicker({ ticking }, env);
  // Expressions are parsed by a library that loads in real time.
  const settle = async () => {
    await env.clock.advance(0);
    await importsSettled();
    await env.clock.settle();
  };
  const metrics = [
    "leasehold.schedule.delay",
    "leasehold.task.events",
    "leasehold.schedule.skipped",
  ];
  const figures = () => metrics.map(valuesOf);
  return { clock: env.clock, warn, ticking, ticker, figures, settle };
}

it("enqueues at the fire times that count, and moves the schedule on to the next one", async () => {
  const { ticking, ticker, settle } = world([due("s")]);
  await settle();
  await ticker.stop();
  expect(ticking.fire.mock.calls).toEqual([
    [
      {
        namespace: "n",
        name: "s",
        revision: 7,
        fires: [9, 10].map((minute) => ({
          id: `s@1970-01-01T00:${String(minute).padStart(2, "0")}:00.000Z`,
          scheduledAtMs: minute * MINUTE_MS,
        })),
        lastFireAtMs: 10 * MINUTE_MS,
        waiting: [],
        dueAtMs: 11 * MINUTE_MS,
        skipped: 1,
      },
    ],
  ]);
});

it("measures how late each task is, and counts tasks and fire times without one", async () => {
  const { ticking, ticker, figures, settle } = world([due("s")]);
  // The task of the older fire time was made before.
  ticking.fire.mockImplementationOnce(
    async (request) =>
      ({
        ...fired(request),
        taskIds: [request.fires[1]?.id ?? ""],
      }) as FireOutcome,
  );
  await settle();
  await ticker.stop();
  expect(figures()).toEqual([[[{}, 3_000]], [[{ event: "enqueued" }, 1]], [[{}, 2]]]);
});

it("counts nothing of a schedule that another process has moved on, nor what there is none of", async () => {
  const moved = world([due("s")]);
  moved.ticking.fire.mockResolvedValue({ status: "moved" });
  await moved.settle();
  await moved.ticker.stop();
  expect(moved.figures()).toEqual([[], [], []]);
  const none = world([{ ...due("s"), lastFireAtMs: 10 * MINUTE_MS }]);
  await none.settle();
  await none.ticker.stop();
  expect(none.ticking.fire).toHaveBeenCalledOnce();
  expect(none.figures()).toEqual([[], [], []]);
});

it("makes a task due up to jitterMs after its fire time", async () => {
  const { ticking, ticker, settle } = world([due("s", { jitterMs: 30_000 })]);
  await settle();
  await ticker.stop();
  for (const { id, scheduledAtMs } of ticking.fire.mock.calls[0]?.[0].fires ?? []) {
    const lateMs = scheduledAtMs - Date.parse(id.slice("s@".length));
    expect(lateMs).toBeGreaterThanOrEqual(0);
    expect(lateMs).toBeLessThan(30_000);
    expect(Number.isInteger(lateMs)).toBe(true);
  }
});

it.each([
  ["when the next schedule is due", 400, 400],
  ["after a second at the latest", 5_000, 1_000],
  ["after a second if none is", null, 1_000],
  ["never at once, which would take all of its time", 0, 5],
])("looks again %s", async (_, nextInMs, afterMs) => {
  const { clock, ticking, ticker, settle } = world([], nextInMs);
  await settle();
  expect(ticking.due).toHaveBeenCalledTimes(1);
  await clock.advance(afterMs - 1);
  expect(ticking.due).toHaveBeenCalledTimes(1);
  await clock.advance(1);
  expect(ticking.due).toHaveBeenCalledTimes(2);
  await ticker.stop();
  await clock.advance(MINUTE_MS);
  expect(ticking.due).toHaveBeenCalledTimes(2);
  expect(clock.pendingTimers).toBe(0);
});

it("looks again when the schedule that it has moved on is due, if that is sooner", async () => {
  const { clock, ticking, ticker, settle } = world([due("s", { everyMs: 700 })]);
  await settle();
  const nextMs = Math.ceil(NOW_MS / 700) * 700;
  expect(ticking.fire.mock.calls[0]?.[0].dueAtMs).toBe(nextMs);
  await clock.advance(nextMs - NOW_MS - 1);
  expect(ticking.due).toHaveBeenCalledTimes(1);
  await clock.advance(1);
  expect(ticking.due).toHaveBeenCalledTimes(2);
  await ticker.stop();
});

it("takes the time of its own round from the wait", async () => {
  const { clock, ticking, ticker, settle } = world([due("s")], 900);
  ticking.fire.mockImplementation(async (request) => {
    await new Promise<void>((resolve) => clock.timer(300, resolve));
    return fired(request);
  });
  await settle();
  await clock.advance(899);
  expect(ticking.due).toHaveBeenCalledTimes(1);
  await clock.advance(1);
  expect(ticking.due).toHaveBeenCalledTimes(2);
  const stopping = ticker.stop();
  await clock.advance(300);
  await stopping;
});

it("goes on at once if there are more schedules than a round takes", async () => {
  const many = Array.from({ length: 100 }, (_, at) => due(`s${at}`));
  const { clock, ticking, ticker, settle } = world(many);
  await settle();
  expect(ticking.due).toHaveBeenCalledTimes(1);
  expect(ticking.due).toHaveBeenCalledWith(100, []);
  await clock.advance(5);
  expect(ticking.due).toHaveBeenCalledTimes(2);
  await ticker.stop();
});

it("warns once of an outage, and once more of the next one", async () => {
  const { clock, warn, ticking, ticker, settle } = world([due("s")]);
  const err = new StoreUnavailableError("it is down", { outcome: "none" });
  await settle();
  for (const outage of [1, 2]) {
    ticking.due.mockRejectedValueOnce(err);
    ticking.fire.mockResolvedValueOnce({
      status: "failed",
      applied: "no",
      retryable: true,
      error: err,
    });
    await clock.advance(3_000);
    expect(warn.mock.calls).toHaveLength(outage);
    await clock.advance(3_000);
  }
  expect(warn).toHaveBeenCalledWith({ err }, "the schedules could not be read or moved on");
  await ticker.stop();
});

it("warns once of a schedule that it cannot read, and moves the others on", async () => {
  const unreadable = { ...due("lunar", LUNAR), revision: 8 };
  const { clock, warn, ticking, ticker, settle } = world([unreadable, due("s")]);
  await settle();
  await clock.advance(5_000);
  expect(warn.mock.calls).toEqual([
    [
      { err: expect.any(Error) as Error, namespace: "n", schedule: "lunar" },
      "a schedule cannot be read here",
    ],
  ]);
  expect(new Set(ticking.fire.mock.calls.map(([{ name }]) => name))).toEqual(new Set(["s"]));
  await ticker.stop();
});

it("moves a stored schedule on in an ambiguous time zone, which a declaration may no longer have", async () => {
  const stored = due("s", { cron: "* * * * *", everyMs: null, timeZone: "IST" });
  const { clock, warn, ticking, ticker, settle } = world([stored]);
  await settle();
  await clock.advance(1_000);
  expect(ticking.fire).toHaveBeenCalled();
  expect(warn).not.toHaveBeenCalled();
  await ticker.stop();
});

const refused = (retryable: boolean): FireOutcome => ({
  status: "failed",
  applied: "no",
  retryable,
  error: new StoreUnavailableError("the store refuses", { outcome: "none" }),
});

it.each<[string, Partial<DueSchedule["declaration"]>, FireOutcome, number]>([
  ["it cannot read", LUNAR, fired({ fires: [] } as unknown as FireRequest), 250],
  ["the store refuses for good", {}, refused(false), 250],
  ["the store cannot move on for now", {}, refused(true), 1],
])(
  "moves the others on although those due for longest are schedules that %s",
  async (_, more, outcome, count) => {
    const { clock, ticking, ticker, settle } = world([
      ...numbered(0, count, more),
      ...numbered(count, count + 50),
    ]);
    ticking.fire.mockImplementation(async (request) =>
      request.revision < count ? outcome : fired(request),
    );
    await settle();
    for (let round = 0; round < 4; round += 1) {
      await clock.advance(500);
      await settle();
    }
    await ticker.stop();
    const moved = ticking.fire.mock.calls.map(([{ name }]) => name);
    for (let n = count; n < count + 50; n += 1) expect(moved).toContain(`s${n}`);
  },
);

it("tries a schedule again that the store could not move on for a while", async () => {
  const { clock, ticking, ticker, settle } = world([due("s")]);
  ticking.fire.mockResolvedValueOnce(refused(true));
  await settle();
  await clock.advance(1_000);
  expect(ticking.fire).toHaveBeenCalledTimes(1);
  await clock.advance(4_000);
  expect(ticking.fire.mock.calls.length).toBeGreaterThan(1);
  await ticker.stop();
});

it("tries a schedule again that it could not read, once it is declared anew", async () => {
  const schedules = numbered(1, 2, LUNAR);
  const { clock, ticking, ticker, settle } = world(schedules);
  await settle();
  schedules[0] = { ...due("s1"), revision: 2 };
  await clock.advance(2_000);
  expect(ticking.fire).toHaveBeenCalled();
  await ticker.stop();
});

it("has nothing to do where the service behind the store ticks", async () => {
  const env = manualEnv();
  const ticker = startTicker({}, env);
  expect(env.clock.pendingTimers).toBe(0);
  await ticker.stop();
});
