/** The settings of a run, their ranges, and the rules by which they fit together. */

/** The processes that contend. */
export const NODES = ["P1", "P2", "P3", "P4", "P5"] as const;
export type NodeName = (typeof NODES)[number];

/** One value for each of {@link NODES}, in their order. */
export type PerNode = readonly [number, number, number, number, number];

export interface Settings {
  /** How long a grant lasts unless it is renewed. */
  readonly ttlMs: number;
  /** How often the holder renews; the real code adds up to 10 % of jitter. */
  readonly renewEveryMs: number;
  /** How long a message takes one way, plus or minus 20 %. */
  readonly latencyMs: number;
  /** The share of messages that are lost. */
  readonly lossPercent: number;
  /** How much slower than the store's clock a holder allows its clock to be. */
  readonly driftRatioPercent: number;
  /** How often the leader writes to the protected resource. */
  readonly writeEveryMs: number;
  /** How long a process waits for an answer before it retries. */
  readonly answerTimeoutMs: number;
  /** Whether the resource refuses tokens older than the newest one it has seen. */
  readonly fenced: boolean;
  /** Whether the store has a wait queue; without one all waiters retry at the same moment. */
  readonly queued: boolean;
  /** How much faster than true time each clock runs; negative values are slower. */
  readonly clockPercents: PerNode;
  /** When each process starts, which is also the order of the queue. */
  readonly startsMs: PerNode;
}

/** The settings that are one number. */
export type NumberSetting = {
  [Name in keyof Settings]: Settings[Name] extends number ? Name : never;
}[keyof Settings];

export interface Range {
  readonly min: number;
  readonly max: number;
  /** The step of the slider. */
  readonly step: number;
  readonly label: string;
  readonly unit: "ms" | "%";
  /** One sentence for a learner. */
  readonly help: string;
}

/** The range and the texts of each number. */
export const RANGES: Readonly<Record<NumberSetting, Range>> = {
  ttlMs: {
    min: 1_000,
    max: 60_000,
    step: 500,
    label: "Lease TTL",
    unit: "ms",
    help: "A longer TTL survives longer pauses; a shorter one replaces a crashed leader sooner.",
  },
  renewEveryMs: {
    min: 100,
    max: 50_000,
    step: 100,
    label: "Renewal interval",
    unit: "ms",
    help: "At a third of the TTL, two renewals can fail before the lease is lost.",
  },
  latencyMs: {
    min: 1,
    max: 2_000,
    step: 10,
    label: "Network latency",
    unit: "ms",
    help: "One way; a round trip takes twice as long.",
  },
  lossPercent: {
    min: 0,
    max: 60,
    step: 1,
    label: "Message loss",
    unit: "%",
    help: "If an answer is lost, the process cannot know whether its request succeeded.",
  },
  driftRatioPercent: {
    min: 0,
    max: 50,
    step: 1,
    label: "Allowed clock drift",
    unit: "%",
    help: "Holders stop this much earlier, in case their clock is slow.",
  },
  writeEveryMs: {
    min: 200,
    max: 10_000,
    step: 100,
    label: "Write interval",
    unit: "ms",
    help: "The leader writes this often. Each write carries its fencing token.",
  },
  answerTimeoutMs: {
    min: 100,
    max: 5_000,
    step: 100,
    label: "Request timeout",
    unit: "ms",
    help: "A process retries if no answer arrives within this time.",
  },
};

/** The range of each clock, in percent of true time. */
export const CLOCK_RANGE = { min: -50, max: 50, step: 1 } as const;
/** The range of each start. */
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
  // P3 starts second, so it is first in the queue.
  startsMs: [0, 1_200, 600, 1_800, 2_400],
};

/** The defaults of the real code. */
const MARGIN_MS = 10;
const JITTER_RATIO = 0.1;

/** The longest renewal interval that fits the other settings: a renewal must come while trust lasts. */
export function longestRenewEveryMs({
  ttlMs,
  driftRatioPercent,
}: Pick<Settings, "ttlMs" | "driftRatioPercent">): number {
  const trustMs = ttlMs * (1 - driftRatioPercent / 100) - MARGIN_MS;
  return Math.floor((trustMs - 1) / (1 + JITTER_RATIO));
}

/** The slowest round trip. With a shorter timeout no answer would arrive in time. */
function leastAnswerTimeoutMs(latencyMs: number): number {
  return Math.min(RANGES.answerTimeoutMs.max, Math.ceil(2.5 * latencyMs));
}

/**
 * The settings with every value in its range, a renewal interval that fits, and a request timeout longer
 * than a round trip.
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
