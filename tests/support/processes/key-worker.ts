/** Works on tasks with a concurrency key as a process of its own, until it is ended. Now and then a handler fails. */
import { setTimeout as delay } from "node:timers/promises";
import { connect, defineTask } from "../../../packages/leasehold/src/index.js";

export interface WorkerSettings {
  readonly url: string;
  readonly kinds: readonly string[];
  readonly concurrency: number;
  readonly ttlMs: number;
  /** Of the handlers, this share fails. */
  readonly failing: number;
}

const settings = JSON.parse(process.argv[2] ?? "") as WorkerSettings;
process.on("disconnect", () => process.exit());
const leasehold = await connect(settings.url, { connectTimeoutMs: 60_000 });
const handlers = settings.kinds.map((kind) =>
  defineTask(kind).handle(async () => {
    await delay(1);
    if (Math.random() < settings.failing) throw new Error("a handler fails now and then");
  }),
);
const { concurrency, ttlMs } = settings;
leasehold.tasks.work(handlers, { concurrency, ttlMs });
