/**
 * The programs of tests/e2e/lifecycle.test.ts: `node lifecycle.js NAME SOURCE`. None of them ends itself, and
 * none closes what it has opened unless that is what it shows.
 */
import { connect, defineTask, openStores } from "leasehold";

const [name = "", source = ""] = process.argv.slice(2);
const say = (text) => console.log(text);
const aborted = (signal) =>
  new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
/** Does not hold the process open. */
const later = (ms, callback) => setTimeout(() => callback(), ms).unref();

const programs = {
  /** Uses everything once. */
  async idle() {
    // A directory of PGlite is opened once.
    const stores = await openStores(source);
    const opened = { open: async () => stores };
    const [one, two] = [await connect(opened), await connect(opened)];
    const first = await one.acquire("r");
    const waiting = two.acquire("r");
    await two.tryRun("r", () => say("not exclusive"));
    await first.release();
    await (await waiting).release();
    await one.run("r", () => {});

    const { tasks } = await connect(opened);
    const kind = defineTask("kind");
    const done = new Promise((resolve) => {
      const worker = tasks.work([kind.handle(() => resolve(worker))]);
    });
    await tasks.enqueue(kind, null);
    await (await done).close();
    say("idle");
  },

  /** Holds a lease that is never renewed. */
  async lost() {
    const leases = await connect(source);
    const lease = await leases.acquire("r", { ttlMs: 700, autoRenew: false });
    lease.onLost((reason) => say(`lost: ${reason}`));
  },

  /** Holds a lease for longer than its ttl. */
  async released() {
    const leases = await connect(source);
    const lease = await leases.acquire("r", { ttlMs: 500 });
    later(1_500, async () => {
      say(`alive: ${lease.checkAlive()}`);
      await lease.release();
      say("released");
    });
  },

  /** Waits for a lease that another process holds. */
  async waits() {
    const leases = await connect(source);
    const waiting = leases.acquire("r");
    // The store has said that it is held.
    await leases.tryAcquire("r");
    say("waiting");
    await (await waiting).release();
    say("got it");
  },

  /** Closes, and so holds no connection, though much was under way. */
  async closes() {
    const leases = await connect(source, { graceMs: 10_000 });
    const waiting = leases.acquire("r").catch((error) => say(`waiter: ${error.code}`));
    const running = leases.run("mine", async (lease) => {
      await aborted(lease.signal);
      say(`work: ${lease.signal.reason.code}, still ours: ${lease.checkAlive()}`);
    });
    while ((await leases.get("mine"))?.state !== "live");
    const closing = leases.close();
    say(`the same: ${closing === leases.close()}`);
    await Promise.all([waiting, running, closing]);
    await leases.acquire("r").catch((error) => say(`after: ${error.code}`));
  },

  /** Works under a lease and at a task until its signals abort. */
  async drains() {
    const leases = await connect(source, { closeOnSignals: true });
    const { tasks } = await connect(source, { closeOnSignals: ["SIGINT", "SIGTERM"] });
    const kind = defineTask("kind");
    const begun = new Promise((resolve) => {
      const handler = kind.handle(async (_, { signal }) => {
        resolve();
        await aborted(signal);
        say("task: stopping");
        throw signal.reason;
      });
      tasks.work([handler], { graceMs: 50 });
    });
    await tasks.enqueue(kind, null);
    await leases.run("r", async (lease) => {
      await begun;
      say(`working ${process.pid}`);
      await aborted(lease.signal);
      say("work: stopping");
      await new Promise((resolve) => setTimeout(resolve, 100));
      say("work: done");
    });
  },

  /** Ignores its abort signal. */
  async stubborn() {
    const leases = await connect(source, { closeOnSignals: true, graceMs: 600_000 });
    await leases.run("r", async (lease) => {
      say("working");
      await aborted(lease.signal);
      say("stopping");
      await new Promise(() => {});
    });
  },

  /** Has a handler of its own for the same signal. */
  async others() {
    process.on("SIGTERM", () => {
      say("own handler");
      process.exitCode = 3;
    });
    const leases = await connect(source, { closeOnSignals: ["SIGTERM"], graceMs: 100 });
    await leases.acquire("r");
    say("working");
  },

  /** Installs handlers only while asked to. */
  async counts() {
    const count = () =>
      say(`${process.listenerCount("SIGINT")} ${process.listenerCount("SIGTERM")}`);
    const plain = await connect(source);
    count();
    const one = await connect(source, { closeOnSignals: true });
    const two = await connect(source, { closeOnSignals: ["SIGTERM"] });
    count();
    await one.close();
    count();
    await two.close();
    count();
    await plain.close();
  },
};

await programs[name]();
