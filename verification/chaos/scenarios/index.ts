/**
 * What a failover and a backup cost, by name, on real servers: `npm run chaos -- --scenario NAME`. Each
 * quotes the sentences of docs/guarantees.md that it holds against what was seen.
 */
import { missingEtcd } from "../../../tests/support/etcd-engine.js";
import { missingClocks } from "../../../tests/support/fake-clock.js";
import { findEngine } from "../../../tests/support/postgres-engine.js";
import { missingRedis } from "../../../tests/support/redis-engine.js";
import {
  type Claims,
  differences,
  GOES_BACK,
  GROWS,
  LOSES,
  LOSES_NOTHING,
  LOSES_TASKS,
} from "./claims.js";
import { snapshotPair } from "./etcd-pair.js";
import { type FailoverOptions, failover, type Seen } from "./failover.js";
import type { Pair } from "./pair.js";
import { backupPair, standbyPair } from "./postgres-pairs.js";
import { replicaPair, sentinelPair } from "./redis-pair.js";

export interface Scenario {
  readonly name: string;
  /** What happens, in a line. */
  readonly describe: string;
  /** Sentences of docs/guarantees.md. */
  readonly promised: readonly string[];
  /** Why it cannot be run here, or null. */
  missing(): Promise<string | null>;
  /** @param say a line about what goes on */
  run(say: (line: string) => void): Promise<Result>;
}

export interface Result {
  /** Sentences of docs/guarantees.md. */
  readonly promised: readonly string[];
  /** What was seen and is not as promised. All is well when there is nothing. */
  readonly differs: readonly string[];
  readonly seen: Seen;
  readonly tokensGrow: boolean;
  /** Writes of an older holder that the fence took after a newer one's: none where tokens grow. */
  readonly fencedViolations: number;
  readonly unfencedViolations: number;
  readonly lostGrants: number;
  readonly lostTasks: number;
}

interface Definition extends Omit<Scenario, "run" | "missing"> {
  readonly needs: readonly (() => string | null | Promise<string | null>)[];
  readonly promised: readonly string[];
  readonly claims: Claims;
  readonly options: FailoverOptions;
  open(): Promise<Pair>;
}

const postgres = () =>
  findEngine().then(
    () => null,
    (error: Error) => error.message,
  );
const CLOCK_BEHIND = { offsetMs: -3_600_000 };
const LEASES_AND_TASKS: FailoverOptions = { afterCut: "answers", hasTasks: true };
const LEASES: FailoverOptions = { afterCut: "answers", hasTasks: false };

const LOST_WITH_POSTGRES = [
  "A lost grant leaves two who believe, until the first one renews or its trust ends.",
  "A lost release keeps the resource for the ttl.",
  "A lost task can be enqueued again under its id.",
  "A task whose completion is lost is done again.",
  "Tokens grow all the same.",
];
const POSTGRES_GOES_BACK = [
  "Guards refuse the new holders then, and where no newer one has written, they let an old one pass.",
  "Set the clock right before clients come, or raise the floor of the leases' tokens above every one that a guard has seen",
];

const DEFINITIONS: readonly Definition[] = [
  {
    name: "standby-promotion",
    describe: "an asynchronous standby of PostgreSQL is promoted after the primary was killed",
    needs: [postgres],
    promised: [
      "An asynchronous one loses the last moments: what was answered and had not reached the standby.",
      ...LOST_WITH_POSTGRES,
    ],
    claims: { ...LOSES, ...GROWS, ...LOSES_TASKS },
    options: LEASES_AND_TASKS,
    open: () => standbyPair({ synchronous: false }),
  },
  {
    name: "standby-promotion-synchronous",
    describe: "the same with a synchronous standby",
    needs: [postgres],
    promised: ["What the standby has not confirmed is not answered."],
    claims: { ...LOSES_NOTHING, ...GROWS },
    options: { afterCut: "nothing", hasTasks: true },
    open: () => standbyPair({ synchronous: true }),
  },
  {
    name: "standby-promotion-clock-behind",
    describe: "the standby's clock is an hour behind: tokens go back",
    needs: [postgres, missingClocks],
    promised: POSTGRES_GOES_BACK,
    claims: { ...LOSES, ...GOES_BACK },
    options: LEASES,
    open: () => standbyPair({ synchronous: false, clock: CLOCK_BEHIND }),
  },
  {
    name: "replica-promotion",
    describe: "a replica of Redis is promoted after the primary was killed",
    needs: [missingRedis],
    promised: [
      "what the promoted replica had not received (replication is asynchronous), grants among it",
    ],
    claims: { ...LOSES, ...GROWS },
    options: LEASES,
    open: () => replicaPair(),
  },
  {
    name: "replica-promotion-bounded",
    describe: "the same with min-replicas-to-write 1: the primary soon grants no more",
    needs: [missingRedis],
    promised: [
      "Some seconds after the last message from its replica the primary refuses every grant and renewal.",
    ],
    claims: { ...LOSES, ...GROWS, lostRenewals: "none", lostReleases: "none" },
    options: { afterCut: "refuses later", hasTasks: false },
    open: () => replicaPair({ "min-replicas-to-write": "1", "min-replicas-max-lag": "1" }),
  },
  {
    name: "sentinel-failover",
    describe: "Sentinels promote a replica of Redis after the primary was killed",
    needs: [missingRedis],
    promised: [
      "what the promoted replica had not received (replication is asynchronous), grants among it",
      "Sentinels promote a replica as an operator does",
    ],
    claims: { ...LOSES, ...GROWS },
    options: LEASES,
    open: sentinelPair,
  },
  {
    name: "restored-backup",
    describe: "PostgreSQL comes back on a backup that was made while clients were at work",
    needs: [postgres],
    promised: ["the same, of all that was answered since it was made", ...LOST_WITH_POSTGRES],
    claims: { ...LOSES, ...GROWS, ...LOSES_TASKS },
    options: LEASES_AND_TASKS,
    open: () => backupPair(),
  },
  {
    name: "restored-backup-clock-behind",
    describe: "the same, and its clock is set back by an hour: tokens go back",
    needs: [postgres, missingClocks],
    promised: POSTGRES_GOES_BACK,
    claims: { ...LOSES, ...GOES_BACK },
    options: LEASES,
    open: () => backupPair(CLOCK_BEHIND),
  },
  {
    name: "restored-snapshot",
    describe:
      "etcd comes back on a snapshot that was made while clients were at work: tokens go back",
    needs: [missingEtcd],
    promised: [
      "It breaks if a backup is restored, or the resource moves to another cluster: the revision goes back.",
      "Guards refuse the new holders then, and where no newer one has written, they let an old one pass.",
      "write to any key until the revision is above every token that a guard has seen",
    ],
    claims: { ...LOSES, ...GOES_BACK },
    options: LEASES,
    open: snapshotPair,
  },
];

export const SCENARIOS: readonly Scenario[] = DEFINITIONS.map((definition) => {
  const { name, describe, promised, needs, claims, options, open } = definition;
  return {
    name,
    describe,
    promised,
    async missing() {
      for (const need of needs) {
        const missing = await need();
        if (missing !== null) return missing;
      }
      return null;
    },
    async run(say) {
      const pair = await open();
      try {
        const seen = await failover(pair, options, say);
        return resultOf(promised, claims, seen);
      } finally {
        await pair.close();
      }
    },
  };
});

function resultOf(promised: readonly string[], claims: Claims, seen: Seen): Result {
  const { fencedViolations, unfencedViolations, lostGrants, lostTasks } = seen;
  return {
    promised,
    differs: differences(claims, seen),
    seen,
    tokensGrow: seen.smallerTokens === 0,
    fencedViolations,
    unfencedViolations,
    lostGrants,
    lostTasks,
  };
}
