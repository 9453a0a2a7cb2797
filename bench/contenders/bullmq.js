// BullMQ 6 on Redis. It keeps finished jobs, as our worker keeps finished tasks.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { Countdown } from "./until.js";

const CONCURRENCY = 100;

/** @param {string} url */
export async function open(url) {
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue("noop", { connection });
  const done = new Countdown();
  /** @type {Pick<import("./process.js").Contender, "load" | "drain" | "close">} */
  const contender = {
    async load(count) {
      await queue.obliterate({ force: true });
      for (let from = 0; from < count; from += 1_000) {
        const length = Math.min(1_000, count - from);
        await queue.addBulk(Array.from({ length }, (_, n) => ({ name: "noop", data: { n } })));
      }
    },
    async drain(count) {
      const completed = done.of(count);
      const worker = new Worker("noop", async () => null, {
        connection,
        concurrency: CONCURRENCY,
        autorun: false,
      });
      worker.on("completed", () => done.one());
      await worker.waitUntilReady();
      const begin = performance.now();
      void worker.run();
      await completed;
      const tookMs = performance.now() - begin;
      await worker.close();
      return tookMs;
    },
    async close() {
      await queue.close();
      connection.disconnect();
    },
  };
  return contender;
}
