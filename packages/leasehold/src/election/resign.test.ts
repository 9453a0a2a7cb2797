import { describe, expect, it, vi } from "vitest";
import {
  ELECTOR_TTL_MS,
  electorsWorld,
  untilAborted,
} from "../../../../tests/support/worlds/electors-world.js";
import { silentLogger } from "../env/index.js";
import { LeaseClient } from "../lease/index.js";
import { electorOver } from "./elector.js";

describe("resign", () => {
  it("gives the lead to the next, and stays a candidate", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    const both = [a.lead(), b.lead()];
    await clock.advance(100);
    await b.elector.resign();
    const resigned = a.elector.resign();
    await clock.advance(100);
    await resigned;
    expect([a.elector.state, b.elector.state]).toEqual(["waiting", "leading"]);
    await b.leases.close();
    await clock.advance(100);
    expect(a.elector.state).toBe("leading");
    await a.leases.close();
    await Promise.all(both);
  });

  it("does not wait longer than the grace for work that does not stop", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a", { graceMs: 1_000 }), node("b")];
    let finish = () => {};
    const leading = a.lead(
      () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    );
    await clock.advance(100);
    const leadingB = b.lead();
    const refused = expect(a.elector.resign()).rejects.toMatchObject({ code: "STILL_RUNNING" });
    await clock.advance(1_000);
    await refused;
    expect(b.elector.state).toBe("waiting");
    await clock.advance(ELECTOR_TTL_MS + 100);
    expect(b.elector.state).toBe("leading");
    finish();
    await clock.advance(100);
    // Its candidacy goes on.
    expect(a.elector.state).toBe("waiting");
    for (const { leases } of [b, a]) await leases.close();
    await Promise.all([leading, leadingB]);
  });

  it("announces a handover for no longer than the store's longest lease", async () => {
    const { clock, node, store } = electorsWorld();
    const { ttl } = store.capabilities;
    const brief = {
      ...store,
      capabilities: { ...store.capabilities, ttl: { ...ttl, maxMs: 3_000 } },
    };
    const asked = vi.spyOn(brief, "acquire");
    const env = node("other").leases.env;
    const leases = new LeaseClient(brief, { env, holder: "a" }, { close: undefined });
    const leaving = new AbortController();
    const elector = electorOver(leases, "cluster");
    const leading = elector.lead(untilAborted, leaving);
    await clock.advance(100);
    const resigned = elector.resign({ successor: "absent" });
    await clock.advance(4_000);
    await resigned;
    const requests = asked.mock.calls.flatMap(([batch]) => batch);
    const announced = requests.filter(({ resource }) => resource === "cluster/successor");
    expect(announced.map(({ ttlMs }) => ttlMs)).toEqual([3_000]);
    leaving.abort();
    await clock.advance(100);
    await leading;
    await leases.close();
  });

  it("to a successor resolves when its announcement has been released, not before", async () => {
    const { clock, node, store } = electorsWorld();
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const release = store.release.bind(store);
    store.release = async (requests, ...rest) => {
      if (requests.some(({ resource }) => resource.endsWith("/successor"))) await gate;
      return release(requests, ...rest);
    };
    const [a, b] = [node("a"), node("b")];
    const both = [a.lead(), b.lead()];
    await clock.advance(100);
    let hasResigned = false;
    const resigning = a.elector.resign({ successor: "b" }).then(() => (hasResigned = true));
    await clock.advance(1_000);
    expect([b.elector.state, hasResigned]).toEqual(["leading", false]);
    open();
    await resigning;
    for (const { leases } of [b, a]) await leases.close();
    await Promise.all(both);
  });

  it("lets the named successor lead, even if another candidate waited longer", async () => {
    const warn = vi.fn();
    const { clock, node, store } = electorsWorld({ logger: { ...silentLogger, warn } });
    const { watch } = store;
    const subscriptions: AbortSignal[] = [];
    store.watch = (namespace, options) => {
      subscriptions.push(options.signal);
      return watch(namespace, options);
    };
    const nodes = ["a", "b", "c", "d", "e"].map((name) => node(name));
    const leading: Promise<void>[] = [];
    for (const one of nodes) {
      leading.push(one.lead());
      await clock.advance(10);
    }
    const worked: string[] = [];
    const [a, , , , e] = nodes;
    const resigned = a!.elector.resign({ successor: "e" });
    await clock.advance(2_000);
    await resigned;
    for (const one of nodes) if (one.elector.state === "leading") worked.push(one.leases.holder);
    expect(worked).toEqual(["e"]);
    expect(warn.mock.calls).toEqual([]);
    expect(e!.elector.term?.token).toBeGreaterThan(1);
    for (const { leases } of nodes) await leases.close();
    await Promise.all(leading);
    expect(clock.pendingTimers).toBe(0);
    // Nothing is left at the store.
    expect(subscriptions.filter(({ aborted }) => !aborted)).toEqual([]);
  });

  it.each([
    ["its announcement is released", 0],
    ["its announcement has just expired", 1_011],
  ])("lets another candidate lead when %s, without a poll", async (_, afterMs) => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    const announced = { ttlMs: 1_000, autoRenew: false, metadata: { successor: "c" } };
    const announcement = await a.leases.acquire("cluster/successor", announced);
    const leading = b.lead();
    await clock.settle();
    expect(b.elector.state).toBe("waiting");
    if (afterMs === 0) await announcement.release();
    await clock.advance(afterMs);
    expect(b.elector.state).toBe("leading");
    await b.leases.close();
    await leading;
    await a.leases.close();
  });

  it("ends when the named successor leads, not before", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    const leadingA = a.lead();
    await clock.advance(100);
    let hasEnded = false;
    const resigned = a.elector.resign({ successor: "b" }).then(() => (hasEnded = true));
    await clock.advance(1_000);
    // The term has been over for long, but b has not come yet.
    expect([a.elector.state, hasEnded]).toEqual(["waiting", false]);
    const leadingB = b.lead();
    await clock.advance(1_000);
    expect([b.elector.state, hasEnded]).toEqual(["leading", true]);
    for (const { leases } of [a, b]) await leases.close();
    await Promise.all([resigned, leadingA, leadingB]);
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([
    ["has no metadata", undefined],
    ["has other metadata", { host: "h" }],
  ])("is not disturbed by a lease of its name that %s", async (_, metadata) => {
    const { clock, node } = electorsWorld();
    const { leases, elector, lead, stop } = node("a");
    await leases.acquire("cluster/successor", {
      ttlMs: ELECTOR_TTL_MS,
      ...(metadata && { metadata }),
    });
    const leading = lead();
    await clock.advance(100);
    expect(elector.state).toBe("leading");
    stop.abort();
    await clock.settle();
    await leading;
  });

  it("is not disturbed by a lease of its name whose metadata is no JSON", async () => {
    const { clock, store, node } = electorsWorld();
    const { elector, lead, stop } = node("a");
    const key = { namespace: "default", resource: "cluster/successor" };
    const text = { ...key, leaseId: "0".repeat(48), holder: "tool", ttlMs: 60_000, metadata: "v1" };
    await store.acquire([text]);
    const leading = lead();
    await clock.advance(100);
    expect(elector.state).toBe("leading");
    stop.abort();
    await clock.settle();
    await leading;
  });

  it("lets another lead when the successor does not come, and says so", async () => {
    const warn = vi.fn();
    const { clock, node } = electorsWorld({ logger: { ...silentLogger, warn } });
    const [a, b] = [node("a", { handoverMs: 1_000 }), node("b")];
    const both = [a.lead(), b.lead()];
    await clock.advance(100);
    const resigned = a.elector.resign({ successor: "absent" });
    await clock.advance(500);
    expect([a.elector.state, b.elector.state]).not.toContain("leading");
    await clock.advance(2_000);
    await resigned;
    expect([a.elector.state, b.elector.state]).toContain("leading");
    const fields = { name: "cluster", successor: "absent", handoverMs: 1_000 };
    expect(warn.mock.calls).toEqual([[fields, "the named successor did not take over"]]);
    for (const { leases } of [a, b]) await leases.close();
    await Promise.all(both);
  });

  it("says that the successor did not come if the store does not answer until then", async () => {
    const warn = vi.fn();
    const { clock, node, store } = electorsWorld({ logger: { ...silentLogger, warn } });
    const a = node("a", { handoverMs: 500 });
    const leading = a.lead();
    await clock.advance(100);
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const { get } = store;
    store.get = (keys) => gate.then(() => get(keys));
    const resigned = a.elector.resign({ successor: "absent" });
    await clock.advance(1_000);
    await resigned;
    const fields = { name: "cluster", successor: "absent", handoverMs: 500 };
    expect(warn.mock.calls).toEqual([[fields, "the named successor did not take over"]]);
    open();
    await a.leases.close();
    await leading;
  });
});
