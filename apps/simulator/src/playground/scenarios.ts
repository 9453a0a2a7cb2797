/** The scenarios as data: settings, a plan of actions, and captions. */
import type { TimedAction } from "./actions.js";
import type { Frame, NodeFrame } from "./frame.js";
import { DEFAULTS, type Settings } from "./settings.js";

export type ScenarioId =
  | "renew"
  | "crash"
  | "pause"
  | "free"
  | "partition"
  | "drift"
  | "lostAnswer"
  | "herd"
  | "unfenced";

/** Shown from the moment at which `when` is true until a later caption of the list applies. */
export interface Caption {
  readonly text: string;
  readonly when: (frame: Frame) => boolean;
}

export interface Scenario {
  readonly id: ScenarioId;
  readonly title: string;
  readonly summary: string;
  /** The settings that differ from DEFAULTS. */
  readonly settings: Partial<Settings>;
  /** The actions that happen by themselves. */
  readonly plan: (settings: Settings) => readonly TimedAction[];
  readonly captions: readonly Caption[];
  /** When the scenario is over, in true time. */
  readonly endsAtMs: (settings: Settings) => number;
}

/** By then all processes have started and the leader has renewed at least once. */
function settledMs({ startsMs, renewEveryMs }: Settings): number {
  return Math.round(Math.max(...startsMs) + 600 + 1.5 * renewEveryMs);
}

/** By then another process leads and has written. */
function replacedMs(settings: Settings): number {
  const { writeEveryMs, ttlMs, latencyMs } = settings;
  return Math.round(settledMs(settings) + writeEveryMs + 1.2 * ttlMs + 3_000 + 10 * latencyMs);
}

const p1 = (frame: Frame) => frame.nodes[0] as NodeFrame;
const isTakenOver = (frame: Frame) => frame.store.grants.length > 1;
const isRefused = (frame: Frame) => frame.counters.refusedWrites > 0;
const always = () => true;

const BEGINNING: readonly Caption[] = [
  { text: "P1 requests the lease from the store. The lease is free.", when: always },
  {
    text: "P1 leads with token 1. The others wait in the store's queue.",
    when: (frame) => p1(frame).role === "leader",
  },
];

const onP1 = (kind: "crash") => (settings: Settings) => [
  { atMs: settledMs(settings), action: { kind, node: "P1" } as const },
];

const pausePlan = (settings: Settings): readonly TimedAction[] => [
  { atMs: settledMs(settings), action: { kind: "pause", node: "P1", midWrite: true } },
  { atMs: replacedMs(settings), action: { kind: "resume", node: "P1" } },
];

const cutPlan = (settings: Settings): readonly TimedAction[] => [
  { atMs: settledMs(settings), action: { kind: "cut", node: "P1", way: "both" } },
  { atMs: replacedMs(settings), action: { kind: "mend", node: "P1" } },
];

const afterwardsMs = (settings: Settings) => replacedMs(settings) + 5_000;

export const SCENARIOS: readonly Scenario[] = [
  {
    id: "renew",
    title: "Acquire and renew",
    summary: "One process acquires the lease and renews it before it expires.",
    settings: {},
    plan: () => [],
    captions: [
      ...BEGINNING,
      {
        text: "P1 has renewed: its ring is full again, and its token is still 1. A renewal extends the same grant.",
        when: (frame) => frame.counters.renewals > 0,
      },
      {
        text: "Each renewal is a request to the store, whether or not anything else happens. That is the cost of a lease.",
        when: (frame) => frame.counters.renewals > 2,
      },
    ],
    endsAtMs: ({ renewEveryMs }) => 3_000 + 5 * renewEveryMs,
  },
  {
    id: "crash",
    title: "Leader crash",
    summary: "The leader crashes. When its lease has expired, another leads with the next token.",
    settings: {},
    plan: onP1("crash"),
    captions: [
      ...BEGINNING,
      {
        text: "P1 has crashed, and the store cannot know. No other process may lead until P1's lease expires.",
        when: (frame) => p1(frame).state === "down" && p1(frame).starts > 0,
      },
      {
        text: "The lease has expired, and the first waiter leads with token 2. The time without a leader was the rest of the lease.",
        when: isTakenOver,
      },
    ],
    endsAtMs: (settings) => settledMs(settings) + settings.ttlMs + 6_000,
  },
  {
    id: "pause",
    title: "GC pause and fence",
    summary: "A paused leader resumes too late. Its write carries an old token and is refused.",
    settings: {},
    plan: pausePlan,
    captions: [
      ...BEGINNING,
      {
        text: "P1 is paused in the middle of a write: it has checked its lease but not sent the write. It believes in token 1 until it can check again.",
        when: (frame) => p1(frame).state === "paused",
      },
      {
        text: "P1's lease has expired. The first waiter leads with token 2 and writes. P1 is still paused and still believes.",
        when: isTakenOver,
      },
      {
        text: "P1 resumes. It sends its write at once with token 1, before it checks its lease again.",
        when: (frame) => isTakenOver(frame) && p1(frame).state === "up",
      },
      {
        text: "Refused: the resource has seen token 2. P1 has also noticed the expiry by its clocks and waits in the queue again.",
        when: isRefused,
      },
    ],
    endsAtMs: afterwardsMs,
  },
  {
    id: "free",
    title: "Free play",
    summary: "Five processes, one lease, no plan. Try to break it.",
    settings: {},
    plan: () => [],
    captions: [
      ...BEGINNING,
      {
        text: "Your move: crash, pause or cut off a process, or end the lease.",
        when: (frame) => frame.atMs > 3_000,
      },
    ],
    endsAtMs: () => 60_000,
  },
  {
    id: "partition",
    title: "Partition",
    summary: "The leader runs but no longer reaches the store. It stops by its own clock.",
    settings: {},
    plan: cutPlan,
    captions: [
      ...BEGINNING,
      {
        text: "P1 is cut off from the store, but not from the resource. It keeps writing while it trusts its lease, and tries to renew.",
        when: (frame) => p1(frame).link !== "whole",
      },
      {
        text: "P1 has stopped by its own clock, before the store grants the lease to another.",
        when: (frame) => p1(frame).link !== "whole" && p1(frame).token === null,
      },
      {
        text: "Another process leads with token 2. No write had to be refused.",
        when: isTakenOver,
      },
      {
        text: "P1 reaches the store again and waits in the queue like the others.",
        when: (frame) => isTakenOver(frame) && p1(frame).link === "whole",
      },
    ],
    endsAtMs: afterwardsMs,
  },
  {
    id: "drift",
    title: "Clock drift",
    summary:
      "The leader's clock is far slower than holders allow for: two processes lead, and fencing protects the data.",
    settings: { clockPercents: [-30, 0, 0, 0, 0] },
    plan: cutPlan,
    captions: [
      {
        text: "P1's clocks run 30 % slow, but holders allow for only 1 %. “Trust ends first” is not guaranteed here.",
        when: always,
      },
      {
        text: "P1 is cut off and cannot renew. By its slow clock the lease lasts longer than by the store's clock.",
        when: (frame) => p1(frame).link !== "whole",
      },
      {
        text: "The store has granted the lease to another process while P1 still trusts its own: two leaders.",
        when: isTakenOver,
      },
      {
        text: "The resource refused P1's write, so P1 knows that it no longer leads.",
        when: isRefused,
      },
    ],
    endsAtMs: afterwardsMs,
  },
  {
    id: "lostAnswer",
    title: "Lost answer",
    summary: "The store grants the lease, but the answer is lost. The retry gets the same grant.",
    settings: {},
    plan: (settings) => [
      { atMs: 0, action: { kind: "dropAnswer", node: "P1", of: "acquire" } },
      { atMs: settledMs(settings), action: { kind: "dropAnswer", node: "P1", of: "renew" } },
    ],
    captions: [
      { text: "P1 requests the lease.", when: always },
      {
        text: "The store has granted the lease, but the answer was lost: P1 cannot know whether it leads.",
        when: (frame) => frame.store.lease === "live",
      },
      {
        text: "P1 retried with the same lease id. The store returned the same grant: still token 1, not a second grant.",
        when: (frame) => p1(frame).role === "leader" && p1(frame).token === 1,
      },
      {
        text: "The answer to a renewal was lost too. P1 relies on its last confirmed expiry and retries sooner.",
        when: (frame) => frame.counters.messagesLost > 1,
      },
    ],
    endsAtMs: (settings) => settledMs(settings) + 2 * settings.renewEveryMs,
  },
  {
    id: "herd",
    title: "Herd on expiry",
    summary:
      "A store without a wait queue: when the lease expires, all candidates retry at the same moment.",
    settings: { queued: false },
    plan: onP1("crash"),
    captions: [
      ...BEGINNING.slice(0, 1),
      {
        text: "P1 leads. This store has no wait queue, but each of the others knows when the lease expires.",
        when: (frame) => p1(frame).role === "leader",
      },
      {
        text: "P1 has crashed. Watch the messages when the lease expires.",
        when: (frame) => p1(frame).state === "down" && p1(frame).starts > 0,
      },
      {
        text: "Four requests arrived at once and one was granted: the store handles one at a time. Compare the number of store operations with that of a store with a wait queue.",
        when: isTakenOver,
      },
    ],
    endsAtMs: (settings) => settledMs(settings) + settings.ttlMs + 6_000,
  },
  {
    id: "unfenced",
    title: "Unfenced",
    summary: "The same pause, but the resource accepts old tokens: the data is corrupted.",
    settings: { fenced: false },
    plan: pausePlan,
    captions: [
      ...BEGINNING,
      {
        text: "P1 is paused in the middle of a write, and the resource does not check tokens.",
        when: (frame) => p1(frame).state === "paused",
      },
      {
        text: "The first waiter leads with token 2 and writes.",
        when: isTakenOver,
      },
      {
        text: "P1 has resumed and overwritten the new leader's value. The lease did all it could; without fencing that is not enough.",
        when: (frame) => frame.resource.corrupted > 0,
      },
    ],
    endsAtMs: afterwardsMs,
  },
];

export function scenarioById(id: ScenarioId): Scenario {
  const found = SCENARIOS.find((scenario) => scenario.id === id);
  if (!found) throw new RangeError(`no scenario is named ${id}`);
  return found;
}

/** The current caption: the last one of the list that applies. */
export function captionOf({ captions }: Scenario, frame: Frame): { index: number; text: string } {
  const index = captions.findLastIndex(({ when }) => when(frame));
  return { index, text: captions[index]?.text ?? "" };
}

/** The settings of a scenario. */
export function settingsOf({ settings }: Scenario): Settings {
  return { ...DEFAULTS, ...settings };
}
