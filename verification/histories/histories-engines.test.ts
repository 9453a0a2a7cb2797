/**
 * A share of `npm run verify -- histories --target redis`, and so on: small ones, with the same faults.
 * @module-tag safety
 */
import { afterAll, describe, it } from "vitest";
import { describeConsul } from "../../tests/support/engines/consul-engine.js";
import { describeEtcd } from "../../tests/support/engines/etcd-engine.js";
import { describeRedis } from "../../tests/support/engines/redis-engine.js";
import { describeZooKeeper } from "../../tests/support/engines/zookeeper-engine.js";
import { endAll } from "../../tests/support/processes/processes.js";
import { makeHistories } from "./campaign.js";
import { type HistoryEngineName, onEngine } from "./engines.js";
import { expectRightHistories, ROUNDS_TIMEOUT_MS } from "./share.js";

afterAll(() => endAll());

interface Share {
  readonly engine: HistoryEngineName;
  readonly describeEngine: (name: string, tests: () => void) => void;
  readonly count: number;
  readonly requests: number;
}

const SHARES: readonly Share[] = [
  { engine: "redis", describeEngine: describeRedis, count: 5, requests: 60 },
  { engine: "etcd", describeEngine: describeEtcd, count: 5, requests: 40 },
  { engine: "zookeeper", describeEngine: describeZooKeeper, count: 5, requests: 40 },
  { engine: "consul", describeEngine: describeConsul, count: 5, requests: 40 },
  { engine: "kubernetes", describeEngine: describe, count: 4, requests: 60 },
];

for (const { engine, describeEngine, count, requests } of SHARES) {
  describeEngine(`histories on ${engine}`, () => {
    it("are right through the fault proxy", { timeout: ROUNDS_TIMEOUT_MS }, () =>
      onEngine(engine, (target) =>
        expectRightHistories((options) => makeHistories(target, options), { count, requests }),
      ),
    );
  });
}
