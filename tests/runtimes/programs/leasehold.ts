/** A program of a user's, with the library. Only compiled. */
import { connect, defineTask, LeaseholdError, type TaskHandle } from "leasehold";
import { fence } from "leasehold/fence";
import type { LeaseStore } from "leasehold/port";
import { http } from "leasehold/stores/http";
import { memory } from "leasehold/stores/memory";
import { pglite, postgres } from "leasehold/stores/postgres";
import { redis } from "leasehold/stores/redis";

export declare const store: LeaseStore;
export const sources = [
  memory(),
  http({ url: "http://localhost:4040" }),
  postgres({ url: "postgres://localhost/app" }),
  pglite({ directory: "" }),
];
export const leasesOnly = redis({ url: new URL("redis://localhost") });
export const check = fence;

export async function work(signal: AbortSignal): Promise<TaskHandle<number>> {
  await using leasehold = await connect("memory:", { closeOnSignals: ["SIGTERM"] });
  const token: number = await leasehold.run("billing", { signal }, (lease) => lease.token);
  const double = defineTask<{ n: number }, number>("double");
  leasehold.tasks.work([double.handle(({ n }) => n * 2)]);
  for await (const event of leasehold.watch({ signal })) {
    if (event.type === "resync") break;
  }
  console.log(token);
  try {
    return await leasehold.tasks.enqueue(double, { n: 21 });
  } catch (error) {
    if (error instanceof LeaseholdError) console.error(error.code, error.docs);
    throw error;
  }
}
