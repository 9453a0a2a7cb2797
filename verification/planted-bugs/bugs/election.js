/** Leaders, singletons and shards. */
import { simulated, unit } from "../checks.js";

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
    check: unit("packages/leasehold/src/election/elector.test.ts", "refuses a second campaign"),
  },
  {
    name: "work-begins-when-the-term-is-over",
    what: "A term that is lost before its work begins starts the work all the same.",
    file: ELECTOR,
    find: "if (signal.aborted || lease.signal.aborted || !lease.checkAlive()) return;",
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
    check: unit("packages/leasehold/src/election/resign.test.ts"),
  },
  {
    name: "leaders-own-writes-not-waited-for",
    what: "The term is released while a write of runIfLeader is under way.",
    file: ELECTOR,
    find: "await Promise.allSettled(this.#running);",
    by: "",
    check: unit(
      "packages/leasehold/src/election/elector.test.ts",
      "delay the release of the term until they end",
    ),
  },
  {
    name: "leader-without-a-look-at-the-clock",
    what: "A node that slept past its term says that it leads until a timer has run.",
    file: ELECTOR,
    find: 'this.#state === "leading" && lease.checkAlive() ? lease : undefined;',
    by: 'this.#state === "leading" && lease.isHeld ? lease : undefined;',
    check: unit("packages/leasehold/src/election/elector.test.ts", "notice a suspended machine"),
  },
  {
    name: "observer-goes-back-in-time",
    what: "A late answer of a replica shows a leader of before as the leader.",
    file: "packages/leasehold/src/election/observer.ts",
    find: "const isOld = (change.token ?? 0) < (last?.token ?? 0);",
    by: "const isOld = (change.token ?? 0) < 0;",
    check: unit("packages/leasehold/src/election/observer.test.ts"),
  },
  {
    name: "stale-leader-does-not-step-down",
    what: "A leader whose token a guard has refused goes on leading.",
    file: ELECTOR,
    find: 'if (options.leaderWrite && error instanceof StaleTokenError) lease.lose("taken");',
    by: "",
    check: unit(
      "packages/leasehold/src/election/elector.test.ts",
      "step down when a guard has seen a newer leader",
    ),
  },
  {
    name: "leading-gauge-not-lowered-on-throw",
    what: "Work that throws is counted as leading for ever.",
    file: "packages/leasehold/src/election/drain.ts",
    find: '      await work();\n    } finally {\n      telemetry?.change("leasehold.election.leading", term, -1);\n',
    by: '      await work();\n      telemetry?.change("leasehold.election.leading", term, -1);\n    } finally {\n',
    check: unit(
      "packages/leasehold/src/election/observed.test.ts",
      "counts no leader after work that throws",
    ),
  },
];

export const SINGLETONS = [
  {
    name: "client-closes-under-the-work",
    what: "A client that closes releases the lease under work that has not stopped yet.",
    file: DRAIN,
    find: "lease.isWorkedUnder = true;",
    by: "lease.isWorkedUnder = false;",
    check: unit(
      "packages/leasehold/src/election/singleton.test.ts",
      "keeps the lease from a client that closes before the work has stopped",
    ),
  },
  {
    name: "renewed-under-work-that-hangs",
    what: "Work that does not stop keeps its lease for ever.",
    file: DRAIN,
    find: "    lease.letExpire();\n",
    by: "",
    check: unit(
      "packages/leasehold/src/election/singleton.test.ts",
      "does not release under work that does not stop",
    ),
  },
  {
    name: "singleton-ends-with-its-first-loss",
    what: "A node that has lost the lease once never contends again.",
    file: "packages/leasehold/src/election/singleton.ts",
    find: "error === this.#lease?.lostError) continue;",
    by: "error === this.#lease?.lostError) return;",
    check: simulated("singletons"),
  },
  {
    name: "singleton-starts-beside-the-old-work",
    what: "When the lease is lost, the work is started again beside the old work, which has not ended.",
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
    check: unit(
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
    check: unit(
      "packages/leasehold/src/election/shards.test.ts",
      "gives the shards of a dead member to others",
    ),
  },
  {
    name: "lost-member-works-on",
    what: "A member that has lost its own lease goes on with its shards.",
    file: SHARDS,
    find: "      unlisten();\n      this.#adopt([]);",
    by: "      unlisten();",
    check: unit("packages/leasehold/src/election/shards.test.ts"),
  },
  {
    name: "shard-taken-up-while-it-drains",
    what: "A member that gets a shard back begins anew beside its own work on it, which still drains.",
    file: SHARDS,
    find: "if (!isOwn(shard) || this.#working.has(shard) || this.#leaving.has(shard)) continue;",
    by: "if (!isOwn(shard) || this.#working.has(shard)) continue;",
    check: unit("packages/leasehold/src/election/shards.test.ts", "and not itself before it has"),
  },
  {
    name: "every-shard-moves-when-one-joins",
    what: "Shards are given out by number modulo members: nearly all of them move at each change.",
    file: "packages/leasehold/src/election/allocation.ts",
    find: "if (own) own.push(shard);",
    by: "if (own && own.length < 0) own.push(shard);",
    check: unit("packages/leasehold/src/election/allocation.test.ts"),
  },
];
