import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { ELECTOR_TTL_MS, electorsWorld } from "../../../../tests/support/worlds/electors-world.js";
import { LeaseClient, StoreUnavailableError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { type LeaderChange, observeLeader } from "./observer.js";

it("tells nothing of what a replica answers late: the leader of before does not come back", async () => {
  const env = manualEnv();
  const { clock } = env;
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env, holder: "a" }, { close: undefined });
  const read = store.get.bind(store);
  const stop = new AbortController();
  const seen: (number | null)[] = [];
  const watching = (async () => {
    for await (const { token } of observeLeader(leases, "n", stop.signal)) seen.push(token);
  })();
  const first = await leases.acquire("n");
  await clock.advance(2_000);
  const late = await read([{ namespace: "default", resource: "n" }]);
  await first.release();
  const second = await leases.acquire("n");
  await clock.advance(2_000);
  store.get = () => Promise.resolve(late);
  await clock.advance(60_000);
  stop.abort();
  await clock.settle();
  await watching;
  expect(seen).toContain(second.token);
  const tokens = seen.map((token) => token ?? 0);
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
  await second.release();
});

describe("observe", () => {
  it("tells of each leader, and when there is none; tokens only grow", async () => {
    const { clock, node, store } = electorsWorld();
    const [a, b, c] = [node("a"), node("b"), node("c")];
    const seen: LeaderChange[] = [];
    const watching = (async () => {
      for await (const change of c.elector.observe({ signal: c.stop.signal })) seen.push(change);
    })();
    await clock.advance(10);
    const leadingA = a.lead();
    await clock.advance(100);
    store.faults.renew = "refuse";
    await clock.advance(ELECTOR_TTL_MS + 100);
    store.faults.renew = "ok";
    a.stop.abort();
    await clock.advance(100);
    await leadingA;
    const leadingB = b.lead();
    await clock.advance(100);
    b.stop.abort();
    await clock.advance(100);
    await leadingB;
    c.stop.abort();
    await clock.settle();
    await watching;
    expect(seen[0]).toEqual({ leader: null, token: null, self: false, unavailable: false });
    expect(seen.some(({ leader }) => leader === "a")).toBe(true);
    expect(seen.at(-2)).toMatchObject({ leader: "b", self: false });
    expect(seen.at(-1)).toMatchObject({ leader: null });
    const tokens = seen.map(({ token }) => token ?? 0);
    expect(tokens).toEqual([...tokens].sort((x, y) => x - y));
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([true, false])(
    "says that the leader is unknown once its lease is over; the store hangs: %s",
    async (hangs) => {
      const { clock, node, store } = electorsWorld();
      const [a, b] = [node("a"), node("b")];
      const seen: LeaderChange[] = [];
      const leading = a.lead();
      await clock.advance(100);
      const watching = (async () => {
        for await (const change of b.elector.observe({ signal: b.stop.signal })) seen.push(change);
      })();
      await clock.advance(100);
      const { get } = store;
      const down = new StoreUnavailableError("down", { outcome: "none" });
      let answer = () => {};
      const hung = new Promise<never>((_, reject) => {
        answer = () => reject(down);
      });
      store.get = () => (hangs ? hung : Promise.reject(down));
      store.faults.renew = "refuse";
      await clock.advance(ELECTOR_TTL_MS / 2);
      expect(seen).toMatchObject([{ leader: "a", unavailable: false }]);
      await clock.advance(60_000);
      const token = seen[0]?.token;
      expect(seen.slice(1)).toEqual([{ leader: null, token, self: false, unavailable: true }]);
      store.get = get;
      answer();
      hung.catch(() => {});
      a.stop.abort();
      b.stop.abort();
      await clock.advance(100);
      await Promise.all([leading, watching]);
    },
  );

  it("says who leads, and that there is no leader, when the store answers again", async () => {
    const { clock, node, store } = electorsWorld();
    const { elector, stop } = node("a");
    const { get } = store;
    const changes = elector.observe({ signal: stop.signal })[Symbol.asyncIterator]();
    expect(await changes.next()).toMatchObject({ value: { leader: null, unavailable: false } });
    store.get = () => Promise.reject(new StoreUnavailableError("down", { outcome: "none" }));
    const lost = changes.next();
    await clock.advance(5_000);
    expect(await lost).toMatchObject({ value: { leader: null, unavailable: true } });
    store.get = get;
    const back = changes.next();
    await clock.advance(5_000);
    expect(await back).toMatchObject({ value: { leader: null, unavailable: false } });
    stop.abort();
    expect(await changes.next()).toMatchObject({ done: true });
  });

  it("waits for a store that does not answer", async () => {
    const { clock, node, store } = electorsWorld();
    const { elector, stop } = node("a");
    const { get } = store;
    store.get = () => Promise.reject(new StoreUnavailableError("down", { outcome: "none" }));
    const changes = elector.observe({ signal: stop.signal })[Symbol.asyncIterator]();
    const first = changes.next();
    await clock.advance(5_000);
    expect(await first).toMatchObject({ value: { leader: null, unavailable: true } });
    const second = changes.next();
    store.get = get;
    await clock.advance(2_000);
    expect(await second).toMatchObject({ value: { leader: null, unavailable: false } });
    stop.abort();
    expect(await changes.next()).toMatchObject({ done: true });
  });
});
