import { expect, it } from "vitest";
import { connect, defineTask } from "../../../leasehold/src/index.js";
import { detailsOf } from "./tasks.js";

it("prints the stack of an error line by line, escaped and below its heading", async () => {
  const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const leasehold = await connect("memory:", { logger });
  const resize = defineTask("resize", { maxAttempts: 1 });
  const handle = await leasehold.tasks.enqueue(resize, {});
  const error = Object.assign(new Error("no"), {
    stack: "Error: no\n    at a\u001b[2J\ndata   forged",
  });
  const worker = leasehold.tasks.work([
    resize.handle(() => {
      throw error;
    }),
  ]);
  await worker.drain();
  const task = await leasehold.tasks.get(handle.id);
  if (!task) throw new Error("the task is there");
  const lines = detailsOf(task).split("\n");
  const at = lines.findIndex((line) => line.startsWith("error "));
  expect(lines.slice(at, at + 3)).toEqual([
    "error  Error: no",
    "           at a\\u{1b}[2J",
    "       data   forged",
  ]);
  await leasehold.close();
});
