/**
 * What a failover and a backup cost, by name, on real servers: `npm run verify -- chaos --scenario NAME`. Each
 * quotes the sentences of docs/guarantees.md that it holds against what was seen.
 */
import { missingConsul } from "../../../tests/support/engines/consul-engine.js";
import { missingEtcd } from "../../../tests/support/engines/etcd-engine.js";
import { findEngine } from "../../../tests/support/engines/postgres-engine.js";
import { missingRedis } from "../../../tests/support/engines/redis-engine.js";
import { missingClocks } from "../../../tests/support/processes/fake-clock.js";
import {
  type Claims,
  differences,
  GOES_BACK,
  GOES_ON,
  GROWS,
  LOSES,
  LOSES_NOTHING,
  LOSES_TASKS,
} from "./claims.js";
import { consulCluster } from "./consul-cluster.js";
import { snapshotPair } from "./etcd-pair.js";
import { type FailoverOptions, failover, type Seen } from "./failover.js";
import { leaderLoss } from "./leader-loss.js";
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
  play(say: (line: string) => void): Promise<Seen>;
}

const postgres = () =>
  findEngine().then(
    () => null,
    (error: Error) => error.message,
  );
/** Opens what is played on, and closes it. */
const on =
  <T extends { close(): Promise<void> }>(
    open: () => Promise<T>,
    play: (opened: T, say: (line: string) => void) => Promise<Seen>,
  ): Definition["play"] =>
  async (say) => {
    const opened = await open();
    try {
      return await play(opened, say);
    } finally {
      await opened.close();
    }
  };
const onPair = (open: () => Promise<Pair>, options: FailoverOptions) =>
  on(open, (pair, say) => failover(pair, options, say));

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

const CONSUL_LOSES_NOTHING = [
  "nothing that was answered, as long as a majority of the servers keeps its disks.",
  "Consul ends a session no sooner than that",
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
    play: onPair(() => standbyPair({ synchronous: false }), LEASES_AND_TASKS),
  },
  {
    name: "standby-promotion-synchronous",
    describe: "the same with a synchronous standby",
    needs: [postgres],
    promised: ["What the standby has not confirmed is not answered."],
    claims: { ...LOSES_NOTHING, ...GROWS },
    play: onPair(() => standbyPair({ synchronous: true }), { afterCut: "nothing", hasTasks: true }),
  },
  {
    name: "standby-promotion-clock-behind",
    describe: "the standby's clock is an hour behind: tokens go back",
    needs: [postgres, missingClocks],
    promised: POSTGRES_GOES_BACK,
    claims: { ...LOSES, ...GOES_BACK },
    play: onPair(() => standbyPair({ synchronous: false, clock: CLOCK_BEHIND }), LEASES),
  },
  {
    name: "replica-promotion",
    describe: "a replica of Redis is promoted after the primary was killed",
    needs: [missingRedis],
    promised: [
      "what the promoted replica had not received (replication is asynchronous), grants among it",
    ],
    claims: { ...LOSES, ...GROWS },
    play: onPair(() => replicaPair(), LEASES),
  },
  {
    name: "replica-promotion-bounded",
    describe: "the same with min-replicas-to-write 1: the primary soon grants no more",
    needs: [missingRedis],
    promised: [
      "Some seconds after the last message from its replica the primary refuses every grant and renewal.",
    ],
    claims: { ...LOSES, ...GROWS, lostRenewals: "none", lostReleases: "none" },
    play: onPair(() => replicaPair({ "min-replicas-to-write": "1", "min-replicas-max-lag": "1" }), {
      afterCut: "refuses later",
      hasTasks: false,
    }),
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
    play: onPair(sentinelPair, LEASES),
  },
  {
    name: "restored-backup",
    describe: "PostgreSQL comes back on a backup that was made while clients were at work",
    needs: [postgres],
    promised: ["the same, of all that was answered since it was made", ...LOST_WITH_POSTGRES],
    claims: { ...LOSES, ...GROWS, ...LOSES_TASKS },
    play: onPair(() => backupPair(), LEASES_AND_TASKS),
  },
  {
    name: "restored-backup-clock-behind",
    describe: "the same, and its clock is set back by an hour: tokens go back",
    needs: [postgres, missingClocks],
    promised: POSTGRES_GOES_BACK,
    claims: { ...LOSES, ...GOES_BACK },
    play: onPair(() => backupPair(CLOCK_BEHIND), LEASES),
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
    play: onPair(snapshotPair, LEASES),
  },
  {
    name: "consul-failover",
    describe: "the leader of three servers of Consul is killed, and removed from the cluster",
    needs: [missingConsul],
    promised: CONSUL_LOSES_NOTHING,
    claims: GOES_ON,
    play: on(() => consulCluster("killed"), leaderLoss),
  },
  {
    name: "consul-failover-stopped",
    describe: "the leader is stopped for 45 s, removed meanwhile, and comes back",
    needs: [missingConsul],
    promised: CONSUL_LOSES_NOTHING,
    claims: GOES_ON,
    play: on(() => consulCluster("stopped"), leaderLoss),
  },
];

export const SCENARIOS: readonly Scenario[] = DEFINITIONS.map((definition) => {
  const { name, describe, promised, needs, claims, play } = definition;
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
      return resultOf(promised, claims, await play(say));
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
