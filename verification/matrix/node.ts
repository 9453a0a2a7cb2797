/**
 * A node of the matrix, or several in one process if the store is in that process, too. A node reports each
 * right that it gets, as one JSON object a line, and writes once with its token. It reads commands from its
 * input:
 *   join NODE    begins to contend; says `joined`
 *   write        by each right that it has: asks whether it may go on, and writes if so
 *   late NODE    by each right that this node ever had, the first of each resource: writes, whatever
 *                the answer is
 *   freeze NODE  the clocks of this node stand still, its timers with them: what a pause is in one process
 *   thaw NODE    they go on from where they are by now
 */
import { once } from "node:events";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { connect, type Lease, type Leasehold, LeaseLostError, openStores } from "leasehold";
import { stoppable } from "../support/stoppable-clock.js";
import type { Feature } from "./features.js";
import { openRegisters, type Registers, type RegistersPlace } from "./registers.js";

export interface NodeSettings {
  readonly url: string;
  readonly nodes: readonly string[];
  readonly features: readonly Feature[];
  /** Of all names of this run. */
  readonly prefix: string;
  readonly ttlMs: number;
  readonly registers: RegistersPlace;
  /** Where the feature `guard` writes. */
  readonly guarded: RegistersPlace;
}

/** What it says. */
export interface Said {
  readonly said: "joined" | "has" | "over" | "wrote" | "late" | "done";
  readonly node: string;
  readonly feature: Feature;
  readonly resource: string;
  readonly token: number;
  /** checkAlive() right before the write. */
  readonly alive?: boolean;
  /** How the write ended. */
  readonly wrote?: string;
}

type Held = Pick<Lease, "token" | "signal" | "checkAlive">;
interface Right {
  readonly node: string;
  readonly feature: Feature;
  readonly resource: string;
  readonly lease: Held;
  readonly token: number;
}

const settings = JSON.parse(process.argv[2] ?? "") as NodeSettings;
const { prefix, ttlMs } = settings;
// Past all buffers: the process may be stopped at any time.
const say = (said: Partial<Said>) => writeSync(1, `${JSON.stringify(said)}\n`);
process.on("disconnect", () => process.exit());

const registers = await openRegisters(settings.registers);
const guarded = settings.features.includes("guard")
  ? await openRegisters(settings.guarded)
  : registers;
const isAlone = settings.nodes.length === 1 && !settings.url.startsWith("pglite:");
let stores: ReturnType<typeof openStores> | undefined;

const rights = new Set<Right>();
const ever: Right[] = [];

async function write({ feature, resource, token }: Right): Promise<string> {
  const place: Registers = feature === "guard" ? guarded : registers;
  // An idle connection may have been closed during a pause, or with a server that was killed.
  for (let tries = 1; ; tries += 1) {
    try {
      return await place.write(resource, token);
    } catch (error) {
      if (tries === 3) return `failed: ${(error as Error).message}`;
    }
  }
}

const named = ({ node, feature, resource, token }: Right) => ({ node, feature, resource, token });

/** Has it, until its signal aborts. */
async function has(node: string, feature: Feature, resource: string, lease: Held): Promise<Right> {
  const right = { node, feature, resource, lease, token: lease.token };
  rights.add(right);
  ever.push(right);
  lease.signal.addEventListener("abort", () => {
    rights.delete(right);
    say({ ...named(right), said: "over" });
  });
  const alive = lease.checkAlive();
  say({ ...named(right), said: "has", alive, wrote: await write(right) });
  return right;
}

const over = async (signal: AbortSignal) => {
  if (!signal.aborted) await once(signal, "abort");
};

type Join = (leases: Leasehold, node: string) => unknown;
const acquire = { ttlMs };
const untilLost = (feature: Feature): Join => {
  const resource = `${prefix}-${feature}`;
  return (leases, node) =>
    againWhenLost(() =>
      leases.run(resource, acquire, async (lease) => {
        await has(node, feature, resource, lease);
        await over(lease.signal);
      }),
    );
};
/** A holder that loses the lease contends for it again. */
async function againWhenLost(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    const isLost = (error: unknown) => {
      if (!(error instanceof LeaseLostError)) throw error;
      return true;
    };
    if (!(await work().then(() => false, isLost))) return;
  }
}
const JOINS: Readonly<Record<Feature, Join>> = {
  lease: untilLost("lease"),
  guard: untilLost("guard"),
  elector: (leases, node) => {
    const name = `${prefix}-elector`;
    return leases.elector(name, acquire).lead(async (term) => {
      await has(node, "elector", name, term);
      await over(term.signal);
    });
  },
  singleton: (leases, node) => {
    const name = `${prefix}-singleton`;
    const work = async (lease: Lease) => {
      await has(node, "singleton", name, lease);
      await over(lease.signal);
    };
    return leases.singleton(name, work, { ...acquire, restartDelayMs: 100 }).start();
  },
  shards: (leases, node) => {
    const name = `${prefix}-shards`;
    const shards = leases.shards(name, {
      ...acquire,
      count: 6,
      member: node,
      pollIntervalMs: 200,
      async work(shard, lease) {
        await has(node, "shards", `${name}/${shard}`, lease);
        await over(lease.signal);
      },
    });
    return shards.start();
  },
  // The first one stays as long as it can; the others are done at once, and let the next one.
  waiting: (leases, node) => {
    const resource = `${prefix}-waiting`;
    const work = () =>
      leases.run(resource, acquire, async (lease) => {
        const right = await has(node, "waiting", resource, lease);
        if (node === "a") return over(lease.signal);
        rights.delete(right);
        if (lease.checkAlive()) say({ ...named(right), said: "done" });
      });
    return node === "a" ? work() : againWhenLost(work);
  },
  // Asked for in different orders.
  acquireAll: (leases, node) => {
    const resources = [`${prefix}-all-x`, `${prefix}-all-y`];
    if (node !== "a") resources.reverse();
    return againWhenLost(async () => {
      await using all = await leases.acquireAll(resources, acquire);
      await Promise.all(all.leases.map((each) => has(node, "acquireAll", each.resource, each)));
      await over(all.signal);
      throw all.signal.reason;
    });
  },
};

const clocks = new Map(settings.nodes.map((node) => [node, stoppable()]));
const COMMANDS: Readonly<Record<string, (node: string) => unknown>> = {
  async join(node) {
    if (!isAlone) stores ??= openStores(settings.url);
    const source = (await stores)?.leases ?? settings.url;
    const clock = clocks.get(node);
    if (!clock) throw new Error(`${node} is not here`);
    const options = { holder: node, graceMs: 0, env: { clock } };
    const leases = await connect(source, { ...options, connectTimeoutMs: 60_000 });
    for (const feature of settings.features) {
      const failed = (error: Error) => console.error(`${node}, ${feature}: ${error.stack}`);
      Promise.resolve(JOINS[feature](leases, node)).catch(failed);
    }
    say({ said: "joined", node });
  },
  async write() {
    for (const right of Array.from(rights)) {
      if (!right.lease.checkAlive()) continue;
      say({ ...named(right), said: "wrote", alive: true, wrote: await write(right) });
    }
  },
  async late(node) {
    const first = new Map<string, Right>();
    for (const right of ever.filter((each) => each.node === node)) {
      if (!first.has(right.resource)) first.set(right.resource, right);
    }
    for (const right of first.values()) {
      const alive = right.lease.checkAlive();
      say({ ...named(right), said: "late", alive, wrote: await write(right) });
    }
  },
  freeze: (node) => clocks.get(node)?.freeze(),
  thaw: (node) => clocks.get(node)?.thaw(),
};
createInterface(process.stdin).on("line", async (line) => {
  const [command = "", node = ""] = line.split(" ");
  await COMMANDS[command]?.(node);
});
