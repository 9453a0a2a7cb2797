import { setTimeout as delay } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { beside, closeAll } from "./beside.js";

const until = (signal: AbortSignal, ms = 10_000) =>
  delay(ms, undefined, { signal }).catch(() => {});

it("ends what goes on beside the work when the work has ended", async () => {
  const went: string[] = [];
  await beside(
    async (over) => {
      await until(over);
      went.push("side");
    },
    async () => {
      await delay(1);
      went.push("work");
    },
  );
  expect(went).toEqual(["work", "side"]);
});

it("stops the work at once when that fails, and tells so when the work has ended", async () => {
  const went: string[] = [];
  const run = beside(
    async () => {
      await delay(5);
      throw new Error("no samples");
    },
    async (broken) => {
      await until(broken);
      // The event loop turns, and no code awaits the side: its rejection must be handled already.
      await delay(20);
      went.push(`stopped: ${broken.aborted}`);
    },
  );
  await expect(run).rejects.toThrow("no samples");
  expect(went).toEqual(["stopped: true"]);
});

it("tells what the work fails with, and ends the other all the same", async () => {
  let over: AbortSignal | undefined;
  const run = beside(
    async (signal) => {
      over = signal;
      await until(signal);
    },
    () => Promise.reject(new Error("no faults")),
  );
  await expect(run).rejects.toThrow("no faults");
  expect(over?.aborted).toBe(true);
});

it("closes the others when one cannot be closed", async () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  const closed: string[] = [];
  const closing = (name: string) => async () => closed.push(name);
  const broken = () => Promise.reject(new Error("gone"));
  await closeAll([closing("first"), broken, closing("last")]);
  expect(closed).toEqual(["first", "last"]);
  expect(said).toHaveBeenCalledOnce();
  said.mockRestore();
});
