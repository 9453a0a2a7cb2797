/**
 * Experiments to do oneself: a question to answer before the run, and the run that answers it. What a
 * run shows is computed from its last frame.
 */
import type { TimedAct } from "./acts.js";
import type { Frame } from "./frame.js";
import { type ScenarioId, scenarioById } from "./scenarios.js";
import { newScript, type Script } from "./script.js";
import type { Settings } from "./settings.js";

export interface Choice {
  readonly id: string;
  readonly text: string;
}

export interface Experiment {
  readonly id: string;
  readonly title: string;
  /** What to do, and what to watch. */
  readonly task: string;
  /** Begins the run that answers the question. */
  readonly script: () => Script;
  /** When it has been answered, in true time. */
  readonly untilMs: number;
  readonly question: string;
  readonly choices: readonly Choice[];
  /** The id of the choice that the run shows; null while it is not known. */
  readonly shown: (frame: Frame) => string | null;
  readonly explanation: string;
}

/** An experiment without what follows from the rest. */
interface Plan extends Omit<Experiment, "script" | "untilMs" | "choices"> {
  readonly scenario: ScenarioId;
  readonly settings?: Partial<Settings>;
  readonly acts?: readonly TimedAct[];
  /** Default: when the scenario ends. */
  readonly untilMs?: number;
  readonly choices: Readonly<Record<string, string>>;
}

const isOver = (frame: Frame, untilMs: number) => frame.atMs >= untilMs;

const PLANS: readonly Plan[] = [
  {
    id: "cost",
    title: "What a quiet leader costs",
    task: "Nothing goes wrong for half a minute. Count the renewals.",
    scenario: "renew",
    untilMs: 30_000,
    question: "The lease lasts 10 s and is renewed every 3.3 s. How often is it renewed in 30 s?",
    choices: {
      never: "Not at all: nobody else wants to lead",
      few: "About 3 times: once for each lease time",
      steady: "About 9 times: once for each interval",
    },
    shown: (frame) => {
      if (!isOver(frame, 30_000)) return null;
      const { renewals } = frame.counters;
      if (renewals === 0) return "never";
      return renewals <= 5 ? "few" : "steady";
    },
    explanation:
      "The holder renews at every interval, whether or not anybody else is interested. Two renewals may fail before the lease is in danger; the price is a steady trickle of requests.",
  },
  {
    id: "crash",
    title: "How long a dead leader lingers",
    task: "P1 dies just after a renewal. Watch the ring drain.",
    scenario: "crash",
    question: "When does another process lead?",
    choices: {
      atOnce: "Within a second: the others notice the crash",
      drained: "When what was left of the lease is over",
      never: "Never: P1 would have to give the lease back",
    },
    shown: ({ counters, settings, atMs }) => {
      const { lastMs } = counters.failOvers;
      if (lastMs === null) return atMs > 23_000 ? "never" : null;
      return lastMs < 1_000 && settings.ttlMs > 2_000 ? "atOnce" : "drained";
    },
    explanation:
      "The store cannot tell a dead holder from a slow one. It keeps the lease for its whole time, and only then grants it anew, with the next token. So a fail-over takes up to one lease time.",
  },
  {
    id: "pause",
    title: "A leader that sleeps too long",
    task: "P1 stands still in the middle of a write, and wakes up when P3 leads.",
    scenario: "pause",
    question: "What becomes of the write that P1 sends when it wakes up?",
    choices: {
      unsent: "It is never sent: the lease of P1 is over",
      accepted: "It is accepted: P1 had checked its lease",
      refused: "It is sent, and the resource refuses it",
    },
    shown: (frame) => {
      if (frame.counters.refusedWrites > 0) return "refused";
      if (frame.resource.corrupted > 0) return "accepted";
      return isOver(frame, endOf("pause")) ? "unsent" : null;
    },
    explanation:
      "No program can look at its lease and send a write in one step. What happens between the two only the resource can see: the write carries token 1, and token 2 has been there.",
  },
  {
    id: "unfenced",
    title: "The same without a fence",
    task: "The resource takes whatever comes. Look at its value when P1 wakes up.",
    scenario: "unfenced",
    question: "Who wrote the value that counts, after P1 has woken up?",
    choices: {
      newer: "P3, the present leader: P1 stepped down in time",
      older: "P1: it writes over what P3 wrote",
    },
    shown: (frame) => {
      if (frame.resource.corrupted > 0) return "older";
      return isOver(frame, endOf("unfenced")) ? "newer" : null;
    },
    explanation:
      "The lease did all that a lease can do, and P1 stepped down as soon as it looked. One write was under way by then, and nothing refused it.",
  },
  {
    id: "release",
    title: "Leaving politely",
    task: "After 8 s the leader resigns instead of dying.",
    scenario: "free",
    acts: [{ atMs: 8_000, act: { kind: "resign" } }],
    untilMs: 14_000,
    question: "How long does nobody lead?",
    choices: {
      moment: "For some round trips: less than a second",
      drained: "Until the lease would have run out",
    },
    shown: ({ counters: { failOvers }, atMs }) => {
      if (failOvers.lastMs !== null) return failOvers.lastMs < 1_000 ? "moment" : "drained";
      return atMs >= 14_000 ? "drained" : null;
    },
    explanation:
      "Who gives the lease back tells the store, and the store wakes the first in line. So a planned restart need not cost a lease time: stop the work, release, then exit.",
  },
  {
    id: "follower",
    title: "The death of a follower",
    task: "P2, which only waits, dies after 6 s.",
    scenario: "free",
    acts: [{ atMs: 6_000, act: { kind: "crash", node: "P2" } }],
    untilMs: 20_000,
    question: "What changes for the leader?",
    choices: {
      nothing: "Nothing",
      elected: "There is a new election",
      lost: "It loses its majority, and stops",
    },
    shown: (frame) => {
      if (frame.store.grants.length > 1) return "elected";
      if (frame.atMs < 20_000) return null;
      return frame.nodes[0]?.role === "leader" ? "nothing" : "lost";
    },
    explanation:
      "Candidates have no vote: the store alone decides. Only the death of the holder matters, and one process would be enough to go on.",
  },
  {
    id: "short",
    title: "A lease that is too short",
    task: "The lease lasts 2 s. After 8 s the leader stands still for 3 s, and did not crash.",
    scenario: "free",
    settings: { ttlMs: 2_000, renewEveryMs: 600 },
    acts: [
      { atMs: 8_000, act: { kind: "pause", node: "P1" } },
      { atMs: 11_000, act: { kind: "resume", node: "P1" } },
    ],
    untilMs: 14_000,
    question: "Is P1 still the leader afterwards?",
    choices: {
      yes: "Yes: it never crashed",
      no: "No: the pause was mistaken for a crash",
    },
    shown: ({ counters, atMs, nodes }) => {
      if (counters.falseExpirations > 0) return "no";
      return atMs >= 14_000 && nodes[0]?.role === "leader" ? "yes" : null;
    },
    explanation:
      "A short lease replaces a dead leader soon, and cannot tell a short pause from death. Try it with 10 s: the same pause goes by unnoticed.",
  },
  {
    id: "partition",
    title: "Cut off, and still at work",
    task: "P1 reaches the resource, and not the store. See when it stops to write.",
    scenario: "partition",
    question: "What keeps P1 from writing when P3 leads?",
    choices: {
      clock: "Its own clock: it stops before the store grants anew",
      fence: "The resource, which refuses its writes",
      nobody: "Nothing does: both write",
    },
    shown: ({ counters, store }) => {
      if (counters.staleWritesLetThrough > 0) return "nobody";
      if (counters.refusedWrites > 0) return "fence";
      return store.grants.length > 1 ? "clock" : null;
    },
    explanation:
      "A holder counts its time from before it asked, less what its clock may be slow. The store counts from later. So with clocks that keep time the holder always stops first.",
  },
  {
    id: "drift",
    title: "A clock that cannot be trusted",
    task: "As before, but P1's clocks run 30 % slow while holders allow for 1 %.",
    scenario: "drift",
    question: "What happens now?",
    choices: {
      clock: "P1 still stops first",
      both: "Both lead for a while, and the resource refuses P1's writes",
      corrupt: "Both write, and the data is corrupt",
    },
    shown: (frame) => {
      if (frame.resource.corrupted > 0) return "corrupt";
      const trust = frame.invariants.find(({ id }) => id === "trustWithinGrant");
      if (trust && !trust.holds) return frame.counters.refusedWrites > 0 ? "both" : null;
      return isOver(frame, endOf("drift")) ? "clock" : null;
    },
    explanation:
      "Beyond the drift that holders allow for, time proves nothing. The token does not depend on any clock: that is why the resource must check it.",
  },
  {
    id: "lostAnswer",
    title: "Granted, and not heard of it",
    task: "The store grants the lease to P1, and the answer is lost.",
    scenario: "lostAnswer",
    question: "Under which token does P1 lead at last?",
    choices: {
      same: "Token 1: the store knows the request when it comes again",
      next: "Token 2: asked again, the store grants again",
      blocked: "None for now: the lost grant blocks everybody until it runs out",
    },
    shown: ({ nodes, atMs }) => {
      const [p1] = nodes;
      if (p1?.role === "leader") return p1.token === 1 ? "same" : "next";
      return atMs > 9_000 ? "blocked" : null;
    },
    explanation:
      "Each request has a lease id, and P1 repeats it with the same one. The store finds its own grant under that id, and answers it again. Repeating is safe.",
  },
  {
    id: "herd",
    title: "All at once",
    task: "The store keeps no line. P1 dies, and the lease runs out.",
    scenario: "herd",
    question: "Four candidates ask in the same moment. How many of them lead?",
    choices: {
      one: "One: the store decides one request after the other",
      several: "Those whose requests arrive together",
      none: "None: they must ask again",
    },
    shown: (frame) => {
      const others = frame.nodes.filter(({ name, role }) => name !== "P1" && role === "leader");
      if (others.length > 1) return "several";
      if (others.length === 1) return "one";
      return isOver(frame, endOf("herd")) ? "none" : null;
    },
    explanation:
      "One comparison in the store decides, and only one request finds the lease free. A line at the store saves the other requests: then only the first in line asks.",
  },
];

function endOf(id: ScenarioId): number {
  return scenarioById(id).endsAtMs(newScript(id).settings);
}

/** In the order in which they teach most. */
export const EXPERIMENTS: readonly Experiment[] = PLANS.map((plan) => {
  const { scenario, settings = {}, acts = [], choices, untilMs = endOf(scenario), ...rest } = plan;
  return {
    ...rest,
    untilMs,
    script: () => ({ ...newScript(scenario, { settings }), acts }),
    choices: Object.entries(choices).map(([id, text]) => ({ id, text })),
  };
});
