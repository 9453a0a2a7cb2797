/** The knobs of a run: what each means, its range, and what fits together. */

/** The processes that contend. */
export const NODES = ["P1", "P2", "P3", "P4", "P5"] as const;
export type NodeName = (typeof NODES)[number];

/** One value for each of {@link NODES}, in their order. */
export type PerNode = readonly [number, number, number, number, number];

export interface Settings {
  /** How long a grant lasts unless it is renewed. */
  readonly ttlMs: number;
  /** How often the holder renews; the real code moves each renewal by up to 10 %. */
  readonly renewEveryMs: number;
  /** How long a message takes one way, give or take a fifth. */
  readonly latencyMs: number;
  /** How many messages are lost. */
  readonly lossPercent: number;
  /** By how much a holder's clock may be slower than the store's, as the holders allow for it. */
  readonly driftRatioPercent: number;
  /** How often the leader writes to the protected resource. */
  readonly writeEveryMs: number;
  /** How long a process waits for an answer of the store before it asks again. */
  readonly answerTimeoutMs: number;
  /** Whether the resource refuses tokens older than the newest that it has seen. */
  readonly fenced: boolean;
  /** Whether the store keeps those who wait in line; else all ask at the same moment. */
  readonly queued: boolean;
  /** By how much each clock is faster (or, below zero, slower) than true time. */
  readonly clockPercents: PerNode;
  /** When each process starts: also the order in which they stand in line. */
  readonly startsMs: PerNode;
}

/** The settings that are one number. */
export type NumberSetting = {
  [Name in keyof Settings]: Settings[Name] extends number ? Name : never;
}[keyof Settings];

export interface Range {
  readonly min: number;
  readonly max: number;
  /** Of a slider. */
  readonly step: number;
  readonly label: string;
  readonly unit: "ms" | "%";
  /** One sentence for a learner. */
  readonly help: string;
}

/** What each number may be. */
export const RANGES: Readonly<Record<NumberSetting, Range>> = {
  ttlMs: {
    min: 1_000,
    max: 60_000,
    step: 500,
    label: "Lease time (ttl)",
    unit: "ms",
    help: "Longer outlives longer pauses; shorter replaces a dead leader sooner.",
  },
  renewEveryMs: {
    min: 100,
    max: 50_000,
    step: 100,
    label: "Renewal interval",
    unit: "ms",
    help: "A third of the lease time leaves room for two renewals that fail.",
  },
  latencyMs: {
    min: 1,
    max: 2_000,
    step: 10,
    label: "Network latency",
    unit: "ms",
    help: "One way; a question and its answer take twice as long.",
  },
  lossPercent: {
    min: 0,
    max: 60,
    step: 1,
    label: "Messages lost",
    unit: "%",
    help: "Whose answer was lost cannot know whether the store has acted.",
  },
  driftRatioPercent: {
    min: 0,
    max: 50,
    step: 1,
    label: "Drift that holders allow for",
    unit: "%",
    help: "A holder stops this much earlier, in case its clock is slow.",
  },
  writeEveryMs: {
    min: 200,
    max: 10_000,
    step: 100,
    label: "Leader writes every",
    unit: "ms",
    help: "Each write carries the token of the leader's lease.",
  },
  answerTimeoutMs: {
    min: 100,
    max: 5_000,
    step: 100,
    label: "Patience for an answer",
    unit: "ms",
    help: "After this long a process takes an answer for lost, and asks again.",
  },
};

/** Of each clock, in percent of true time. */
export const CLOCK_RANGE = { min: -50, max: 50, step: 1 } as const;
/** Of each start. */
export const START_RANGE = { min: 0, max: 60_000, step: 100 } as const;

export const DEFAULTS: Settings = {
  ttlMs: 10_000,
  renewEveryMs: 3_300,
  latencyMs: 60,
  lossPercent: 0,
  driftRatioPercent: 1,
  writeEveryMs: 1_000,
  answerTimeoutMs: 1_000,
  fenced: true,
  queued: true,
  clockPercents: [0, 0, 0, 0, 0],
  // P3 comes second, and so stands first in line.
  startsMs: [0, 1_200, 600, 1_800, 2_400],
};

/** As the real code has them by default. */
const MARGIN_MS = 10;
const JITTER_RATIO = 0.1;

/** The longest renewal interval that goes with the others: a renewal must come while trust lasts. */
export function longestRenewEveryMs({
  ttlMs,
  driftRatioPercent,
}: Pick<Settings, "ttlMs" | "driftRatioPercent">): number {
  const trustMs = ttlMs * (1 - driftRatioPercent / 100) - MARGIN_MS;
  return Math.floor((trustMs - 1) / (1 + JITTER_RATIO));
}

/** A round trip at its slowest: whoever waits for less hears of nothing. */
function leastAnswerTimeoutMs(latencyMs: number): number {
  return Math.min(RANGES.answerTimeoutMs.max, Math.ceil(2.5 * latencyMs));
}

/**
 * The settings with every value in its range, a renewal interval that fits, and patience that outlasts
 * a round trip. For sliders.
 */
export function fitSettings(settings: Settings): Settings {
  const fitted: Record<string, unknown> = { ...settings };
  for (const [name, { min, max }] of Object.entries(RANGES)) {
    fitted[name] = clamp(settings[name as NumberSetting], min, max);
  }
  const all = (values: PerNode, { min, max }: { min: number; max: number }) =>
    values.map((value) => clamp(value, min, max)) as unknown as PerNode;
  fitted["clockPercents"] = all(settings.clockPercents, CLOCK_RANGE);
  fitted["startsMs"] = all(settings.startsMs, START_RANGE);
  const result = fitted as unknown as Settings;
  const ttlMs = Math.round(result.ttlMs);
  const longestMs = longestRenewEveryMs({ ...result, ttlMs });
  return {
    ...result,
    ttlMs,
    renewEveryMs: Math.min(result.renewEveryMs, longestMs),
    answerTimeoutMs: Math.max(result.answerTimeoutMs, leastAnswerTimeoutMs(result.latencyMs)),
  };
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, Number.isFinite(value) ? value : min));
}
