/** A request that an engine refuses for its size, beside others of its batch. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger, systemEnv } from "../../packages/leasehold/src/env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  Batcher,
  type Failed,
} from "../../packages/leasehold/src/lease/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { kubernetes } from "../../packages/leasehold/src/stores/kubernetes/index.js";
import type { StoreSource } from "../../packages/leasehold/src/stores/source.js";
import { describeConsul, startConsul } from "../support/engines/consul-engine.js";
import { describeEtcd, startEtcd } from "../support/engines/etcd-engine.js";
import { startKubernetes } from "../support/engines/kubernetes-engine.js";
import { Opened, requestOf } from "../support/faults/queue-site.js";

const env = { ...systemEnv, logger: silentLogger };
const MEBIBYTE = 2 ** 20;

/** @param sizes of metadata that the engine refuses, in bytes */
function refuses(open: () => Promise<StoreSource>, sizes: readonly number[], said: RegExp): void {
  const opened = new Opened();
  let source: StoreSource;
  beforeAll(async () => {
    source = await open();
  }, 60_000);
  afterAll(() => opened.closeAll());

  it.each(sizes)(
    "refuses it for good and by name, and takes the others: %d bytes",
    async (size) => {
      const { leases } = opened.later(await source.open(env, 20_000));
      const sent: string[][] = [];
      const lane = new Batcher<AcquireRequest, AcquireOutcome>((requests, options) => {
        sent.push(requests.map(({ resource }) => resource));
        return leases.acquire(requests, options);
      }, env.clock);
      const names = ["a", "b", "large", "c", "d"].map((name) => `${size}/${name}`);
      const outcomes = await Promise.all(
        names.map((name) => {
          const metadata = name.endsWith("large") ? "x".repeat(size) : "{}";
          return lane.submit(requestOf(name, { metadata }), 20_000);
        }),
      );
      const { error, ...failed } = outcomes[2] as Failed;
      expect(`${error}`).toMatch(said);
      expect(failed).toEqual({ status: "failed", applied: "no", retryable: false });
      expect(error).toMatchObject({ code: "INVALID_OPTION", path: "the request" });
      const statuses = outcomes.map(({ status }) => status);
      expect(statuses).toEqual(["acquired", "acquired", "failed", "acquired", "acquired"]);
      const alone = sent.filter((some) => some.length === 1 && some[0] === names[2]);
      expect(alone.length).toBeLessThanOrEqual(1);
    },
    60_000,
  );
}

const servers = new Opened();
const later = <T extends { remove(): Promise<unknown> }>(server: T): T => {
  servers.onClose(() => server.remove());
  return server;
};
afterAll(() => servers.closeAll());

describeEtcd("a request that is too large for etcd", () => {
  refuses(
    async () => etcd({ url: later(await startEtcd()).url }),
    [1_600_000, 1_900_000],
    /request is too large.*max-request-bytes.*metadata/,
  );
});

describeConsul("a request that is too large for Consul", () => {
  refuses(
    async () => consul({ url: later(await startConsul()).url }),
    [520 * 1_024, MEBIBYTE],
    /too large.*txn_max_req_len.*metadata/s,
  );
});

describe("a request that is too large for Kubernetes", () => {
  refuses(
    async () => {
      const engine = await startKubernetes();
      servers.onClose(() => engine.close());
      return kubernetes({ url: engine.url });
    },
    [300 * 1_024, 4 * MEBIBYTE],
    /metadata/,
  );
});
