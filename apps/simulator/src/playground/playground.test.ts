import { describe, expect, it } from "vitest";
import {
  captionOf,
  type Frame,
  newScript,
  Playground,
  replay,
  SCENARIOS,
  type ScenarioId,
} from "./index.js";
import { scenarioById } from "./scenarios.js";

async function played(id: ScenarioId, seed = 1): Promise<Playground> {
  const script = newScript(id, { seed });
  const playground = new Playground(script);
  await playground.runTo(scenarioById(id).endsAtMs(script.settings));
  return playground;
}

const texts = ({ log }: Playground) => log.map(({ text }) => text).join("\n");
const grantsOf = ({ store }: Frame) =>
  store.grants.map(({ token, node, ended }) => `${token} ${node} ${ended}`);
const broken = ({ invariants }: Frame) =>
  invariants.filter(({ holds }) => !holds).map(({ id, promised }) => `${id} ${promised}`);

/** Each scenario must hold for any message delays. */
const SEEDS = [1, 2, 3];

describe("the basic scenarios", () => {
  it.each(SEEDS)("acquire and renew, seed %i", async (seed) => {
    const { frame, log } = await played("renew", seed);
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
    expect(frame.counters.renewals).toBeGreaterThanOrEqual(4);
    expect(frame.nodes.map(({ role }) => role)).toEqual([
      "leader",
      "candidate",
      "candidate",
      "candidate",
      "candidate",
    ]);
    expect(frame.store.queue).toEqual(["P3", "P2", "P4", "P5"]);
    expect(log.filter(({ kind }) => kind === "renew")[0]?.text).toBe(
      "P1 renewed its lease, which now expires in 10 s.",
    );
    expect(broken(frame)).toEqual([]);
  });

  it.each(SEEDS)("leader crash, seed %i", async (seed) => {
    const { frame } = await played("crash", seed);
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    const { ttlMs, renewEveryMs } = frame.settings;
    expect(frame.counters.failOvers.count).toBe(1);
    expect(frame.counters.failOvers.maxMs).toBeLessThan(ttlMs + renewEveryMs);
    expect(frame.counters.falseExpirations).toBe(0);
    expect(frame.nodes[0]).toMatchObject({ state: "down", role: "off", token: null });
    expect(frame.nodes[2]).toMatchObject({ role: "leader", token: 2 });
    expect(broken(frame)).toEqual([]);
  });

  it.each(SEEDS)("GC pause and fence, seed %i", async (seed) => {
    const playground = await played("pause", seed);
    const { frame } = playground;
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    expect(frame.resource.writes.filter(({ accepted }) => !accepted)).toMatchObject([
      { node: "P1", token: 1, stale: true, why: "token 1 is older than 2" },
    ]);
    expect(frame.counters).toMatchObject({ refusedWrites: 1, falseExpirations: 1 });
    expect(frame.resource).toMatchObject({ lastToken: 2, corrupted: 0, value: { node: "P3" } });
    // It stepped down and waits in the queue again.
    expect(frame.nodes[0]).toMatchObject({ role: "candidate", token: null, queuePosition: 4 });
    expect(texts(playground)).toContain(
      "The resource refused P1's write: token 1 is older than 2.",
    );
    expect(broken(frame)).toEqual([]);
  });

  it("keeps the belief of a process while it is paused", async () => {
    const playground = new Playground(newScript("pause"));
    for (let step = 0; step < 20; step++) {
      const { nodes, store } = await playground.step();
      if (nodes[0]?.state !== "paused" || store.token !== 2) continue;
      expect(nodes[0]).toMatchObject({ role: "leader", token: 1, trustMs: 0 });
      expect(nodes[0]?.doing).toContain("a write checked but not sent");
      return;
    }
    expect.unreachable("P3 was not granted the lease while P1 was paused");
  });

  it("plans nothing in free play", async () => {
    const { frame } = await played("free");
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
    expect(frame.counters.failOvers).toEqual({ count: 0, lastMs: null, meanMs: null, maxMs: null });
  });
});

describe("the further scenarios", () => {
  it.each(SEEDS)("partition: the holder stops by itself, seed %i", async (seed) => {
    const { frame, log } = await played("partition", seed);
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    expect(frame.counters).toMatchObject({ refusedWrites: 0, falseExpirations: 1 });
    const lost = log.find(({ kind, who }) => kind === "lost" && who === "P1");
    const granted = log.find(({ kind, text }) => kind === "grant" && text.includes("token 2"));
    expect(lost?.atMs).toBeLessThan(granted?.atMs ?? 0);
    expect(frame.nodes[0]).toMatchObject({ link: "whole", role: "candidate" });
    expect(broken(frame)).toEqual([]);
  });

  it.each(SEEDS)("clock drift: two lead, and the fence decides, seed %i", async (seed) => {
    const { frame } = await played("drift", seed);
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    expect(broken(frame)).toEqual(["trustWithinGrant false"]);
    expect(frame.counters.refusedWrites).toBeGreaterThan(0);
    expect(frame.resource.corrupted).toBe(0);
    expect(frame.counters.failOvers.lastMs).toBe(0);
  });

  it("clock drift that is allowed for does no harm", async () => {
    const settings = { driftRatioPercent: 32 };
    const script = newScript("drift", { settings });
    const playground = new Playground(script);
    const frame = await playground.runTo(playground.scenario.endsAtMs(script.settings));
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    expect(broken(frame)).toEqual([]);
    expect(frame.counters.refusedWrites).toBe(0);
  });

  it.each(SEEDS)("lost answer: the same grant, seed %i", async (seed) => {
    const playground = await played("lostAnswer", seed);
    const { frame } = playground;
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
    expect(frame.nodes[0]).toMatchObject({ role: "leader", token: 1 });
    expect(texts(playground)).toContain(
      "The store recognized the request and returned the same grant, token 1",
    );
    expect(frame.counters.messagesLost).toBe(2);
    expect(broken(frame)).toEqual([]);
  });

  it.each(SEEDS)("herd: all request, one is granted, seed %i", async (seed) => {
    const { frame, log } = await played("herd", seed);
    expect(frame.store.grants.map(({ token, ended }) => `${token} ${ended}`)).toEqual([
      "1 expired",
      "2 live",
    ]);
    expect(frame.store.queue).toEqual([]);
    const expiredMs = log.find(({ kind }) => kind === "expire")?.atMs ?? 0;
    const asked = async (id: ScenarioId) => {
      const playground = new Playground(newScript(id, { seed }));
      const before = await playground.runTo(expiredMs);
      const after = await playground.runTo(expiredMs + 3 * frame.settings.latencyMs);
      return after.counters.operations.acquire - before.counters.operations.acquire;
    };
    expect(await asked("herd")).toBe(4);
    // With a wait queue the first waiter retries, and perhaps another one that polls.
    expect(await asked("crash")).toBeLessThan(4);
    expect(broken(frame)).toEqual([]);
  });

  it.each(SEEDS)("unfenced: corrupt, seed %i", async (seed) => {
    const { frame } = await played("unfenced", seed);
    expect(frame.counters).toMatchObject({ refusedWrites: 0, staleWritesLetThrough: 1 });
    expect(frame.resource.corrupted).toBe(1);
    expect(broken(frame)).toEqual(["neverBack false"]);
  });
});

describe("captions", () => {
  it.each(SCENARIOS.map(({ id }) => id))("of %s all appear, in order", async (id) => {
    const script = newScript(id);
    const scenario = scenarioById(id);
    const playground = new Playground(script);
    const shown: number[] = [];
    for (let atMs = 0; atMs <= scenario.endsAtMs(script.settings); atMs += 100) {
      const { index, text } = captionOf(scenario, await playground.runTo(atMs));
      expect(text).not.toBe("");
      if (shown.at(-1) !== index) shown.push(index);
    }
    expect(shown).toEqual(scenario.captions.map((_, index) => index));
  });
});

describe("time", () => {
  it("gives the same run for the same seed, and another run for another seed", async () => {
    for (const { id } of SCENARIOS) {
      const [first, again, other] = [
        await played(id),
        await replay(newScript(id), scenarioById(id).endsAtMs(newScript(id).settings)),
        await played(id, 2),
      ];
      expect(again.hash).toBe(first.hash);
      expect(other.hash).not.toBe(first.hash);
    }
  });

  it("gives the same run in one move or in many", async () => {
    const whole = new Playground(newScript("pause"));
    await whole.runTo(27_000);
    const sliced = new Playground(newScript("pause"));
    for (let atMs = 0; atMs <= 27_000; atMs += 17) await sliced.runTo(atMs);
    const frame = await sliced.runTo(27_000);
    expect(sliced.hash).toBe(whole.hash);
    expect(frame).toEqual(whole.frame);
  });

  it("moves back and forth", async () => {
    const playground = new Playground(newScript("pause"));
    const late = await playground.runTo(27_000);
    const { log } = playground;
    const early = await playground.runTo(10_000);
    expect(early.atMs).toBe(10_000);
    expect(playground.reachedMs).toBe(27_000);
    expect(playground.log).toBe(log);
    expect(log[early.logEnd]?.atMs).toBeGreaterThan(10_000);
    expect(playground.peek(26_900)?.atMs).toBe(26_750);
    expect(playground.peek(27_001)).toBe(null);
    expect(await playground.runTo(27_000)).toEqual(late);
    expect(playground.log).toEqual(log);
    const fresh = new Playground(newScript("pause"));
    expect(await fresh.runTo(10_000)).toEqual(early);
  });

  it("redirects a pending move to the latest target", async () => {
    const playground = new Playground(newScript("free"));
    const moves = [playground.runTo(1_000), playground.runTo(9_000), playground.runTo(2_000)];
    const frames = await Promise.all(moves);
    expect(frames.map(({ atMs }) => atMs)).toEqual([2_000, 2_000, 2_000]);
    const done = [
      playground.runTo(3_000),
      playground.perform({ kind: "expire" }),
      playground.runTo(4_000),
    ];
    expect((await Promise.all(done)).map(({ atMs }) => atMs)).toEqual([3_000, 3_000, 4_000]);
    expect(playground.script.actions).toEqual([{ atMs: 3_000, action: { kind: "expire" } }]);
  });

  it("goes from step to step", async () => {
    const playground = new Playground(newScript("crash"));
    const steps: string[] = [];
    for (let step = 0; step < 6; step++) {
      const { logEnd } = await playground.step();
      steps.push(
        playground.log.filter(({ index, isStep }) => isStep && index < logEnd).at(-1)?.kind ?? "",
      );
    }
    expect(steps).toEqual(["grant", "lead", "process", "expire", "grant", "lead"]);
  });

  it("forks at an action in the past", async () => {
    const playground = new Playground(newScript("free"));
    await playground.runTo(5_000);
    await playground.perform({ kind: "crash", node: "P1" });
    await playground.runTo(20_000);
    await playground.perform({ kind: "crash", node: "P3" });
    await playground.runTo(40_000);
    expect(grantsOf(playground.frame)).toEqual(["1 P1 expired", "2 P3 expired", "3 P2 live"]);

    await playground.runTo(10_000);
    await playground.perform({ kind: "crash", node: "P3" });
    expect(playground.reachedMs).toBe(10_000);
    expect(playground.peek(10_250)).toBe(null);
    expect(playground.script.actions.map(({ atMs }) => atMs)).toEqual([5_000, 10_000]);
    const frame = await playground.runTo(30_000);
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P2 live"]);
    // As if the dropped actions had never happened.
    expect(playground.log.map(({ index }) => index)).toEqual(playground.log.map((_, at) => at));
    const again = new Playground(playground.script);
    expect(await again.runTo(30_000)).toEqual(frame);
    expect(again.hash).toBe(playground.hash);
    expect(again.log).toEqual(playground.log);
    for (let atMs = 0; atMs <= 30_000; atMs += 250) {
      expect(again.peek(atMs)).toEqual(playground.peek(atMs));
    }
  });

  it("keeps the scenario's plan after an action", async () => {
    const playground = new Playground(newScript("crash"));
    await playground.runTo(4_000);
    await playground.perform({ kind: "crash", node: "P3" });
    const frame = await playground.runTo(24_000);
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P2 live"]);
  });
});
