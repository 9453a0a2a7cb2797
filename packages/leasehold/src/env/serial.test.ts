import { expect, it } from "vitest";
import { manualClock } from "../testing/index.js";
import { nextTurn, SerialExecutor, sleep } from "./index.js";

it("runs the work of a key one after the other, and that of other keys meanwhile", async () => {
  const clock = manualClock();
  const serial = new SerialExecutor();
  const log: string[] = [];
  const work = (name: string) => async () => {
    log.push(`${name} begins`);
    await sleep(clock, 10);
    log.push(`${name} ends`);
    return name;
  };
  const all = Promise.all([
    serial.run("a", work("a1")),
    serial.run("a", work("a2")),
    serial.run("b", work("b1")),
  ]);
  expect(log, "begins at once").toEqual(["a1 begins", "b1 begins"]);
  await clock.advance(10);
  expect(log.slice(2)).toEqual(["a1 ends", "a2 begins", "b1 ends"]);
  await clock.advance(10);
  expect(await all).toEqual(["a1", "a2", "b1"]);
});

it("goes on after work that fails, and begins at once when all is done", async () => {
  const serial = new SerialExecutor();
  const failing = serial.run("a", () => Promise.reject(new Error("broken")));
  const next = serial.run("a", async () => "next");
  await expect(failing).rejects.toThrow("broken");
  expect(await next).toBe("next");
  await nextTurn();
  let begun = false;
  const last = serial.run("a", async () => {
    begun = true;
  });
  expect(begun).toBe(true);
  await last;
});
