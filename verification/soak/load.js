/**
 * The process that uses the library itself, and is watched doing so: all that a program may do with it,
 * at a steady rate, through whatever happens between it and its database. It says every second what it
 * saw: { probes, accepted, lost, counts }.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, defineTask } from "leasehold";

const { databaseUrl, serverUrl, ttlMs, live, liveOverHttp, tasksPerSecond, servedPerSecond } =
  JSON.parse(process.argv[2]);
const [CONTENDED, CONTENDERS] = [10, 3];
/** Each of two. */
const PROBE_EVERY_MS = { lease: 300, "lease over HTTP": 600 };
const PROBED = 50;
const REPORT_EVERY_MS = 1_000;
/** Between tries of something that did not work; the clients themselves have tried for longer. */
const AGAIN_MS = 200;

const stopping = new AbortController();
const { signal } = stopping;
const counts = {
  live: 0,
  acquired: 0,
  rotated: 0,
  contended: 0,
  gaveUp: 0,
  terms: 0,
  singletons: 0,
  grantsOverHttp: 0,
  tasksOverHttp: 0,
  shards: 0,
  observed: 0,
  notifications: 0,
  visits: 0,
  notAccepted: 0,
  tokensBack: 0,
  overlaps: 0,
};
let said = { probes: [], accepted: [], lost: [] };

const between = (least, most) => least + Math.random() * (most - least);
const pause = (ms) => sleep(ms, undefined, { signal }).catch(() => {});
/** Again and again until the end; what fails is what is being tested elsewhere. */
async function always(turn) {
  while (!signal.aborted) await turn().catch(() => pause(AGAIN_MS));
}

/** By resource, a function that releases its lease. */
const rotating = new Map();
const lastTokens = new Map();

async function keepLive(leases, resource) {
  const lease = await leases.acquire(resource, { ttlMs, signal });
  counts.acquired += 1;
  if (leases === overHttp) counts.grantsOverHttp += 1;
  if (lease.token <= (lastTokens.get(resource) ?? 0)) counts.tokensBack += 1;
  lastTokens.set(resource, lease.token);
  counts.live += 1;
  await new Promise((resolve) => {
    lease.onLost((reason) => {
      said.lost.push({ resource, atMs: Date.now(), reason });
      resolve();
    });
    rotating.set(resource, () => lease.release().then(resolve, resolve));
  });
  rotating.delete(resource);
  counts.live -= 1;
}

/** Who works on each contended resource now. */
const inside = new Map();

async function contend(leases, resource, turn) {
  // Those who give up must leave nothing behind, however they do it.
  const ways = [{ waitMs: between(ttlMs / 10, ttlMs) }, { signal: AbortSignal.timeout(ttlMs / 2) }];
  const patience = turn % 3 === 2 ? { signal } : ways[turn % 3];
  try {
    await leases.run(resource, { ttlMs, ...patience }, async (lease) => {
      const token = inside.get(resource);
      // Only one holder of a resource may trust its lease.
      if (token?.checkAlive() && token !== lease) counts.overlaps += 1;
      inside.set(resource, lease);
      await sleep(between(ttlMs / 50, ttlMs / 5));
      if (inside.get(resource) === lease) inside.delete(resource);
    });
    counts.contended += 1;
  } catch {
    counts.gaveUp += 1;
  }
}

async function probe(kind, leases) {
  const startMs = Date.now();
  const begin = performance.now();
  let ok = true;
  try {
    const resource = `probe/${Math.floor(between(0, PROBED))}`;
    const lease = await leases.acquire(resource, { ttlMs, signal });
    if (leases === overHttp) counts.grantsOverHttp += 1;
    await lease.release();
  } catch {
    ok = false;
  }
  const tookMs = performance.now() - begin;
  if (!signal.aborted) said.probes.push({ kind, startMs, tookMs, ok });
  await pause(Math.max(0, PROBE_EVERY_MS[kind] - tookMs));
}

/** A client that comes, does something and goes. */
async function visit() {
  const opened = [await connect(databaseUrl, { graceMs: 0 })];
  try {
    const [leases] = opened;
    await leases.acquire(`visit/${Math.floor(between(0, 5))}`, { ttlMs, waitMs: ttlMs, signal });
    await leases.tasks.counts();
    counts.visits += 1;
  } finally {
    await Promise.allSettled(opened.map((client) => client.close()));
  }
}

function elections(leases, number) {
  const elector = leases.elector("soak/leader", { ttlMs, retryDelayMs: 100, graceMs: 100 });
  void always(() =>
    elector.lead(
      async (term) => {
        counts.terms += 1;
        await sleep(between(ttlMs / 4, ttlMs), undefined, { signal: term.signal });
      },
      { signal },
    ),
  );
  const singleton = () =>
    leases.singleton(
      "soak/singleton",
      async (lease) => {
        counts.singletons += 1;
        await sleep(ttlMs, undefined, { signal: lease.signal }).catch(() => {});
      },
      { ttlMs, restartDelayMs: 100, graceMs: 100 },
    );
  let alone = singleton().start();
  const shards = () =>
    leases.shards("soak/shards", {
      count: 8,
      member: `m${number}`,
      ttlMs,
      graceMs: 100,
      async work(_, lease) {
        counts.shards += 1;
        await sleep(1e9, undefined, { signal: lease.signal }).catch(() => {});
      },
    });
  let member = shards().start();
  // Who leaves and comes back gives its part to the other one.
  void always(async () => {
    await pause(between(3 * ttlMs, 5 * ttlMs));
    await Promise.allSettled([alone.close(), member.close()]);
    if (signal.aborted) return;
    alone = singleton().start();
    member = shards().start();
  });
  void always(async () => {
    for await (const _ of elector.observe({ signal })) counts.observed += 1;
  });
}

const first = await connect(databaseUrl, { holder: "soak-1", graceMs: 0 });
const second = await connect(databaseUrl, { holder: "soak-2", graceMs: 0 });
const overHttp = await connect(serverUrl, { holder: "soak-http", graceMs: 0 });
const worker = await connect(databaseUrl, { holder: "soak-tasks" });
const producer = await connect(serverUrl, { holder: "soak-served" });
const [tasks, served] = [worker.tasks, producer.tasks];

for (let at = 0; at < live; at += 1) void always(() => keepLive(first, `live/${at}`));
for (let at = 0; at < liveOverHttp; at += 1) void always(() => keepLive(overHttp, `http/${at}`));
void always(async () => {
  await pause(500);
  const [resource, letGo] = [...rotating][Math.floor(between(0, rotating.size))] ?? [];
  if (!letGo) return;
  rotating.delete(resource);
  counts.rotated += 1;
  await letGo();
});
for (let at = 0; at < CONTENDED; at += 1) {
  for (let who = 0; who < CONTENDERS; who += 1) {
    let turn = who;
    void always(() => contend(who % 2 ? second : first, `contended/${at}`, (turn += 1)));
  }
}
elections(first, 1);
elections(second, 2);
void always(async () => {
  for await (const _ of first.watch({ signal })) counts.notifications += 1;
});
void always(async () => {
  await visit();
  await pause(ttlMs / 2);
});
for (const client of [first, second]) void always(() => probe("lease", client));
for (let at = 0; at < 2; at += 1) void always(() => probe("lease over HTTP", overHttp));

const soak = defineTask("soak");
/** A producer that waits while so many are not done: a busy machine shall not end with a mountain of them. */
const MOST_WAITING = 500;
let waiting = 0;
const work = soak.handle(async ({ number }) => {
  await sleep(number % 20);
  waiting = Math.max(0, waiting - 1);
  return { number };
});
// More at once than the rate takes, so that a busy machine leaves no backlog behind.
tasks.work([work], { ttlMs, queues: ["direct"], concurrency: 32 });

const MOST_AT_ONCE = 10;
const PROBED_TASKS = 4;
/** So many a second, whether or not the earlier ones were accepted; what a pause has cost is not made up for. */
function enqueueing(client, queue, perSecond) {
  let asked = 0;
  let dueMs = performance.now();
  const enqueue = () => {
    const askedMs = Date.now();
    asked += 1;
    // Timed tasks overtake the others, so the length of the queue does not count.
    const probe = asked % PROBED_TASKS === 0;
    const options = { queue, crashLimit: 1_000, priority: probe ? -1 : 0 };
    client.enqueue(soak, { number: asked }, options).then(
      ({ id }) => {
        if (queue === "direct") waiting += 1;
        else counts.tasksOverHttp += 1;
        said.accepted.push({ id, askedMs, queue, probe });
      },
      () => {
        counts.notAccepted += 1;
      },
    );
  };
  void always(async () => {
    dueMs = Math.max(dueMs, performance.now() - (MOST_AT_ONCE * 1_000) / perSecond);
    for (; dueMs <= performance.now(); dueMs += 1_000 / perSecond) {
      if (waiting < MOST_WAITING) enqueue();
    }
    await pause(1_000 / perSecond);
  });
}
enqueueing(tasks, "direct", tasksPerSecond);
enqueueing(served, "served", servedPerSecond);

function report() {
  process.send({ said, counts });
  said = { probes: [], accepted: [], lost: [] };
}
const reporting = setInterval(report, REPORT_EVERY_MS);

process.on("disconnect", () => process.exit(1));
process.on("message", async (message) => {
  // After `stop` no more tasks are enqueued; the worker goes on until `close`.
  if (message === "stop") stopping.abort();
  if (message !== "close") return;
  clearInterval(reporting);
  await Promise.allSettled([first, second, overHttp, worker, producer].map((one) => one.close()));
  report();
  process.exit(0);
});
process.send({ said, counts });
