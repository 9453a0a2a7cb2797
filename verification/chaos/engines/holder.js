/**
 * One holder of the chaos on engines, a process of its own on the built library. For each resource,
 * again and again: waits for the lease, and works under it in steps. A step asks whether the lease is
 * alive, waits a moment, and then writes, whatever has happened meanwhile: in between lies the window
 * that any real work has. All that it asks of its store, and what is answered, it tells the witness.
 *
 * Its input: `block MS` and `gc MS` stand in a step's window, `herd RESOURCE COUNT MS` waits for a
 * resource COUNT times at once. At SIGTERM it closes its client and ends with 0.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect as dial } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "leasehold";

/**
 * @type {{ url: string, name: string, holder: string, resources: string[], ttlMs: number,
 *   driftRatio: number, witnessPort: number, uptimeBehindMs: number | null }}
 */
const settings = JSON.parse(process.argv[2]);
const { name, ttlMs, resources } = settings;
const MOST_STEPS = 8;
const RETRY_MS = 100;
const HERD_CLIENTS = 10;
/** What may become of a lease or a wait while everything fails. */
const EXPECTED = ["LEASE_LOST", "LEASE_UNAVAILABLE", "STORE_UNAVAILABLE", "CLOSED"];

/** On the scale of the machine's monotonic clock, which all processes share. */
function now() {
  if (settings.uptimeBehindMs === null) return Number(process.hrtime.bigint()) / 1e6;
  // A faked clock fakes that one too, but not what the kernel writes; it is never ahead.
  const uptimeMs = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000;
  return uptimeMs + settings.uptimeBehindMs;
}

const witness = dial(settings.witnessPort, "127.0.0.1");
witness.setNoDelay(true);
witness.on("error", () => process.exit(0));
witness.on("close", () => process.exit(0));
await once(witness, "connect");
/** Answers to writes, in their order. */
const answers = [];
createInterface(witness)
  .on("error", () => process.exit(0))
  .on("line", (line) => answers.shift()?.(JSON.parse(line)));
function tell(event) {
  // Handed to the kernel at once: a SIGKILL after this loses nothing.
  witness.write(`${JSON.stringify(event)}\n`);
}
function write(event) {
  return new Promise((resolve) => {
    answers.push(resolve);
    tell({ ...event, k: "write" });
  });
}
const unexpected = (error) => tell({ k: "unexpected", error: String(error?.stack ?? error) });
for (const event of ["uncaughtException", "unhandledRejection"]) {
  process.on(event, (error) => {
    unexpected(error);
    witness.end(() => process.exit(1));
  });
}
tell({ k: "hello", name });

/** Names a grant without its secret. */
const grantIdOf = (leaseId) => leaseId.slice(0, 16);

/** Reports each call of a store to the witness: when it was sent, and its outcome. */
function reporting(store) {
  const calls = {
    async acquire(requests, ...rest) {
      const s = now();
      const outcomes = await store.acquire(requests, ...rest);
      const t = now();
      for (const [at, { status, token }] of outcomes.entries()) {
        const { resource, leaseId } = requests[at];
        if (status === "acquired")
          tell({ k: "granted", r: resource, g: grantIdOf(leaseId), n: token, s, t });
      }
      return outcomes;
    },
    async renew(requests, ...rest) {
      const grants = requests.map(({ leaseId }) => grantIdOf(leaseId));
      const s = now();
      tell({ k: "renewing", g: grants, s });
      const outcomes = await store.renew(requests, ...rest);
      const of = (status) => grants.filter((_, at) => outcomes[at].status === status);
      tell({ k: "renewed", g: of("renewed"), lost: of("lost"), s });
      return outcomes;
    },
    release(requests, ...rest) {
      tell({ k: "releasing", g: requests.map(({ leaseId }) => grantIdOf(leaseId)), s: now() });
      return store.release(requests, ...rest);
    },
  };
  return new Proxy(store, {
    get(target, key) {
      if (Object.hasOwn(calls, key)) return calls[key];
      const value = target[key];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
const nothing = () => {};
/** Discards the library's own telemetry; only calls of the store are reported. */
const telemetry = {
  measured: (what, store) => (what === "leases" ? reporting(store) : store),
  count: nothing,
  change: nothing,
  measure: nothing,
  observe: () => nothing,
  tally: nothing,
  span: (_name, _options, work) => work({ rename: nothing, set: nothing, fail: nothing }),
  here: () => ({}),
  within: (_contexts, work) => work(),
  outgoing: () => ({}),
  incoming: () => ({}),
};

async function open(holder = settings.holder) {
  for (;;) {
    try {
      const defaults = { ttlMs, driftRatio: settings.driftRatio };
      return await connect(settings.url, { holder, graceMs: 300, defaults, env: { telemetry } });
    } catch (error) {
      if (error.code !== "STORE_UNAVAILABLE") unexpected(error);
      await delay(RETRY_MS);
    }
  }
}

/** Stands in the window of the next step, if any. */
let inWindow = null;
const STANDING = {
  block(untilMs) {
    while (performance.now() < untilMs);
  },
  gc(untilMs) {
    const kept = [];
    while (performance.now() < untilMs) {
      for (let count = 0; count < 20_000; count += 1) kept.push({ count });
      if (kept.length > 2_000_000) kept.length = 0;
      globalThis.gc();
    }
  },
};

async function work(lease) {
  const me = { r: lease.resource, g: grantIdOf(lease.leaseId), n: lease.token };
  const steps = 1 + Math.floor(Math.random() * MOST_STEPS);
  for (let step = 0; step < steps; step += 1) {
    // Read first: trust that is found, was there at some time after this.
    const c = now();
    if (!lease.checkAlive()) return;
    if (inWindow) {
      const { what, ms } = inWindow;
      inWindow = null;
      const s = now();
      STANDING[what](performance.now() + ms);
      tell({ k: "stood", what, ms: now() - s });
    } else {
      await delay((ttlMs / MOST_STEPS) * (0.3 + Math.random()));
    }
    const { accepted } = await write({ ...me, step, c });
    if (accepted) continue;
    // A refused write proves that a later grant exists, so the holder must not trust its lease any more.
    if (lease.checkAlive()) tell({ k: "breach", ...me, t: now() });
    return;
  }
}

let closing = false;
const leases = await open();
const releasing = async (lease, working) => {
  try {
    await working;
  } finally {
    await lease.release();
  }
};
const FORMS = [
  (resource) => leases.run(resource, work),
  async (resource) => {
    const lease = await leases.acquire(resource, { waitMs: Number.POSITIVE_INFINITY });
    await releasing(lease, work(lease));
  },
  async (resource) => {
    const lease = leases.reusableLease(resource, { acquireRetryDelayMs: ttlMs / 4 });
    if ((await lease.acquire()) && lease.held) await releasing(lease, work(lease.held));
  },
];

async function contend(resource) {
  while (!closing) {
    try {
      await FORMS[Math.floor(Math.random() ** 2 * FORMS.length)](resource);
      await delay(Math.random() * (ttlMs / 4));
    } catch (error) {
      if (!EXPECTED.includes(error.code)) unexpected(error);
      await delay(RETRY_MS);
    }
  }
}

/** Many clients wait at once, each for at most `waitMs`. Reports how many were granted and how many gave up. */
async function herd(resource, count, waitMs) {
  const clients = await Promise.all(
    Array.from({ length: HERD_CLIENTS }, (_, at) => open(`${settings.holder}-${at}`)),
  );
  const came = { served: 0, gaveUp: 0 };
  const wait = async (client) => {
    try {
      await client.run(resource, { waitMs }, () => {});
      came.served += 1;
    } catch (error) {
      came.gaveUp += 1;
      if (!EXPECTED.includes(error.code)) unexpected(error);
    }
  };
  await Promise.all(Array.from({ length: count }, (_, at) => wait(clients[at % HERD_CLIENTS])));
  await Promise.all(clients.map((client) => client.close()));
  tell({ k: "herd", ...came });
}

createInterface(process.stdin).on("line", (line) => {
  const [what, ...rest] = line.split(" ");
  if (what === "herd") void herd(rest[0], Number(rest[1]), Number(rest[2]));
  else inWindow = { what, ms: Number(rest[0]) };
});
process.once("SIGTERM", async () => {
  closing = true;
  await leases.close();
  witness.end(() => process.exit(0));
});
// The program that has started it is gone.
process.on("disconnect", () => process.exit(0));
tell({ k: "ready" });
await Promise.all(resources.map(contend));
