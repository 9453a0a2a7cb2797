import { expect, it, vi } from "vitest";
import { HeldLease } from "../core/held-lease.js";
import { InvalidOptionError } from "../core/index.js";
import Redlock, { type Settings } from "./redlock.js";

const MISSPELT = { retryCuont: 3 } as Partial<Settings>;
const REFUSED = {
  code: "INVALID_OPTION",
  path: "retryCuont",
  message: expect.stringContaining("retryCount"),
};

it("refuses a setting that does not exist, and names those that do", async () => {
  expect(() => new Redlock(["memory:"], MISSPELT)).toThrow(expect.objectContaining(REFUSED));
  const redlock = new Redlock(["memory:"]);
  await expect(redlock.acquire(["a"], 1_000, MISSPELT)).rejects.toMatchObject(REFUSED);
  const using = redlock.using(["a"], 1_000, MISSPELT, async () => "ran");
  await expect(using).rejects.toMatchObject(REFUSED);
  const lock = await redlock.acquire(["a"], 1_000, { retryCount: 0 });
  await expect(redlock.extend(lock, 1_000, MISSPELT)).rejects.toMatchObject(REFUSED);
  await expect(redlock.release(lock, MISSPELT)).rejects.toMatchObject(REFUSED);
  await redlock.release(lock);
  await redlock.quit();
});

it("leaves no lock behind if the renewal after an acquire of several resources fails", async () => {
  const redlock = new Redlock(["memory:"]);
  const error = new InvalidOptionError("ttlMs", "cannot be renewed");
  const renew = vi.spyOn(HeldLease.prototype, "renew").mockRejectedValue(error);
  await expect(redlock.acquire(["a", "b"], 10_000)).rejects.toBe(error);
  renew.mockRestore();
  const lock = await redlock.acquire(["b", "a"], 10_000, { retryCount: 0 });
  await redlock.release(lock);
  await redlock.quit();
});
