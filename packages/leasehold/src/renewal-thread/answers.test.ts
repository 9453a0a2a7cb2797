import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { Answers } from "./answers.js";

const sent = { monotonicMs: 1.5, wallMs: 1_700_000_000_000 };

it("returns the latest answer, once", () => {
  const written = new Answers();
  const read = new Answers(written.memory);
  expect(read.read()).toBeUndefined();
  written.write({ sent, answer: { status: "renewed", remainingMs: 10, token: 2 ** 52 + 1 } });
  const latest = { sent, answer: { status: "renewed", remainingMs: 20.25, token: 7 } } as const;
  written.write(latest);
  expect(read.read()).toEqual(latest);
  expect(read.read()).toBeUndefined();
});

it.each(["expired", "revoked", "taken", "gone"] as const)("passes on a loss: %s", (reason) => {
  const written = new Answers();
  written.write({ sent, answer: { status: "lost", reason } });
  expect(new Answers(written.memory).read()).toEqual({ sent, answer: { status: "lost", reason } });
});

it("is never read half-written, however fast another thread writes", async () => {
  const answers = new Answers();
  // As write() does it: each number of an answer is the number of the answer.
  const program = `
    const { workerData, parentPort } = require("node:worker_threads");
    const count = new Int32Array(workerData, 0, 1);
    const numbers = new Float64Array(workerData, 8);
    for (let n = 1; n <= 2_000_000; n += 1) {
      numbers.set([0, n, n, n, n], (n & 1) * 5);
      Atomics.store(count, 0, n);
    }`;
  const worker = new Worker(program, { eval: true, workerData: answers.memory });
  let seen = 0;
  for (let last = 0; last < 2_000_000; ) {
    const found = answers.read();
    if (!found) {
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    if (found.answer.status !== "renewed") throw new Error("it was renewed");
    const { monotonicMs, wallMs } = found.sent;
    const { remainingMs, token } = found.answer;
    expect(new Set([monotonicMs, wallMs, remainingMs, token]).size).toBe(1);
    expect(token).toBeGreaterThan(last);
    last = token;
    seen += 1;
  }
  expect(seen).toBeGreaterThan(0);
  await worker.terminate();
});
