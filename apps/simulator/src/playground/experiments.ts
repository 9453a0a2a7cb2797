/**
 * The guided experiments: a question, and a run that answers it. The answer is computed from the frames of
 * the run.
 */
import type { TimedAction } from "./actions.js";
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
  /** What happens, and what to watch. */
  readonly task: string;
  /** The run that answers the question. */
  readonly script: () => Script;
  /** When the run has answered it, in true time. */
  readonly untilMs: number;
  readonly question: string;
  readonly choices: readonly Choice[];
  /** The id of the choice that the run shows; null while it is open. */
  readonly shown: (frame: Frame) => string | null;
  readonly explanation: string;
}

/** An experiment without the parts that are derived. */
interface Plan extends Omit<Experiment, "script" | "untilMs" | "choices"> {
  readonly scenario: ScenarioId;
  readonly settings?: Partial<Settings>;
  readonly actions?: readonly TimedAction[];
  /** Default: the end of the scenario. */
  readonly untilMs?: number;
  readonly choices: Readonly<Record<string, string>>;
}

const isOver = (frame: Frame, untilMs: number) => frame.atMs >= untilMs;

const PLANS: readonly Plan[] = [
  {
    id: "cost",
    title: "The cost of a quiet leader",
    task: "Nothing goes wrong for 30 seconds. Count the renewals.",
    scenario: "renew",
    untilMs: 30_000,
    question: "The lease lasts 10 s and is renewed every 3.3 s. How often is it renewed in 30 s?",
    choices: {
      never: "Never: no other process wants to lead",
      few: "About 3 times: once per TTL",
      steady: "About 9 times: once per renewal interval",
    },
    shown: (frame) => {
      if (!isOver(frame, 30_000)) return null;
      const { renewals } = frame.counters;
      if (renewals === 0) return "never";
      return renewals <= 5 ? "few" : "steady";
    },
    explanation:
      "The holder renews at every interval, whether or not there are contenders. Two renewals can fail before the lease is at risk. The price is a steady stream of requests.",
  },
  {
    id: "crash",
    title: "How fast a crashed leader is replaced",
    task: "P1 crashes just after a renewal. Watch its ring drain.",
    scenario: "crash",
    question: "When does another process become the leader?",
    choices: {
      atOnce: "Within a second: the others notice the crash",
      drained: "When the rest of the lease has expired",
      never: "Never: P1 would have to release the lease",
    },
    shown: ({ counters, settings, atMs }) => {
      const { lastMs } = counters.failOvers;
      if (lastMs === null) return atMs > 23_000 ? "never" : null;
      return lastMs < 1_000 && settings.ttlMs > 2_000 ? "atOnce" : "drained";
    },
    explanation:
      "The store cannot tell a crashed holder from a slow one. It waits until the lease expires and then grants it again with the next token. So a failover takes up to one TTL.",
  },
  {
    id: "pause",
    title: "A leader that pauses too long",
    task: "P1 is paused in the middle of a write and resumes after P3 has become the leader.",
    scenario: "pause",
    question: "What happens to P1's write when P1 resumes?",
    choices: {
      unsent: "P1 never sends it: its lease has expired",
      accepted: "The resource accepts it: P1 had checked its lease",
      refused: "P1 sends it, and the resource refuses it",
    },
    shown: (frame) => {
      if (frame.counters.refusedWrites > 0) return "refused";
      if (frame.resource.corrupted > 0) return "accepted";
      return isOver(frame, endOf("pause")) ? "unsent" : null;
    },
    explanation:
      "No program can check its lease and send a write in one step. Only the resource can detect what happened in between: the write carries token 1, but the resource has already seen token 2.",
  },
  {
    id: "unfenced",
    title: "The same pause without fencing",
    task: "The resource accepts every write. Look at its value when P1 resumes.",
    scenario: "unfenced",
    question: "Which process wrote the final value after P1 has resumed?",
    choices: {
      newer: "P3, the current leader: P1 stepped down in time",
      older: "P1: it overwrites the value of P3",
    },
    shown: (frame) => {
      if (frame.resource.corrupted > 0) return "older";
      return isOver(frame, endOf("unfenced")) ? "newer" : null;
    },
    explanation:
      "P1 stepped down as soon as it checked its lease, which is all that a lease can achieve. By then one write was already on its way, and nothing refused it.",
  },
  {
    id: "release",
    title: "A graceful handover",
    task: "After 8 s the leader resigns instead of crashing.",
    scenario: "free",
    actions: [{ atMs: 8_000, action: { kind: "resign" } }],
    untilMs: 14_000,
    question: "How long is there no leader?",
    choices: {
      moment: "A few round trips: less than a second",
      drained: "Until the lease would have expired",
    },
    shown: ({ counters: { failOvers }, atMs }) => {
      if (failOvers.lastMs !== null) return failOvers.lastMs < 1_000 ? "moment" : "drained";
      return atMs >= 14_000 ? "drained" : null;
    },
    explanation:
      "A release tells the store that the lease is free, and the store wakes the first waiter. So a planned restart need not cost a TTL: stop the work, release the lease, then exit.",
  },
  {
    id: "follower",
    title: "A candidate crashes",
    task: "P2, which only waits, crashes after 6 s.",
    scenario: "free",
    actions: [{ atMs: 6_000, action: { kind: "crash", node: "P2" } }],
    untilMs: 20_000,
    question: "What changes for the leader?",
    choices: {
      nothing: "Nothing",
      elected: "There is a new election",
      lost: "It loses its majority and stops",
    },
    shown: (frame) => {
      if (frame.store.grants.length > 1) return "elected";
      if (frame.atMs < 20_000) return null;
      return frame.nodes[0]?.role === "leader" ? "nothing" : "lost";
    },
    explanation:
      "Candidates have no vote: the store alone decides. Only a crash of the holder matters, and a single process would be enough.",
  },
  {
    id: "short",
    title: "A lease that is too short",
    task: "The TTL is 2 s. After 8 s the leader is paused for 3 s, without a crash.",
    scenario: "free",
    settings: { ttlMs: 2_000, renewEveryMs: 600 },
    actions: [
      { atMs: 8_000, action: { kind: "pause", node: "P1" } },
      { atMs: 11_000, action: { kind: "resume", node: "P1" } },
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
      "A short TTL replaces a crashed leader quickly, but cannot tell a short pause from a crash. Try a TTL of 10 s: the same pause goes unnoticed.",
  },
  {
    id: "partition",
    title: "Partitioned, but still working",
    task: "P1 reaches the resource but not the store. Watch when it stops writing.",
    scenario: "partition",
    question: "What keeps P1 from writing once P3 leads?",
    choices: {
      clock: "Its own clock: it stops before the store grants the lease again",
      fence: "The resource, which refuses its writes",
      neither: "Nothing: both write",
    },
    shown: ({ counters, store }) => {
      if (counters.staleWritesLetThrough > 0) return "neither";
      if (counters.refusedWrites > 0) return "fence";
      return store.grants.length > 1 ? "clock" : null;
    },
    explanation:
      "A holder counts its trust from before it sent the request, minus an allowance for clock drift. The store counts from later. So while clocks stay within that drift, the holder always stops first.",
  },
  {
    id: "drift",
    title: "A clock that drifts too far",
    task: "The same partition, but P1's clocks run 30 % slow and holders allow for only 1 %.",
    scenario: "drift",
    question: "What happens now?",
    choices: {
      clock: "P1 still stops first",
      both: "Both lead for a while, but the resource refuses P1's writes",
      corrupt: "Both write and the data is corrupted",
    },
    shown: (frame) => {
      if (frame.resource.corrupted > 0) return "corrupt";
      const trust = frame.invariants.find(({ id }) => id === "trustWithinGrant");
      if (trust && !trust.holds) return frame.counters.refusedWrites > 0 ? "both" : null;
      return isOver(frame, endOf("drift")) ? "clock" : null;
    },
    explanation:
      "Beyond the drift that holders allow for, clocks guarantee nothing. The token does not depend on any clock, which is why the resource must check it.",
  },
  {
    id: "lostAnswer",
    title: "A lost answer",
    task: "The store grants the lease to P1, but the answer is lost.",
    scenario: "lostAnswer",
    question: "With which token does P1 lead in the end?",
    choices: {
      same: "Token 1: the store recognizes the retried request",
      next: "Token 2: the store grants the retried request anew",
      blocked: "None for now: the lost grant blocks every process until it expires",
    },
    shown: ({ nodes, atMs }) => {
      const [p1] = nodes;
      if (p1?.role === "leader") return p1.token === 1 ? "same" : "next";
      return atMs > 9_000 ? "blocked" : null;
    },
    explanation:
      "Each request has a lease id, and P1 retries with the same one. The store finds its grant by that id and returns it again, so a retry is safe.",
  },
  {
    id: "herd",
    title: "All candidates at once",
    task: "The store has no wait queue. P1 crashes and its lease expires.",
    scenario: "herd",
    question: "Four candidates request the lease at the same moment. How many of them lead?",
    choices: {
      one: "One: the store handles one request at a time",
      several: "All whose requests arrive together",
      none: "None: they must retry",
    },
    shown: (frame) => {
      const others = frame.nodes.filter(({ name, role }) => name !== "P1" && role === "leader");
      if (others.length > 1) return "several";
      if (others.length === 1) return "one";
      return isOver(frame, endOf("herd")) ? "none" : null;
    },
    explanation:
      "Each request is one atomic comparison in the store, and only one of them finds the lease free. A wait queue avoids the other requests: then only the first waiter retries.",
  },
];

function endOf(id: ScenarioId): number {
  return scenarioById(id).endsAtMs(newScript(id).settings);
}

/** In teaching order. */
export const EXPERIMENTS: readonly Experiment[] = PLANS.map((plan) => {
  const {
    scenario,
    settings = {},
    actions = [],
    choices,
    untilMs = endOf(scenario),
    ...rest
  } = plan;
  return {
    ...rest,
    untilMs,
    script: () => ({ ...newScript(scenario, { settings }), actions }),
    choices: Object.entries(choices).map(([id, text]) => ({ id, text })),
  };
});
