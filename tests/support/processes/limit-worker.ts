/** Works on tasks of a limited kind as a process of its own, until it is ended. Now and then a handler fails. */
import { setTimeout as delay } from "node:timers/promises";
import { connect, defineTask, type LimitOptions } from "../../../packages/leasehold/src/index.js";

export interface WorkerSettings {
  readonly url: string;
  readonly limits: Readonly<Record<string, LimitOptions | null>>;
  readonly concurrency: number;
  readonly ttlMs: number;
  /** Of the handlers, this share fails. */
  readonly failing: number;
}

const settings = JSON.parse(process.argv[2] ?? "") as WorkerSettings;
process.on("disconnect", () => process.exit());
const leasehold = await connect(settings.url, { connectTimeoutMs: 60_000 });
const handlers = Object.entries(settings.limits).map(([kind, limit]) =>
  defineTask(kind, limit === null ? {} : { limit }).handle(async () => {
    await delay(5);
    if (Math.random() < settings.failing) throw new Error("a handler fails now and then");
  }),
);
const { concurrency, ttlMs } = settings;
leasehold.tasks.work(handlers, { concurrency, ttlMs });
