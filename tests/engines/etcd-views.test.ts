/** Views of more leases than etcd reads in one transaction, and of more engine leases than are asked for at once. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseStore, LeaseView } from "../../packages/leasehold/src/lease/index.js";
import { etcd } from "../../packages/leasehold/src/stores/etcd/index.js";
import { describeEtcd, type EtcdServer, startEtcd } from "../support/engines/etcd-engine.js";
import { Opened, requestOf } from "../support/faults/queue-site.js";
import { endAll } from "../support/processes/processes.js";

/** More than two pages of the store's own reads. */
const COUNT = 1_003;
/** So far apart that no delay makes one remaining time look like another. */
const STEP_MS = 1_000_000;
const TTLS = 40;

describeEtcd("views of many leases on etcd", () => {
  let server: EtcdServer;
  const opened = new Opened();
  beforeAll(async () => {
    server = await startEtcd();
  }, 30_000);
  afterEach(() => opened.closeAll());
  afterAll(async () => {
    await server.remove();
    await endAll();
  });

  const openStore = async (): Promise<LeaseStore> =>
    opened.later(await etcd({ url: server.url }).open(systemEnv, 20_000)).leases;
  const short = ({ resource, holder, metadata, ttlMs, remainingMs }: LeaseView) => {
    const steps = Math.ceil(remainingMs / STEP_MS);
    return { resource, holder, metadata, ttlMs, steps };
  };

  it("show each with its own remaining time, on every page, and are all collected", async () => {
    const [holder, stranger] = [await openStore(), await openStore()];
    const requests = Array.from({ length: COUNT }, (_, at) => {
      const ttlMs = (1 + (at % TTLS)) * STEP_MS;
      const name = String(at).padStart(4, "0");
      return requestOf(`r-${name}`, { holder: `h-${at}`, metadata: `m-${at}`, ttlMs });
    });
    const granted = await holder.acquire(requests, { timeoutMs: 60_000 });
    expect(granted.filter(({ status }) => status !== "acquired")).toEqual([]);
    const expected = requests.map(({ resource, holder: name, metadata = null, ttlMs }) => {
      return { resource, holder: name, metadata, ttlMs, steps: ttlMs / STEP_MS };
    });

    const query = { namespace: "default", limit: COUNT };
    const all = await stranger.list(query);
    expect(all.nextCursor).toBeNull();
    expect(all.items.map(short)).toEqual(expected);
    const page = await stranger.list({ ...query, limit: 700 });
    const rest = await stranger.list({ ...query, cursor: page.nextCursor ?? "" });
    expect([...page.items, ...rest.items].map(short)).toEqual(expected);

    const absent = { namespace: "default", resource: "absent" };
    const keys = requests.toReversed().flatMap((one, at) => (at % 5 ? [one] : [absent, one]));
    const views = await stranger.get(keys);
    const reversed = expected.toReversed().flatMap((one, at) => (at % 5 ? [one] : [null, one]));
    expect(views.map((view) => view && short(view))).toEqual(reversed);

    // What is held stays.
    const [kept, ...others] = requests;
    await holder.release(others, { timeoutMs: 60_000 });
    expect(await stranger.collect(0)).toBe(others.length);
    const left = await stranger.list({ namespace: "default" });
    expect(left.items.map(({ resource }) => resource)).toEqual([kept?.resource]);
    // The holder still knows their records, which are gone.
    const again = others.map((one) => requestOf(one.resource));
    const outcomes = await holder.acquire(again, { timeoutMs: 60_000 });
    expect(outcomes.filter(({ status }) => status !== "acquired")).toEqual([]);
  });
});
