/** Callers of `once` that crash and pause: each key is done once, and each caller learns of it. */

import { LeaseholdError } from "leasehold";
import { LeaseClient, type OnceStore, onceOver, sleep } from "leasehold/internal";
import { FenceChecker, fenceFigures } from "../checkers/fence.js";
import { OnceChecker } from "../checkers/once.js";
import type { Process } from "../machine.js";
import { remoteOnce } from "../remote.js";
import type { Running, Simulation } from "../simulation.js";

const NAMESPACE = "default";
const CALLERS = 2;
/** How each key is used. */
interface Use {
  readonly keepTtls?: number;
  readonly maxAttempts?: number;
}
const USES: Readonly<Record<string, Use>> = Object.fromEntries(
  Array.from({ length: 12 }, (_, n): [string, Use] => {
    if (n % 4 === 1) return [`key-${n}`, { maxAttempts: 2 }];
    return n % 4 === 3 ? [`key-${n}`, { keepTtls: 6 }] : [`key-${n}`, {}];
  }),
);
const KEYS = Object.keys(USES);

export function once(sim: Simulation): Running {
  const { world, network, database, ttlMs, driftRatio } = sim;
  const { once: store } = sim.kept;
  const checker = new OnceChecker(world);
  const fences = new Map(KEYS.map((key) => [key, new FenceChecker(world, key)]));
  /** Callers of processes that live, and have keys left. */
  const waiting = new Map<object, Process>();
  let healed = false;
  let works = 0;

  const storeNowMs = () => Math.floor(database.monotonicMs);

  /** Records are counted where they take effect: in the store. */
  const observed: OnceStore = {
    leases: store.leases,
    get: (key) => store.get(key),
    list: (query) => store.list(query),
    async succeed(request) {
      const storeMs = storeNowMs();
      const { key, token, keepMs } = request;
      const [held] = await store.leases.get([{ namespace: NAMESPACE, resource: `once:${key}` }]);
      const isHeld = held?.state === "live" && held.token === token;
      const outcome = await store.succeed(request);
      if (outcome.status === "recorded") {
        const { value, by } = request.value as { value: string; by: string };
        const untilMs = storeMs + (keepMs ?? Number.POSITIVE_INFINITY);
        checker.recorded(
          key,
          { value: JSON.stringify({ value, by }), by, token, untilMs },
          storeMs,
          isHeld,
        );
      } else world.cover(`late record: ${outcome.status}`);
      return outcome;
    },
    async fail(request) {
      const outcome = await store.fail(request);
      if (outcome.status === "recorded" && outcome.state === "failed") checker.failed(request.key);
      return outcome;
    },
    retry: (key) => store.retry(key),
    delete: (key) => store.delete(key),
    collect: () => store.collect(),
  };

  const retryAll = async () => {
    const { items } = await store.list({ namespace: NAMESPACE, states: ["failed"] });
    for (const { key } of items) {
      checker.retried(key);
      world.cover("a failed key was retried");
      await store.retry({ namespace: NAMESPACE, key });
    }
  };

  const call = async (host: Process, client: ReturnType<typeof onceOver>, key: string) => {
    const { clock, random } = host.env;
    const use = USES[key] ?? {};
    const options = {
      ttlMs,
      waitMs: [0, ttlMs, Number.POSITIVE_INFINITY][Math.floor(random.float() * 3)] ?? 0,
      retryDelayMs: random.float() < 0.5 ? 0 : ttlMs / 2,
      ...(use.keepTtls !== undefined && { keepMs: use.keepTtls * ttlMs }),
      ...(use.maxAttempts !== undefined && { maxAttempts: use.maxAttempts }),
    };
    const { value, ...result } = await client.once(key, options, async (lease) => {
      const value = `${host.name}/${++works}`;
      checker.begins(key, lease.token, storeNowMs());
      world.tell(host.name, `does ${key} with token ${lease.token}`);
      const steps = healed ? 1 : 1 + Math.floor(random.float() * 15);
      for (let step = 0; step < steps; step++) {
        await sleep(clock, ttlMs * 0.1, { signal: lease.signal });
        network.send(host.name, "register", () => fences.get(key)?.write(lease.token));
      }
      if (!healed && random.float() < 0.15) throw new Error("the work fails now and then");
      return { value, by: host.name };
    });
    checker.answered(key, { ...result, value: JSON.stringify(value) });
  };

  const caller = async (host: Process, client: ReturnType<typeof onceOver>) => {
    const self = {};
    waiting.set(self, host);
    const { clock, random } = host.env;
    const left = new Set(KEYS);
    while (left.size > 0) {
      const key = [...left][Math.floor(random.float() * left.size)] ?? "";
      try {
        await call(host, client, key);
        left.delete(key);
      } catch (error) {
        if (error instanceof LeaseholdError) world.cover(`once ${error.code} (${error.outcome})`);
      }
      await sleep(clock, ttlMs * random.float());
    }
    waiting.delete(self);
  };

  return {
    start(host, stores) {
      const records = remoteOnce(network, host, database, () => observed, stores.leases);
      const leases = new LeaseClient(
        stores.leases,
        {
          env: host.env,
          namespace: NAMESPACE,
          holder: host.name,
          defaults: { driftRatio },
        },
        { close: undefined },
      );
      const client = onceOver(records, leases, false);
      for (let n = 0; n < CALLERS; n++) void caller(host, client);
    },
    onStep() {},
    revoke() {
      if (world.chance(0.3)) return void retryAll();
      const resource = `once:${KEYS[Math.floor(world.random.float() * KEYS.length)]}`;
      void sim.kept.leases.revoke([{ namespace: NAMESPACE, resource, free: "now" }]);
    },
    onHealed() {
      healed = true;
      // An operator who looks now and then.
      const look = () => void retryAll().then(() => world.after(ttlMs, look));
      look();
    },
    async unsettled() {
      const { items } = await store.list({ namespace: NAMESPACE });
      const alive = [...waiting.values()].filter((host) => host.alive);
      return checker.unsettled(KEYS, items, alive.length);
    },
    figures: () => ({ works, ...fenceFigures(fences.values()) }),
  };
}
