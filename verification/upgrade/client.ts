/**
 * A client as a process. It does what the lines of its input ask for, `{ id, call, args }`, and answers each with a
 * line, `{ id, value }` or `{ id, error }`. The call 0 is the connection.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { connect, defineTask, type Lease, type TaskHandle, type Worker } from "leasehold";
import { openRegisters, type RegistersPlace } from "../matrix/registers.js";
import { stoppable } from "../support/stoppable-clock.js";

export interface ClientSettings {
  readonly url: string;
  readonly holder: string;
  readonly registers: RegistersPlace;
}

process.on("disconnect", () => process.exit());
const { url, holder, registers: place } = JSON.parse(process.argv[2] ?? "") as ClientSettings;
const say = (said: object) => writeSync(1, `${JSON.stringify(said)}\n`);
const clock = stoppable();
const registers = await openRegisters(place);

function refuse(id: number, error: unknown): void {
  const { code, message } = error as { code?: unknown; message?: string };
  say({ id, error: { code: String(code), message: message ?? String(error) } });
}

const leasehold = await connect(url, { holder, env: { clock }, connectTimeoutMs: 60_000 }).catch(
  (error: unknown) => {
    refuse(0, error);
    process.exit();
  },
);
const held = new Map<string, Lease>();
const handles = new Map<string, TaskHandle>();
let worker: Worker | undefined;

/** Twice, so that the writes of two holders at a time would be seen in turns. */
async function write(resource: string, token: number): Promise<void> {
  for (let times = 0; times < 2; times += 1) {
    const wrote = await registers.write(resource, token);
    if (wrote !== "written") throw new Error(`${holder} wrote to ${resource}: ${wrote}`);
  }
}

const CALLS = {
  async hold(resource: string) {
    const lease = await leasehold.acquire(resource);
    held.set(resource, lease);
    await write(resource, lease.token);
    return lease.token;
  },
  async renew(resource: string) {
    const lease = held.get(resource);
    await lease?.renew();
    return lease?.checkAlive() ? lease.token : null;
  },
  release: async (resource: string) => held.get(resource)?.release(),
  /** Holds it so many times, among others. */
  async contend(resource: string, times: number) {
    for (let time = 0; time < times; time += 1) {
      await leasehold.run(resource, async (lease) => {
        await write(resource, lease.token);
        await lease.renew();
        await write(resource, lease.token);
      });
    }
  },
  freeze: async () => clock.freeze(),
  thaw: async () => clock.thaw(),
  async enqueue(kind: string, data: string) {
    const handle = await leasehold.tasks.enqueue(defineTask(kind), data);
    handles.set(handle.id, handle);
    return handle.id;
  },
  result: (id: string) => handles.get(id)?.result() ?? null,
  /** Each task's output is its data and who has done it. */
  async work(kind: string) {
    worker = leasehold.tasks.work([
      defineTask(kind).handle(async (data) => `${String(data)} by ${holder}`),
    ]);
  },
  stopWork: async () => worker?.close(),
  /** Resolves when a task was claimed; its handler does not end. */
  hang: (kind: string) =>
    new Promise((resolve) => {
      const handle = defineTask(kind).handle((data) => {
        resolve(data);
        return new Promise<never>(() => {});
      });
      worker = leasehold.tasks.work([handle], { ttlMs: 1_000 });
    }),
  once: async (key: string) => (await leasehold.once(key, async () => holder)).value,
  close: () => leasehold.close(),
};
export type Calls = typeof CALLS;

createInterface(process.stdin).on("line", (line) => {
  const { id, call, args } = JSON.parse(line) as {
    id: number;
    call: keyof Calls;
    args: [string, never];
  };
  Promise.resolve(CALLS[call](...args)).then(
    (value) => say({ id, value }),
    (error: unknown) => refuse(id, error),
  );
});
say({ id: 0, value: null });
