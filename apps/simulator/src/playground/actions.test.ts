import { describe, expect, it } from "vitest";
import { ACTION_FIELDS, type Action } from "./actions.js";
import { describeAction, type Frame, newScript, Playground, type Settings } from "./index.js";

/** A run of free play with these actions. */
async function after(
  actions: readonly (readonly [atMs: number, action: Action])[],
  untilMs: number,
  settings: Partial<Settings> = {},
) {
  const playground = new Playground(newScript("free", { settings }));
  for (const [atMs, action] of actions) {
    await playground.runTo(atMs);
    await playground.perform(action);
  }
  const frame = await playground.runTo(untilMs);
  const node = (name: string) => frame.nodes.find((one) => one.name === name);
  return { playground, frame, node, logText: playground.log.map(({ text }) => text).join("\n") };
}

const grantsOf = ({ store }: Frame) =>
  store.grants.map(({ token, node, ended }) => `${token} ${node} ${ended}`);
const brokenPromises = ({ invariants }: Frame) =>
  invariants.filter(({ holds, promised }) => !holds && promised).map(({ id }) => id);

describe("processes", () => {
  it("crash and restart as other holders", async () => {
    const { frame, node } = await after(
      [
        [4_000, { kind: "crash", node: "P1" }],
        [5_000, { kind: "restart", node: "P1" }],
      ],
      20_000,
    );
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    expect(node("P1")).toMatchObject({
      state: "up",
      starts: 2,
      role: "candidate",
      queuePosition: 4,
    });
    expect(frame.counters.falseExpirations).toBe(0);
  });

  it("keep their lease through a pause shorter than the TTL", async () => {
    const { frame, node } = await after(
      [
        [5_000, { kind: "pause", node: "P1" }],
        [8_000, { kind: "resume", node: "P1" }],
      ],
      20_000,
    );
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
    expect(node("P1")).toMatchObject({ role: "leader", token: 1 });
    expect(frame.counters).toMatchObject({ falseExpirations: 0, failOvers: { count: 0 } });
  });

  it("notice a suspension by one of their clocks", async () => {
    const asleep = await after([[5_000, { kind: "suspend", node: "P1" }]], 16_000);
    expect(asleep.node("P1")).toMatchObject({ state: "suspended", clockRate: 0, token: 1 });
    const { frame, node } = await after(
      [
        [5_000, { kind: "suspend", node: "P1" }],
        [16_000, { kind: "resume", node: "P1" }],
      ],
      18_000,
    );
    expect(grantsOf(frame)).toEqual(["1 P1 expired", "2 P3 live"]);
    expect(node("P1")).toMatchObject({ state: "up", clockRate: 1, token: null });
    expect(brokenPromises(frame)).toEqual([]);
  });

  it("crash while they are paused", async () => {
    const { node } = await after(
      [
        [5_000, { kind: "suspend", node: "P1" }],
        [6_000, { kind: "crash", node: "P1" }],
        [7_000, { kind: "restart", node: "P1" }],
      ],
      9_000,
    );
    expect(node("P1")).toMatchObject({ state: "up", clockRate: 1, role: "candidate" });
  });

  it("log actions that are impossible", async () => {
    const { frame, logText, playground } = await after(
      [
        [4_000, { kind: "restart", node: "P1" }],
        [4_000, { kind: "resume", node: "P1" }],
        [4_000, { kind: "crash", node: "P2" }],
        [4_000, { kind: "crash", node: "P2" }],
        [4_000, { kind: "pause", node: "P2" }],
        [4_000, { kind: "suspend", node: "P2" }],
        [4_000, { kind: "mend", node: "P1" }],
        [4_000, { kind: "resign", successor: "P2" }],
        [4_000, { kind: "restart", node: "store" }],
        [4_000, { kind: "drop", message: 1 }],
      ],
      9_000,
    );
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
    for (const what of [
      "P1 is already running.",
      "P1 is not paused.",
      "P2 is not running, so it cannot crash.",
      "so it cannot be paused",
      "so it cannot be suspended",
      "P1 is already connected to the store.",
      "P2 is not running.",
      "The store is up, so there is nothing to restart.",
      "Message 1 is no longer in flight.",
    ]) {
      expect(logText).toContain(what);
    }
    expect(playground.script.actions).toHaveLength(10);
  });

  it("start before their scheduled time", async () => {
    const { node } = await after([[100, { kind: "restart", node: "P5" }]], 5_000);
    expect(node("P5")).toMatchObject({ state: "up", starts: 1, queuePosition: 1 });
  });
});

describe("the store", () => {
  it("is down for less than the TTL: nothing changes", async () => {
    const { frame } = await after(
      [
        [5_000, { kind: "crash", node: "store" }],
        [8_000, { kind: "restart", node: "store" }],
      ],
      20_000,
    );
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
  });

  it("is unavailable for longer: the leader stops by itself", async () => {
    for (const [stop, go] of [
      ["crash", "restart"],
      ["pause", "resume"],
    ] as const) {
      const away = await after([[5_000, { kind: stop, node: "store" }]], 16_000);
      expect(away.frame.store.state).toBe(stop === "crash" ? "down" : "paused");
      expect(away.frame.nodes.every(({ token }) => token === null)).toBe(true);
      const actions: [number, Action][] = [
        [5_000, { kind: stop, node: "store" }],
        [16_000, { kind: go, node: "store" }],
      ];
      const { frame } = await after(actions, 22_000);
      expect(frame.store).toMatchObject({ state: "up", lease: "live" });
      // It may be larger than 2: a waiting request may be granted after its sender has timed out.
      expect(frame.store.token).toBeGreaterThan(1);
      expect(brokenPromises(frame)).toEqual([]);
    }
  });

  it("ends a lease early: only the fence protects", async () => {
    const { frame, logText } = await after([[8_000, { kind: "expire" }]], 12_000);
    expect(frame.store.grants[0]).toMatchObject({ token: 1, ended: "forced", endedAtMs: 8_000 });
    expect(frame.store.token).toBe(2);
    expect(logText).toContain("was forced to expire in the store, and P1 does not know.");
    expect(brokenPromises(frame)).toEqual([]);
    expect(frame.counters.falseExpirations).toBe(0);
  });

  it("revokes at once or at the expiry", async () => {
    const now = await after([[8_000, { kind: "revoke", free: "now" }]], 12_000);
    expect(now.frame.store.grants[0]).toMatchObject({ ended: "revoked", endedAtMs: 8_000 });
    expect(now.frame.store.grants[1]?.grantedAtMs).toBeLessThan(9_000);
    expect(brokenPromises(now.frame)).toEqual([]);
    const later = await after([[8_000, { kind: "revoke", free: "atExpiry" }]], 20_000);
    expect(later.frame.store.grants[0]).toMatchObject({ ended: "revoked", endedAtMs: 8_000 });
    // The holder learns of it at its next renewal and releases the rest.
    expect(later.logText).toContain("The store refused to renew token 1: an operator revoked it.");
    expect(later.frame.store.token).toBe(2);
    expect(later.frame.invariants.every(({ holds }) => holds)).toBe(true);
  });

  it("has nothing to end when there is no lease", async () => {
    const { logText } = await after(
      [
        [0, { kind: "expire" }],
        [0, { kind: "revoke", free: "now" }],
        [0, { kind: "resign" }],
      ],
      1_000,
    );
    expect(logText).toContain("There is no lease to expire.");
    expect(logText).toContain("There is no lease to revoke.");
    expect(logText).toContain("There is no leader that could resign.");
  });
});

describe("the leader", () => {
  it("resigns: the first waiter leads within a second", async () => {
    const { frame } = await after([[8_000, { kind: "resign" }]], 12_000);
    expect(grantsOf(frame)).toEqual(["1 P1 released", "2 P3 live"]);
    expect(frame.counters.failOvers.lastMs).toBeLessThan(1_000);
    expect(frame.invariants.every(({ holds }) => holds)).toBe(true);
  });

  it("names a successor, and the others let it go first", async () => {
    const { frame, logText } = await after([[8_000, { kind: "resign", successor: "P5" }]], 16_000);
    expect(frame.store.holder).toBe("P5");
    expect(frame.nodes[4]?.role).toBe("leader");
    expect(logText).toContain("P1 recorded in the store that P5 leads next.");
    expect(frame.invariants.every(({ holds }) => holds)).toBe(true);
  });
});

describe("the network", () => {
  it("is cut in both directions or in one, and reconnected", async () => {
    for (const [way, link] of [
      ["both", "cut off"],
      ["requests", "cannot send"],
      ["answers", "cannot receive"],
    ] as const) {
      const { frame, node } = await after([[5_000, { kind: "cut", node: "P1", way }]], 20_000);
      expect(node("P1")).toMatchObject({ link, role: "candidate", token: null });
      expect(frame.store.holder).toBe("P3");
      expect(frame.counters.falseExpirations).toBeGreaterThan(way === "answers" ? -1 : 0);
      expect(brokenPromises(frame)).toEqual([]);
      const mended = await after(
        [
          [5_000, { kind: "cut", node: "P1", way }],
          [7_000, { kind: "mend", node: "P1" }],
        ],
        20_000,
      );
      expect(mended.node("P1")).toMatchObject({ link: "whole", role: "leader", token: 1 });
    }
  });

  it("drops, delays and duplicates chosen messages", async () => {
    const script = newScript("free");
    const playground = new Playground(script);
    // P1 has just requested the lease.
    const { messages } = await playground.runTo(1);
    expect(messages).toMatchObject([
      { id: 1, from: "P1", to: "store", kind: "acquire", isAnswer: false, token: null },
    ]);
    const arrivesAtMs = messages[0]?.arrivesAtMs ?? 0;
    const delayed = await playground.perform({ kind: "delay", message: 1, byMs: 100 });
    expect(delayed.messages[0]?.arrivesAtMs).toBeCloseTo(arrivesAtMs + 100);
    const twice = await playground.perform({ kind: "duplicate", message: 1 });
    expect(twice.messages.map(({ id, summary }) => `${id} ${summary}`)).toEqual([
      "1 acquire the lease",
      "2 acquire the lease",
    ]);
    const dropped = await playground.perform({ kind: "drop", message: 1 });
    expect(dropped.messages.map(({ id }) => id)).toEqual([2]);
    const frame = await playground.runTo(2_000);
    expect(grantsOf(frame)).toEqual(["1 P1 live"]);
    const again = new Playground(playground.script);
    expect(await again.runTo(2_000)).toEqual(frame);
  });

  it.each(["acquire", "renew", "release", "write"] as const)(
    "loses the next answer: %s",
    async (of) => {
      const node = of === "acquire" ? "P3" : "P1";
      const { frame, logText } = await after(
        [
          [4_000, { kind: "dropAnswer", node, of }],
          [8_000, of === "release" ? { kind: "resign" } : { kind: "fence", on: true }],
        ],
        14_000,
      );
      expect(frame.counters.messagesLost).toBe(1);
      expect(logText).toMatch(new RegExp(`The answer ".*" to ${node} was lost`));
      expect(frame.store.lease).toBe("live");
      expect(frame.invariants.every(({ holds }) => holds)).toBe(true);
    },
  );
});

describe("clocks", () => {
  it("can be slowed down", async () => {
    const { frame, node } = await after(
      [[5_000, { kind: "rate", node: "P1", percent: -20 }]],
      9_000,
    );
    expect(node("P1")?.clockRate).toBeCloseTo(0.8);
    const trust = frame.invariants.find(({ id }) => id === "trustWithinGrant");
    expect(trust).toMatchObject({ holds: true, promised: false });
    expect(trust?.detail).toContain("the clocks of P1 run 20 % slow, but holders allow for 1 %");
  });

  it("jump: forward, and the holder stops early; back, without an effect", async () => {
    const forward = await after([[5_000, { kind: "jump", node: "P1", ms: 60_000 }]], 9_000);
    expect(forward.logText).toContain("P1 no longer trusts token 1");
    expect(forward.frame.invariants.every(({ holds }) => holds)).toBe(true);
    const back = await after([[5_000, { kind: "jump", node: "P1", ms: -60_000 }]], 9_000);
    expect(back.node("P1")).toMatchObject({ role: "leader", token: 1 });
  });
});

describe("settings", () => {
  it("switch fencing off", async () => {
    const { frame } = await after(
      [
        [6_000, { kind: "fence", on: false }],
        [7_000, { kind: "pause", node: "P1", midWrite: true }],
        [24_000, { kind: "resume", node: "P1" }],
      ],
      26_000,
    );
    expect(frame.settings.fenced).toBe(false);
    expect(frame.counters).toMatchObject({ refusedWrites: 0, staleWritesLetThrough: 1 });
  });

  it("apply to the network at once and to leases from the next one", async () => {
    const actions: [number, Action][] = [
      [5_000, { kind: "set", setting: "ttlMs", value: 4_000 }],
      [5_000, { kind: "set", setting: "latencyMs", value: 20 }],
    ];
    const present = await after(actions, 9_000);
    // Adjusted to fit: a renewal must come before the lease expires.
    expect(present.frame.settings).toMatchObject({
      ttlMs: 4_000,
      latencyMs: 20,
      renewEveryMs: 3_300,
    });
    expect(present.frame.store).toMatchObject({ token: 1, ttlMs: 10_000 });
    expect(present.frame.store.queue).toHaveLength(4);
    const { messages } = await present.playground.runTo(9_001);
    for (const { arrivesAtMs, sentAtMs } of messages)
      expect(arrivesAtMs - sentAtMs).toBeLessThan(25);
    const next = await after([...actions, [9_000, { kind: "resign" }]], 12_000);
    expect(next.frame.store).toMatchObject({ token: 2, ttlMs: 4_000 });
    expect(next.frame.invariants.every(({ holds }) => holds)).toBe(true);
  });

  it("keep all invariants on a lossy network", async () => {
    for (let seed = 1; seed <= 4; seed++) {
      const settings = { lossPercent: 30, ttlMs: 3_000, renewEveryMs: 900 };
      const playground = new Playground(newScript("free", { seed, settings }));
      const frame = await playground.runTo(30_000);
      expect(frame.invariants.filter(({ holds }) => !holds)).toEqual([]);
      expect(frame.counters.messagesLost).toBeGreaterThan(20);
    }
  });
});

it("describes every action", () => {
  const action = (kind: Action["kind"]) =>
    ({
      kind,
      node: "P1",
      way: "both",
      free: "now",
      of: "renew",
      setting: "ttlMs",
    }) as unknown as Action;
  for (const kind of Object.keys(ACTION_FIELDS)) {
    expect(describeAction(action(kind as Action["kind"]))).toMatch(/^\S.*\S$/);
  }
});
