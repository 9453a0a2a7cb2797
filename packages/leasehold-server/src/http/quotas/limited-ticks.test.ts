/** What the limit of a tenant makes of the fire times of its schedules. */
import type { FireRequest, ScheduleStore, Ticking } from "leasehold/internal";
import { expect, it, vi } from "vitest";
import { silentLogger } from "../../../../leasehold/src/env/index.js";
import { limitedTicks } from "./limited-ticks.js";

const request = (ids: readonly string[], skipped = 0): FireRequest => ({
  namespace: "tenant",
  name: "nightly",
  revision: 1,
  fires: ids.map((id) => ({ id, scheduledAtMs: 0 })),
  lastFireAtMs: 0,
  waiting: [],
  dueAtMs: 1_000,
  skipped,
});

/** A tenant with room for so many tasks, on a store that answers as a test says. */
function open(room: number) {
  const answer: Ticking["fire"] = async ({ fires }) => ({
    status: "fired",
    taskIds: fires.map(({ id }) => id),
    kind: "bill",
    queue: "bills",
  });
  const store = { due: vi.fn(async () => "the due schedules"), fire: vi.fn(answer) };
  const limits = {
    reserve: vi.fn(async (_: string, ids: readonly string[]) => ids.length <= limits.room),
    room,
    giveBack: vi.fn(),
    onTaskEvent: vi.fn(),
    logger: { ...silentLogger, warn: vi.fn() },
  };
  const schedules = { ticking: store } as unknown as ScheduleStore;
  const ticking = limitedTicks(schedules, limits)?.ticking;
  if (!ticking) throw new Error("it does not tick");
  return { store, limits, ticking };
}

it("makes tasks within the limit, and reports each", async () => {
  const { store, limits, ticking } = open(2);
  const options = { timeoutMs: 700 };
  const asked = request(["a", "b"]);
  expect(await ticking.fire(asked, options)).toMatchObject({ taskIds: ["a", "b"] });
  expect(store.fire).toHaveBeenCalledWith(asked, options);
  expect(limits.reserve).toHaveBeenCalledWith("tenant", ["a", "b"]);
  expect(limits.giveBack).not.toHaveBeenCalled();
  const event = { type: "enqueued", kind: "bill", queue: "bills", duplicate: false };
  expect(limits.onTaskEvent.mock.calls).toEqual([
    [{ ...event, id: "a" }, "tenant"],
    [{ ...event, id: "b" }, "tenant"],
  ]);
});

it("moves a schedule on without its tasks at the limit, counts them as skipped, and warns once", async () => {
  const { store, limits, ticking } = open(1);
  for (let times = 0; times < 2; times += 1) await ticking.fire(request(["a", "b"], 3));
  expect(store.fire).toHaveBeenCalledWith({ ...request([]), skipped: 5 }, undefined);
  expect(limits.logger.warn.mock.calls).toEqual([
    [
      { namespace: "tenant", schedule: "nightly" },
      "schedules make no tasks: the tenant has reached its limit",
    ],
  ]);
  expect(limits.onTaskEvent).not.toHaveBeenCalled();
});

it("warns again when the limit is reached again", async () => {
  const { limits, ticking } = open(0);
  await ticking.fire(request(["a"]));
  limits.room = 1;
  await ticking.fire(request(["a"]));
  limits.room = 0;
  await ticking.fire(request(["b"]));
  expect(limits.logger.warn).toHaveBeenCalledTimes(2);
});

it("reserves nothing for a schedule that only moves on", async () => {
  const { limits, ticking } = open(0);
  await ticking.fire(request([]));
  expect(limits.reserve).not.toHaveBeenCalled();
  expect(limits.logger.warn).not.toHaveBeenCalled();
});

it("returns what it reserved if no task was made, and reports none", async () => {
  const { store, limits, ticking } = open(2);
  store.fire.mockResolvedValueOnce({ status: "moved" });
  expect(await ticking.fire(request(["a", "b"]))).toEqual({ status: "moved" });
  expect(limits.giveBack.mock.calls).toEqual([["tenant", 2]]);
  expect(limits.onTaskEvent).not.toHaveBeenCalled();
});

it("asks the store which schedules are due, and does not tick where it does not", async () => {
  const { store, limits, ticking } = open(0);
  expect(await ticking.due(100, [7])).toBe("the due schedules");
  expect(store.due).toHaveBeenCalledWith(100, [7]);
  expect(limitedTicks(undefined, limits)).toBe(undefined);
  expect(limitedTicks({} as ScheduleStore, limits)).toBe(undefined);
});
