import { expect, it } from "vitest";
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
