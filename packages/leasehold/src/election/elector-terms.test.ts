/** The edges of a term: how it ends, who leads next, and what its calls refuse. */
import { expect, it } from "vitest";
import {
  ELECTOR_TTL_MS,
  electorsWorld,
  untilAborted,
} from "../../../../tests/support/worlds/electors-world.js";
import { StaleTokenError, StoreMisconfiguredError } from "../lease/index.js";
import type { Elector, Term } from "./elector.js";
import { markOf } from "./leadership.js";

type ElectorsWorld = ReturnType<typeof electorsWorld>;
const CLUSTER = { namespace: "default", resource: "cluster" };

it("is marked as an elector's, beside the metadata of its user", async () => {
  const { clock, node } = electorsWorld();
  const { lead, leases, stop } = node("a", { metadata: { host: "h" } });
  const leading = lead();
  await clock.settle();
  const view = await leases.get("cluster");
  expect(markOf(view!)).toBe("elector");
  expect(JSON.parse(view?.metadata ?? "")).toMatchObject({ host: "h" });
  stop.abort();
  await clock.settle();
  await leading;
});

it("is over for its elector as soon as it is asked to stop, while its work still drains", async () => {
  const { clock, node } = electorsWorld();
  const { elector, lead, stop } = node("a");
  let finish = () => {};
  let term: Term | undefined;
  const leading = lead((own) => {
    term = own;
    return new Promise((resolve) => (finish = resolve));
  });
  expect(elector.term).toBeUndefined();
  await clock.settle();
  expect(elector.term).toBe(term);
  stop.abort();
  await clock.settle();
  expect(elector.state).toBe("stopping");
  expect(term?.remainingMs()).toBeGreaterThan(0);
  expect(elector.term).toBeUndefined();
  finish();
  await leading;
  expect(elector.term).toBeUndefined();
});

it("ends with a reason that says who ended it", async () => {
  const { clock, node } = electorsWorld();
  const { elector, lead, stop } = node("a");
  const terms: Term[] = [];
  const leading = lead(async (term) => {
    terms.push(term);
    // The work of the second term returns by itself.
    if (terms.length === 1) await untilAborted(term);
  });
  await clock.advance(100);
  const resigning = elector.resign();
  await clock.advance(100);
  await resigning;
  await clock.advance(100);
  stop.abort();
  await clock.advance(100);
  await leading;
  expect(terms.map(({ signal }) => signal.reason)).toMatchObject([
    { name: "Resigned", message: "the leader resigned" },
    { name: "Resigned", message: "the term is over" },
  ]);
});

it("is followed at once by another candidate's if the leader names itself", async () => {
  const { clock, node } = electorsWorld();
  const [a, b] = [node("a"), node("b")];
  const both = [a.lead(), b.lead()];
  await clock.advance(100);
  const resigning = a.elector.resign({ successor: "a" });
  await clock.advance(100);
  await resigning;
  expect([a.elector.state, b.elector.state]).toEqual(["waiting", "leading"]);
  for (const { leases } of [b, a]) await leases.close();
  await Promise.all(both);
});

it("is followed by any candidate's 5 s after a named successor has not come", async () => {
  const { clock, node } = electorsWorld();
  const [a, b] = [node("a"), node("b")];
  const both = [a.lead(), b.lead()];
  await clock.advance(100);
  const resigning = a.elector.resign({ successor: "absent" });
  await clock.advance(4_500);
  expect([a.elector.state, b.elector.state]).toEqual(["waiting", "waiting"]);
  await clock.advance(2_000);
  await resigning;
  expect([a.elector.state, b.elector.state]).toContain("leading");
  for (const { leases } of [a, b]) await leases.close();
  await Promise.all(both);
});

it("outlives the errors of calls, unless a leader's write was stale", async () => {
  const { clock, node } = electorsWorld();
  const { elector, lead, stop } = node("a");
  const leading = lead();
  await clock.advance(100);
  const stale = new StaleTokenError("table", 1, 2);
  await expect(elector.runIfLeader(() => Promise.reject(stale))).rejects.toBe(stale);
  const other = new Error("other");
  const failing = elector.runIfLeader(() => Promise.reject(other), { leaderWrite: true });
  await expect(failing).rejects.toBe(other);
  expect(elector.term?.checkAlive()).toBe(true);
  stop.abort();
  await clock.settle();
  await leading;
});

it("refuses calls with wrong arguments by their names", async () => {
  const { node } = electorsWorld();
  const { elector } = node("a");
  const refused = (path: string) => ({ code: "INVALID_OPTION", path });
  await expect(elector.lead("work" as never)).rejects.toMatchObject(refused("work"));
  await expect(elector.lead(async () => {}, { signal: 1 as never })).rejects.toMatchObject(
    refused("signal"),
  );
  await expect(elector.resign({ successor: "" })).rejects.toMatchObject(refused("successor"));
  await expect(elector.resign({ to: "b" } as never)).rejects.toMatchObject(refused("to"));
  await expect(elector.runIfLeader("work" as never)).rejects.toMatchObject(refused("work"));
  const leaderWrite = "yes" as never;
  await expect(elector.runIfLeader(() => {}, { leaderWrite })).rejects.toMatchObject(
    refused("leaderWrite"),
  );
  for (const [options, path] of [
    [undefined, "options"],
    [{}, "signal"],
  ] as const) {
    expect(() => elector.observe(options as never)).toThrow(expect.objectContaining(refused(path)));
  }
});

it("ends the candidacy with what its work throws, though its loss is noticed before it is over", async () => {
  const { clock, node, store } = electorsWorld();
  const { elector, lead } = node("a");
  const bug = new Error("a bug of the work");
  let fail = () => {};
  const leading = lead(() => new Promise((_, reject) => (fail = () => reject(bug))));
  await clock.advance(100);
  let finish = () => {};
  const running = elector.runIfLeader(() => new Promise<void>((resolve) => (finish = resolve)));
  const lost = expect(running).rejects.toMatchObject({ code: "LEASE_LOST" });
  const ended = expect(leading).rejects.toBe(bug);
  fail();
  await clock.settle();
  store.faults.renew = "refuse";
  await clock.advance(ELECTOR_TTL_MS);
  finish();
  await lost;
  await ended;
  expect(elector.state).toBe("idle");
});

const endings: Record<string, (world: ElectorsWorld, elector: Elector) => void> = {
  "its resignation": (_, elector) => void elector.resign(),
  "its loss": ({ store }) => void store.revoke([{ ...CLUSTER, free: "now" }]),
};
it.each(
  Object.entries(endings).flatMap(([ending, end]) => [
    { ending, end, throws: false },
    { ending, end, throws: true },
  ]),
)(
  "is followed at once by the candidate's next after $ending; its work throws then: $throws",
  async ({ end, throws }) => {
    const world = electorsWorld();
    const { clock, node } = world;
    const { elector, lead, stop } = node("a", { retryDelayMs: 60_000 });
    const tokens: number[] = [];
    const leading = lead(async (term) => {
      tokens.push(term.token);
      await untilAborted(term);
      if (throws) throw new Error("stopped");
    });
    await clock.advance(100);
    end(world, elector);
    await clock.advance(ELECTOR_TTL_MS);
    expect(tokens).toEqual([1, 2]);
    stop.abort();
    await clock.settle();
    await leading;
  },
);

it("is not touched by a resignation from the one before that was announced late", async () => {
  const { clock, node, store } = electorsWorld();
  const { elector, lead, stop } = node("a", { handoverMs: 1_000 });
  const leading = lead();
  await clock.advance(100);
  const { acquire } = store;
  let announce = () => {};
  const announced = new Promise<void>((resolve) => (announce = resolve));
  store.acquire = async (requests) => {
    if (requests.some(({ resource }) => resource !== "cluster")) await announced;
    return acquire(requests);
  };
  const resigning = elector.resign({ successor: "b" });
  await clock.settle();
  await store.revoke([{ ...CLUSTER, free: "now" }]);
  await clock.advance(ELECTOR_TTL_MS);
  expect(elector.term?.token).toBe(2);
  announce();
  await clock.advance(10_000);
  await resigning;
  expect(elector.term?.token).toBe(2);
  stop.abort();
  await clock.settle();
  await leading;
});

it("ends with its client, also in the pause after it", async () => {
  const { clock, node } = electorsWorld();
  const { elector, lead, leases } = node("a", { retryDelayMs: 60_000 });
  const leading = lead(() => {});
  await clock.advance(100);
  expect(elector.state).toBe("waiting");
  await leases.close();
  await leading;
  expect(clock.pendingTimers).toBe(0);
});

it("does not come where the store refuses it, and the candidacy ends with the reason", async () => {
  const { clock, node, store } = electorsWorld();
  const { elector, lead } = node("a");
  const error = new StoreMisconfiguredError("no such table");
  store.acquire = async (requests) =>
    requests.map(() => ({ status: "failed", applied: "no", retryable: false, error }));
  const refused = expect(lead()).rejects.toBe(error);
  await clock.settle();
  await refused;
  expect(elector.state).toBe("idle");
});

it.each<[string, (world: ElectorsWorld, stop: AbortController) => Promise<void>]>([
  ["it is asked to stop", async (_, stop) => stop.abort()],
  ["its lease has expired", ({ clock }) => clock.advance(2 * ELECTOR_TTL_MS)],
])("begins no work if %s before the store says who is to lead", async (_, end) => {
  const world = electorsWorld();
  const { clock, node, store } = world;
  const { lead, stop } = node("a");
  const { get } = store;
  let isAsked = false;
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  store.get = async (keys) => {
    isAsked = true;
    await answered;
    return get(keys);
  };
  store.faults.renew = "refuse";
  const tokens: number[] = [];
  const leading = lead(async (term) => {
    tokens.push(term.token);
    await untilAborted(term);
  });
  await clock.advance(100);
  expect(isAsked).toBe(true);
  await end(world, stop);
  answer();
  await clock.advance(100);
  expect(tokens).not.toContain(1);
  stop.abort();
  await clock.settle();
  await leading;
});
