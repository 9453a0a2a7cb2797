/**
 * What each row does with a client: it leases, and works on a task where the store keeps tasks.
 * @param {typeof import("leasehold")} library
 * @param {import("leasehold").Leasehold} leasehold
 * @param {{ hasTasks: boolean }} options
 */
export async function exercise({ defineTask }, leasehold, { hasTasks }) {
  const resource = `runtimes:${Math.random()}`;
  const lease = await leasehold.acquire(resource);
  await lease.renew();
  if (!lease.checkAlive()) throw new Error("the lease is not alive after its renewal");
  const { ran } = await leasehold.tryRun(resource, () => "refused");
  if (ran) throw new Error("two holders at once");
  await lease.release();
  const token = await leasehold.run(resource, async (next) => next.token);
  if (token <= lease.token) throw new Error(`token ${token} after ${lease.token}`);
  if (!hasTasks) return;

  const double = defineTask(`double:${Math.random()}`);
  const worker = leasehold.tasks.work([double.handle(async ({ n }) => n * 2)]);
  const handle = await leasehold.tasks.enqueue(double, { n: 21 });
  const result = await handle.result({ timeoutMs: 60_000 });
  if (result !== 42) throw new Error(`the task returned ${result}`);
  await worker.close();
}
