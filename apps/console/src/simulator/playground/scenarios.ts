/** What can be played, as data: settings, a plan of acts that follows from them, and what to look at. */
import type { TimedAct } from "./acts.js";
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

/** Shown from the moment at which `when` holds, until a later caption of the list is. */
export interface Caption {
  readonly text: string;
  readonly when: (frame: Frame) => boolean;
}

export interface Scenario {
  readonly id: ScenarioId;
  readonly title: string;
  readonly summary: string;
  /** Not one of the article's. */
  readonly ours: boolean;
  /** What differs from DEFAULTS. */
  readonly settings: Partial<Settings>;
  /** What happens by itself. */
  readonly plan: (settings: Settings) => readonly TimedAct[];
  readonly captions: readonly Caption[];
  /** When everything has been seen, in true time. */
  readonly endsAtMs: (settings: Settings) => number;
}

/** All processes are there, and the leader has renewed at least once: something may happen now. */
function settledMs({ startsMs, renewEveryMs }: Settings): number {
  return Math.round(Math.max(...startsMs) + 600 + 1.5 * renewEveryMs);
}

/** By then another leads, whatever was left of the lease, and has written. */
function replacedMs(settings: Settings): number {
  const { writeEveryMs, ttlMs, latencyMs } = settings;
  return Math.round(settledMs(settings) + writeEveryMs + 1.2 * ttlMs + 3_000 + 10 * latencyMs);
}

const p1 = (frame: Frame) => frame.nodes[0] as NodeFrame;
const isTakenOver = (frame: Frame) => frame.store.grants.length > 1;
const isRefused = (frame: Frame) => frame.counters.refusedWrites > 0;
const always = () => true;

const BEGINNING: readonly Caption[] = [
  { text: "P1 asks the store for the lease. Nobody has it.", when: always },
  {
    text: "P1 leads with token 1. The others wait in line at the store.",
    when: (frame) => p1(frame).role === "leader",
  },
];

const onP1 = (kind: "crash") => (settings: Settings) => [
  { atMs: settledMs(settings), act: { kind, node: "P1" } as const },
];

const pausePlan = (settings: Settings): readonly TimedAct[] => [
  { atMs: settledMs(settings), act: { kind: "pause", node: "P1", midWrite: true } },
  { atMs: replacedMs(settings), act: { kind: "resume", node: "P1" } },
];

const cutPlan = (settings: Settings): readonly TimedAct[] => [
  { atMs: settledMs(settings), act: { kind: "cut", node: "P1", way: "both" } },
  { atMs: replacedMs(settings), act: { kind: "mend", node: "P1" } },
];

const afterwardsMs = (settings: Settings) => replacedMs(settings) + 5_000;

export const SCENARIOS: readonly Scenario[] = [
  {
    id: "renew",
    title: "Acquire and renew",
    summary: "One process takes the lease, and renews it before its time is over.",
    ours: false,
    settings: {},
    plan: () => [],
    captions: [
      ...BEGINNING,
      {
        text: "P1 has renewed: its ring is full again, and its token is still 1. A renewal is the same grant.",
        when: (frame) => frame.counters.renewals > 0,
      },
      {
        text: "On and on: the store is asked at each renewal, whether or not anything happens. That is the price.",
        when: (frame) => frame.counters.renewals > 2,
      },
    ],
    endsAtMs: ({ renewEveryMs }) => 3_000 + 5 * renewEveryMs,
  },
  {
    id: "crash",
    title: "Leader crash",
    summary: "The leader dies. Its lease drains, then another leads with the next token.",
    ours: false,
    settings: {},
    plan: onP1("crash"),
    captions: [
      ...BEGINNING,
      {
        text: "P1 is dead, and the store cannot know. Its lease drains; until that is over nobody else may lead.",
        when: (frame) => p1(frame).state === "down" && p1(frame).starts > 0,
      },
      {
        text: "The lease ran out, and the first in line leads with token 2. The time without a leader was what was left of the lease.",
        when: isTakenOver,
      },
    ],
    endsAtMs: (settings) => settledMs(settings) + settings.ttlMs + 6_000,
  },
  {
    id: "pause",
    title: "GC pause and fence",
    summary: "A paused leader wakes up too late. Its write carries an old token, and is refused.",
    ours: false,
    settings: {},
    plan: pausePlan,
    captions: [
      ...BEGINNING,
      {
        text: "P1 stands still in the middle of a write: it has checked its lease, and not sent yet. It believes in token 1 as long as it cannot look.",
        when: (frame) => p1(frame).state === "paused",
      },
      {
        text: "P1's lease ran out. The first in line leads with token 2, and writes. P1 still stands still, and still believes.",
        when: isTakenOver,
      },
      {
        text: "P1 goes on. Its write is sent at once with token 1, before its lease can tell it anything.",
        when: (frame) => isTakenOver(frame) && p1(frame).state === "up",
      },
      {
        text: "Refused: the resource has seen token 2. P1 found out by its clocks as well, and stands in line again.",
        when: isRefused,
      },
    ],
    endsAtMs: afterwardsMs,
  },
  {
    id: "free",
    title: "Free play",
    summary: "Five processes, one lease, and nothing planned: break it yourself.",
    ours: false,
    settings: {},
    plan: () => [],
    captions: [
      ...BEGINNING,
      {
        text: "Now it is up to you: crash, pause or cut off a process, or end the lease.",
        when: (frame) => frame.atMs > 3_000,
      },
    ],
    endsAtMs: () => 60_000,
  },
  {
    id: "partition",
    title: "Partition",
    summary: "The leader works, but no longer reaches the store. It stops by its own clock.",
    ours: true,
    settings: {},
    plan: cutPlan,
    captions: [
      ...BEGINNING,
      {
        text: "P1 is cut off from the store, though not from the resource. It goes on writing while it trusts its lease, and tries to renew.",
        when: (frame) => p1(frame).link !== "whole",
      },
      {
        text: "P1 has stopped by its own clock, before the store gives the lease to another.",
        when: (frame) => p1(frame).link !== "whole" && p1(frame).token === null,
      },
      {
        text: "Another leads with token 2. Nobody had to refuse anything.",
        when: isTakenOver,
      },
      {
        text: "P1 reaches the store again, and stands in line like everybody else.",
        when: (frame) => isTakenOver(frame) && p1(frame).link === "whole",
      },
    ],
    endsAtMs: afterwardsMs,
  },
  {
    id: "drift",
    title: "Clock drift",
    summary:
      "The leader's clock is far slower than holders allow for: two lead, and the fence decides.",
    ours: true,
    settings: { clockPercents: [-30, 0, 0, 0, 0] },
    plan: cutPlan,
    captions: [
      {
        text: "P1's clocks run 30 % slow, while holders allow for 1 %. The badge of trust is not promised here.",
        when: always,
      },
      {
        text: "P1 is cut off, and cannot renew. By its slow clock the lease lasts longer than by the store's.",
        when: (frame) => p1(frame).link !== "whole",
      },
      {
        text: "The store gave the lease to another while P1 still trusts its own: two leaders.",
        when: isTakenOver,
      },
      {
        text: "The resource refused P1's write, and P1 learned from it that it leads no more.",
        when: isRefused,
      },
    ],
    endsAtMs: afterwardsMs,
  },
  {
    id: "lostAnswer",
    title: "Lost answer",
    summary: "The store grants, but its answer is lost. Asked again, it knows the request.",
    ours: true,
    settings: {},
    plan: (settings) => [
      { atMs: 0, act: { kind: "dropAnswer", node: "P1", of: "acquire" } },
      { atMs: settledMs(settings), act: { kind: "dropAnswer", node: "P1", of: "renew" } },
    ],
    captions: [
      { text: "P1 asks for the lease.", when: always },
      {
        text: "The store has granted it, and the answer is lost: P1 cannot know whether it leads.",
        when: (frame) => frame.store.lease === "live",
      },
      {
        text: "P1 asked again under the same lease id. The store knew the grant: token 1 still, not a second grant.",
        when: (frame) => p1(frame).role === "leader" && p1(frame).token === 1,
      },
      {
        text: "The answer to a renewal is lost as well. P1 goes by what it knows for sure, and renews again, sooner.",
        when: (frame) => frame.counters.messagesLost > 1,
      },
    ],
    endsAtMs: (settings) => settledMs(settings) + 2 * settings.renewEveryMs,
  },
  {
    id: "herd",
    title: "Herd on expiry",
    summary: "A store that keeps no line: when the lease runs out, all ask at the same moment.",
    ours: true,
    settings: { queued: false },
    plan: onP1("crash"),
    captions: [
      ...BEGINNING.slice(0, 1),
      {
        text: "P1 leads. This store keeps no line: each of the others knows when the lease would run out.",
        when: (frame) => p1(frame).role === "leader",
      },
      {
        text: "P1 is dead. Watch the messages when the lease runs out.",
        when: (frame) => p1(frame).state === "down" && p1(frame).starts > 0,
      },
      {
        text: "Four asked at once, and one was granted: the store decides one after the other. Compare the count of store operations with a store that keeps a line.",
        when: isTakenOver,
      },
    ],
    endsAtMs: (settings) => settledMs(settings) + settings.ttlMs + 6_000,
  },
  {
    id: "unfenced",
    title: "Unfenced",
    summary: "The same pause, and nothing that refuses old tokens: the data is corrupt.",
    ours: true,
    settings: { fenced: false },
    plan: pausePlan,
    captions: [
      ...BEGINNING,
      {
        text: "P1 stands still in the middle of a write, and the resource does not look at tokens.",
        when: (frame) => p1(frame).state === "paused",
      },
      {
        text: "The first in line leads with token 2, and writes.",
        when: isTakenOver,
      },
      {
        text: "P1 has woken up, and has written over the new leader's value. The lease did all it could: without a fence that is not enough.",
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

/** What to look at now: the last caption of the list whose time has come. */
export function captionOf({ captions }: Scenario, frame: Frame): { index: number; text: string } {
  const index = captions.findLastIndex(({ when }) => when(frame));
  return { index, text: captions[index]?.text ?? "" };
}

/** The settings of a scenario. */
export function settingsOf({ settings }: Scenario): Settings {
  return { ...DEFAULTS, ...settings };
}
