/** The script of a page that works with leases and tasks; a test tells it what to do. */
import { connect, defineTask, type Lease, LeaseholdError } from "leasehold";

async function open(url: string, holder: string) {
  const leases = await connect(url, { holder, defaults: { ttlMs: 3_000 } });
  const tasksClient = await connect(url, { holder });
  const tasks = tasksClient.tasks;
  const held = new Map<string, Lease>();
  const double = defineTask<{ n: number }>("double");
  return {
    /** The token under which the work ran, and whether its lease outlived a renewal. */
    run: (resource: string) =>
      leases.run(resource, async (lease) => {
        await lease.renew();
        return { token: lease.token, alive: lease.checkAlive() };
      }),
    /** Waits until it has it, and keeps it. */
    async acquire(resource: string) {
      const lease = await leases.acquire(resource);
      held.set(resource, lease);
      return lease.token;
    },
    tryRun: (resource: string) => leases.tryRun(resource, () => "done"),
    release: (resource: string) => held.get(resource)?.release(),
    /** Why a lease was lost, once it is. */
    lost: (resource: string) =>
      new Promise<string>((resolve) => {
        const signal = held.get(resource)?.signal;
        const tell = () => {
          const { reason } = signal ?? {};
          resolve(reason instanceof LeaseholdError ? reason.code : String(reason));
        };
        if (signal?.aborted) tell();
        else signal?.addEventListener("abort", tell);
      }),
    /** What became of a task, once it is done. */
    async output(id: string) {
      for (;;) {
        const task = await tasks.get(id);
        if (task?.state === "done") return task.output;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    enqueue: async (n: number) => (await tasks.enqueue(double, { n })).id,
    work: () =>
      void tasks.work([double.handle(({ n }) => n * 2)], { ttlMs: 2_000, concurrency: 1 }),
    async close() {
      await tasksClient.close();
      await leases.close();
    },
  };
}

export type Client = Awaited<ReturnType<typeof open>>;

declare global {
  var openClient: typeof open;
  var client: Client;
}
globalThis.openClient = open;
