/** Leaders, singletons and shards. */
import { simulated, tested } from "../checks.js";

const ELECTOR = "packages/leasehold/src/election/elector.ts";
const DRAIN = "packages/leasehold/src/election/drain.ts";
const SHARDS = "packages/leasehold/src/election/shards.ts";

export const ELECTOR_BUGS = [
  {
    name: "elected-work-starts-twice",
    what: "lead() is called again while it is under way, and the work runs twice on one node.",
    file: ELECTOR,
    find: 'if (this.#state !== "idle") {',
    by: 'if (this.#state === "stopping") {',
    check: tested("packages/leasehold/src/election/elector.test.ts", "refuses a second campaign"),
  },
  {
    name: "work-begins-when-the-term-is-over",
    what: "Work starts although its term was lost before.",
    file: ELECTOR,
    find: "if (signal.aborted || !lease.checkAlive()) return;",
    by: "",
    check: simulated("elections"),
  },
  {
    name: "resigned-before-the-work-has-ended",
    what: "The term is released when the work is asked to stop, not when it has stopped.",
    file: DRAIN,
    find: "      await work();\n",
    by: '      const stop = new Promise<void>((resolve) => lease.signal.addEventListener("abort", () => resolve()));\n      await Promise.race([work(), stop]);\n',
    check: simulated("elections", 16),
  },
  {
    name: "resign-does-not-wait",
    what: "resign() resolves while the work still runs.",
    file: ELECTOR,
    find: "await this.#drain.until(over);",
    by: "void this.#drain.until(over);",
    check: tested("packages/leasehold/src/election/resign.test.ts"),
  },
  {
    name: "leaders-own-writes-not-waited-for",
    what: "The term is released while a write of runIfLeader is under way.",
    file: ELECTOR,
    find: "await Promise.allSettled(this.#running);",
    by: "",
    check: tested(
      "packages/leasehold/src/election/elector.test.ts",
      "delay the release of the term until they end",
    ),
  },
  {
    name: "leader-without-a-look-at-the-clock",
    what: "A node that slept past the end of its term claims to lead until a timer has fired.",
    file: ELECTOR,
    find: 'this.#state === "leading" && lease.checkAlive() ? lease : undefined;',
    by: 'this.#state === "leading" && lease.isHeld ? lease : undefined;',
    check: tested("packages/leasehold/src/election/elector.test.ts", "notice a suspended machine"),
  },
  {
    name: "observer-goes-back-in-time",
    what: "A late answer of a replica shows an earlier leader as the current one.",
    file: "packages/leasehold/src/election/observer.ts",
    find: "const isOld = (change.token ?? 0) < (last?.token ?? 0);",
    by: "const isOld = (change.token ?? 0) < 0;",
    check: tested("packages/leasehold/src/election/observer.test.ts"),
  },
  {
    name: "stale-leader-does-not-step-down",
    what: "A leader whose token a guard has refused continues to lead.",
    file: ELECTOR,
    find: 'if (options.leaderWrite && error instanceof StaleTokenError) lease.lose("taken");',
    by: "",
    check: tested(
      "packages/leasehold/src/election/elector.test.ts",
      "step down when a guard has seen a newer leader",
    ),
  },
  {
    name: "leading-gauge-not-lowered-on-throw",
    what: "Work that has thrown an error counts as leading for ever.",
    file: "packages/leasehold/src/election/drain.ts",
    find: '      await work();\n    } finally {\n      telemetry?.change("leasehold.election.leading", term, -1);\n',
    by: '      await work();\n      telemetry?.change("leasehold.election.leading", term, -1);\n    } finally {\n',
    check: tested(
      "packages/leasehold/src/election/observed.test.ts",
      "counts no leader after work that throws",
    ),
  },
];

export const SINGLETONS = [
  {
    name: "client-closes-under-the-work",
    what: "A client that closes releases the lease of work that has not stopped yet.",
    file: "packages/leasehold/src/lease/client.ts",
    find: "lease.isWorkedUnder = true;",
    by: "lease.isWorkedUnder = false;",
    check: tested(
      "packages/leasehold/src/election/singleton.test.ts",
      "keeps the lease from a client that closes before the work has stopped",
    ),
  },
  {
    name: "renewed-under-work-that-hangs",
    what: "The lease of work that does not stop is renewed for ever.",
    file: DRAIN,
    find: "    lease.letExpire();\n",
    by: "",
    check: tested(
      "packages/leasehold/src/election/singleton.test.ts",
      "does not release under work that does not stop",
    ),
  },
  {
    name: "singleton-ends-with-its-first-loss",
    what: "A node that has lost the lease once never contends again.",
    file: "packages/leasehold/src/election/singleton.ts",
    find: "if (this.#lease?.lostError) continue;",
    by: "if (this.#lease?.lostError) return;",
    check: simulated("singletons"),
  },
  {
    name: "singleton-starts-beside-the-old-work",
    what: "After the loss of the lease, the work starts again beside the old work, which has not ended.",
    file: "packages/leasehold/src/election/singleton.ts",
    find: "await this.#drain.watch(lease, () => this.#work(lease));",
    by: 'const lost = new Promise<void>((resolve) => lease.signal.addEventListener("abort", () => resolve()));\n          await Promise.race([this.#drain.watch(lease, () => this.#work(lease)), lost]);',
    check: simulated("singletons"),
  },
];

export const SHARDS_BUGS = [
  {
    name: "shard-released-before-its-work-ended",
    what: "A shard is handed over when its work is asked to stop, not when it has stopped.",
    file: SHARDS,
    find: "const work = (lease: Lease) => this.#work(shard, lease);",
    by: 'const work = (lease: Lease) => {\n        const lost = new Promise<void>((resolve) => lease.signal.addEventListener("abort", () => resolve()));\n        return Promise.race([this.#work(shard, lease), lost]);\n      };',
    check: tested(
      "packages/leasehold/src/election/shards.test.ts",
      "waits for the drain before a shard is handed over",
    ),
  },
  {
    name: "dead-members-keep-their-shards",
    what: "The coordinator counts members whose lease has expired.",
    file: SHARDS,
    find: 'const query = { prefix, states: ["live"] as const, limit: 1_000 };',
    by: 'const query = { prefix, states: ["live", "expired"] as const, limit: 1_000 };',
    check: tested(
      "packages/leasehold/src/election/shards.test.ts",
      "gives the shards of a dead member to others",
    ),
  },
  {
    name: "lost-member-works-on",
    what: "A member that has lost its own lease continues to work on its shards.",
    file: SHARDS,
    find: "      unlisten();\n      this.#adopt([]);",
    by: "      unlisten();",
    check: tested("packages/leasehold/src/election/shards.test.ts"),
  },
  {
    name: "shard-taken-up-while-it-drains",
    what: "A member that gets a shard back starts its work while its earlier work on the shard still drains.",
    file: SHARDS,
    find: "if (!isOwn(shard) || this.#working.has(shard) || this.#leaving.has(shard)) continue;",
    by: "if (!isOwn(shard) || this.#working.has(shard)) continue;",
    check: tested("packages/leasehold/src/election/shards.test.ts", "and not itself before it has"),
  },
  {
    name: "every-shard-moves-when-one-joins",
    what: "Shards are assigned by number modulo members, so nearly all of them move at each change.",
    file: "packages/leasehold/src/election/allocation.ts",
    find: "if (own) own.push(shard);",
    by: "if (own && own.length < 0) own.push(shard);",
    check: tested("packages/leasehold/src/election/allocation.test.ts"),
  },
];
