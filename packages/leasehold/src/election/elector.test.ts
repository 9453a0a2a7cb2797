import { describe, expect, it } from "vitest";
import {
  ELECTOR_TTL_MS,
  type ElectorNode,
  electorsWorld,
  untilAborted,
} from "../../../../tests/support/worlds/electors-world.js";
import { StaleTokenError } from "../lease/index.js";
import { electorOver, type LeaderWork, type Term } from "./elector.js";

describe("lead", () => {
  it("has one leader, and the next when that one stops", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    const terms: [string, number][] = [];
    const noting =
      (name: string): LeaderWork =>
      async (term) => {
        terms.push([name, term.token]);
        await untilAborted(term);
      };
    const [leadingA, leadingB] = [a.lead(noting("a")), b.lead(noting("b"))];
    await clock.advance(100);
    expect([a.elector.state, b.elector.state]).toEqual(["leading", "waiting"]);
    expect(a.elector.term).toMatchObject({ holder: "a", token: 1 });
    expect(b.elector.term).toBeUndefined();
    a.stop.abort();
    await clock.advance(100);
    await leadingA;
    expect([a.elector.state, b.elector.state]).toEqual(["idle", "leading"]);
    b.stop.abort();
    await clock.settle();
    await leadingB;
    expect(terms).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("does not wait out, in a cold start, what the store can tell is over", async () => {
    const { clock, node } = electorsWorld();
    const before = node("before");
    await before.leases.acquire("cluster", { ttlMs: 60_000, autoRenew: false });
    await clock.advance(60_000);
    const a = node("a", { ttlMs: 60_000 });
    const leadingA = a.lead();
    await clock.advance(50);
    expect(a.elector.term?.token).toBe(2);
    a.stop.abort();
    await clock.advance(50);
    await leadingA;
    const b = node("b", { ttlMs: 60_000 });
    const leadingB = b.lead();
    await clock.advance(50);
    expect(b.elector.term?.token).toBe(3);
    b.stop.abort();
    await clock.advance(50);
    await leadingB;
  });

  it("has the times of client-go, if they are asked for", async () => {
    const { clock, node, store } = electorsWorld();
    // As docs/coordination.md has them.
    const times = { ttlMs: 15_000, marginMs: 4_850, renewIntervalMs: 2_000 };
    const { elector, stop, lead } = node("a", times);
    const leading = lead();
    await clock.settle();
    expect(elector.term?.remainingMs()).toBe(10_000);
    await clock.advance(2_200);
    expect(store.calls.renew).toBe(1);
    expect(() => node("b", { ...times, renewIntervalMs: 9_100 })).toThrow(/renewIntervalMs/);
    stop.abort();
    await clock.settle();
    await leading;
  });

  it("goes on after a loss, once the work of the lost term has ended", async () => {
    const { clock, node, store } = electorsWorld();
    const { elector, stop, lead } = node("a");
    let [running, terms] = [0, 0];
    let drain = () => {};
    const leading = lead(async (term) => {
      expect(running).toBe(0);
      [running, terms] = [running + 1, terms + 1];
      await untilAborted(term);
      await new Promise<void>((resolve) => {
        drain = resolve;
      });
      running -= 1;
    });
    await clock.advance(100);
    store.faults.renew = "refuse";
    await clock.advance(2 * ELECTOR_TTL_MS);
    store.faults.renew = "ok";
    expect([elector.state, running, terms]).toEqual(["stopping", 1, 1]);
    expect(elector.term).toBeUndefined();
    drain();
    await clock.advance(ELECTOR_TTL_MS);
    expect([elector.state, running, terms]).toEqual(["leading", 1, 2]);
    stop.abort();
    await clock.settle();
    drain();
    await leading;
    expect(running).toBe(0);
  });

  it("campaigns again after a pause when the work returns", async () => {
    const { clock, node } = electorsWorld();
    const { stop, lead } = node("a", { retryDelayMs: 10_000 });
    const starts: number[] = [];
    const leading = lead(() => void starts.push(clock.monotonic()));
    await clock.advance(60_000);
    expect(starts.length).toBeGreaterThan(3);
    for (const [at, start] of starts.slice(1).entries()) {
      expect(start - (starts[at] ?? 0)).toBeGreaterThan(7_900);
    }
    stop.abort();
    await leading;
  });

  it("ends with what the work throws, and gives the lease back", async () => {
    const { clock, node } = electorsWorld();
    const { elector, leases, lead } = node("a");
    const failed = expect(lead(() => Promise.reject(new Error("broken")))).rejects.toThrow(
      "broken",
    );
    await clock.settle();
    await failed;
    expect(elector.state).toBe("idle");
    expect(await leases.get("cluster")).toMatchObject({ state: "released" });
  });

  it("is not kept waiting by work that does not stop, nor is its lease released under that", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    let finish = () => {};
    const stubborn: LeaderWork = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    const refused = expect(a.lead(stubborn)).rejects.toMatchObject({ code: "STILL_RUNNING" });
    await clock.advance(100);
    const leadingB = b.lead();
    a.stop.abort();
    await clock.advance(5_000);
    await refused;
    expect([a.elector.state, b.elector.state]).toEqual(["stopping", "waiting"]);
    await expect(a.lead()).rejects.toMatchObject({ code: "INVALID_OPTION", path: "lead" });
    await clock.advance(ELECTOR_TTL_MS + 100);
    expect([a.elector.state, b.elector.state]).toEqual(["stopping", "leading"]);
    finish();
    await clock.settle();
    expect(a.elector.state).toBe("idle");
    b.stop.abort();
    await clock.settle();
    await leadingB;
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([
    ["its signal", ({ stop }: ElectorNode) => stop.abort()],
    ["its client's end", ({ leases }: ElectorNode) => void leases.close()],
  ])("stands on while the work of a lost term does not stop, until %s", async (_, leave) => {
    const { clock, node, store } = electorsWorld();
    const a = node("a", { graceMs: 1_000 });
    const { elector, lead } = a;
    let finish = () => {};
    const leading = lead(
      () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    );
    let settled = false;
    void leading.catch(() => {}).then(() => (settled = true));
    await clock.advance(100);
    store.faults.renew = "refuse";
    await clock.advance(ELECTOR_TTL_MS + 60_000);
    store.faults.renew = "ok";
    expect([elector.state, settled]).toEqual(["stopping", false]);
    leave(a);
    await clock.advance(10_000);
    await expect(leading).rejects.toMatchObject({ code: "STILL_RUNNING", graceMs: 1_000 });
    finish();
    await clock.settle();
    expect(elector.state).toBe("idle");
    expect(clock.pendingTimers).toBe(0);
  });

  it("ends with its client", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    const both = [a.lead(), b.lead()];
    await clock.advance(100);
    await Promise.all([a.leases.close(), b.leases.close()]);
    await Promise.all(both);
    await a.lead();
    expect(clock.pendingTimers).toBe(0);
  });

  it("refuses a second campaign, and options that do not go together", async () => {
    const { clock, node } = electorsWorld();
    const { leases, stop, lead } = node("a");
    const leading = lead();
    await expect(lead()).rejects.toMatchObject({ code: "INVALID_OPTION", path: "lead" });
    for (const [name, options, path] of [
      ["", {}, "name"],
      ["x".repeat(250), {}, "name"],
      ["x", { ttlMs: 1_000, renewIntervalMs: 2_000 }, "renewIntervalMs"],
      ["x", { retryDelayMs: -1 }, "retryDelayMs"],
      ["x", { handoverMs: 10 }, "handoverMs"],
      ["x", { graceMs: -1 }, "graceMs"],
    ] as const) {
      expect(() => electorOver(leases, name, options)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path }),
      );
    }
    stop.abort();
    await clock.settle();
    await leading;
  });
});

describe("runIfLeader", () => {
  it("run on the leader, with its signal and token, and nowhere else", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    const both = [a.lead(), b.lead()];
    await clock.advance(100);
    const seen = await a.elector.runIfLeader((signal, token) => [signal.aborted, token]);
    expect(seen).toEqual([false, 1]);
    await expect(b.elector.runIfLeader(() => 1)).rejects.toMatchObject({ code: "NOT_LEADER" });
    await expect(b.elector.runIfLeader(() => 1, { leaderWrite: true })).rejects.toMatchObject({
      code: "NOT_LEADER",
    });
    a.stop.abort();
    b.stop.abort();
    await clock.settle();
    await Promise.all(both);
  });

  it("notice a suspended machine before any timer does", async () => {
    const { clock, node } = electorsWorld();
    const { elector, stop, lead } = node("a");
    const leading = lead();
    await clock.advance(100);
    clock.jumpWall(ELECTOR_TTL_MS);
    await expect(elector.runIfLeader(() => 1)).rejects.toMatchObject({ code: "NOT_LEADER" });
    stop.abort();
    await clock.settle();
    await leading;
  });

  it.each([
    ["set back, then suspended", [-3_600_000, ELECTOR_TTL_MS]],
    ["suspended, then set back", [ELECTOR_TTL_MS, -3_600_000]],
    ["set forward twice", [ELECTOR_TTL_MS / 2, ELECTOR_TTL_MS / 2]],
  ])("are refused on a leader whose machine was %s", async (_, jumps) => {
    const { clock, store, node } = electorsWorld();
    const { elector, stop, lead } = node("a");
    const leading = lead();
    await clock.advance(100);
    // A renewal would be refused, if it were answered.
    store.faults.renew = "hang";
    for (const ms of jumps) {
      await elector.runIfLeader(() => 1).catch(() => {});
      clock.jumpWall(ms);
    }
    await expect(elector.runIfLeader(() => 1)).rejects.toMatchObject({ code: "NOT_LEADER" });
    stop.abort();
    await clock.settle();
    await leading;
  });

  it("delay the release of the term until they end, and report its loss", async () => {
    const { clock, node } = electorsWorld();
    const { elector, leases, stop, lead } = node("a");
    const leading = lead();
    await clock.advance(100);
    let finish = () => {};
    let reason: unknown;
    const work = elector.runIfLeader(
      (signal) =>
        new Promise<string>((resolve) => {
          signal.addEventListener("abort", () => (reason = signal.reason));
          finish = () => resolve("done");
        }),
    );
    stop.abort(new Error("shut down"));
    await clock.advance(100);
    expect(reason).toMatchObject({ message: "shut down" });
    expect(await leases.get("cluster")).toMatchObject({ state: "live" });
    finish();
    expect(await work).toBe("done");
    await clock.settle();
    await leading;
    expect(await leases.get("cluster")).toMatchObject({ state: "released" });
  });

  it("are interrupted when the work of the term returns, so that the term ends", async () => {
    const { clock, node } = electorsWorld();
    const [a, b] = [node("a"), node("b")];
    let finish = () => {};
    const leading = a.lead(() => new Promise<void>((resolve) => (finish = resolve)));
    await clock.advance(100);
    const waiting = a.elector.runIfLeader(
      (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(1))),
    );
    const next = b.lead();
    finish();
    await clock.settle();
    expect(await waiting).toBe(1);
    await clock.advance(ELECTOR_TTL_MS);
    expect([a.elector.state, b.elector.state]).toEqual(["waiting", "leading"]);
    a.stop.abort();
    b.stop.abort();
    await clock.settle();
    await Promise.all([leading, next]);
  });

  it("reject with LEASE_LOST what ran while the term ended", async () => {
    const { clock, node, store } = electorsWorld();
    const { elector, stop, lead } = node("a");
    const leading = lead();
    await clock.advance(100);
    store.faults.renew = "refuse";
    const work = elector.runIfLeader(
      (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(1))),
    );
    const lost = expect(work).rejects.toMatchObject({ code: "LEASE_LOST" });
    await clock.advance(ELECTOR_TTL_MS);
    await lost;
    stop.abort();
    await clock.settle();
    await leading;
  });

  it("reject with LEASE_LOST what ran while the machine was suspended, before any timer does", async () => {
    const { clock, node } = electorsWorld();
    const { elector, stop, lead } = node("a");
    const leading = lead();
    await clock.advance(100);
    let isAborted = false;
    const work = elector.runIfLeader((signal) => {
      clock.jumpWall(ELECTOR_TTL_MS);
      isAborted = signal.aborted;
      return "written without a right to";
    });
    await expect(work).rejects.toMatchObject({ code: "LEASE_LOST", reason: "expired" });
    expect(isAborted).toBe(false);
    stop.abort();
    await clock.settle();
    await leading;
  });

  it("step down when a guard has seen a newer leader", async () => {
    const { clock, node } = electorsWorld();
    const { elector, stop, lead } = node("a");
    const terms: Term[] = [];
    const leading = lead(async (term) => {
      terms.push(term);
      await untilAborted(term);
    });
    await clock.advance(100);
    const refused = (_: AbortSignal, token: number) => {
      throw new StaleTokenError("table", token, token + 1);
    };
    const stale = elector.runIfLeader(refused, { leaderWrite: true });
    await expect(stale).rejects.toMatchObject({ code: "LEASE_LOST", reason: "taken" });
    expect(terms[0]?.checkAlive()).toBe(false);
    stop.abort();
    await clock.settle();
    await leading;
  });
});
