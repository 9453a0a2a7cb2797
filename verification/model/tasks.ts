/** Random programs of two clients that enqueue tasks and work on them. */
import fc from "fast-check";
import { type Counts, type Family, type Program, single } from "./family.js";
import { anyLoss, losing, pausing } from "./faults.js";
import { TaskRun } from "./task-run.js";
import type { TaskStep } from "./task-step.js";

const client = fc.nat(1);
const latest = fc.nat(3);

const step: fc.Arbitrary<TaskStep> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("enqueue"),
      client,
      kind: fc.nat(1),
      priority: fc.constantFrom(0, -1, 1),
      dedupe: fc.constantFrom(null, null, "a", "b"),
      inMs: fc.constantFrom(null, null, 100, 1_500),
      maxAttempts: fc.integer({ min: 1, max: 3 }),
      crashLimit: fc.integer({ min: 1, max: 2 }),
      maxRunMs: fc.constantFrom(null, null, null, 200, 1_000),
      startByMs: fc.constantFrom(null, null, null, 150, 1_200),
      again: fc.constantFrom(null, null, null, null, 0, 2),
      isStubborn: fc.constantFrom(false, false, true),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("work"),
      client,
      concurrency: fc.integer({ min: 1, max: 2 }),
      ttlMs: fc.constantFrom(300, 1_000, 3_000),
      kinds: fc.integer({ min: 1, max: 2 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("stop"), client }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("end"),
      job: latest,
      how: fc.constantFrom("complete", "complete", "fail", "fail", "final", "later"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("progress"), job: latest }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("cancel", "retry", "get"),
      client,
      task: latest,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("counts", "close"), client }) },
  { weight: 2, arbitrary: pausing(client, [50, 400, 1_500, 4_000]) },
  {
    weight: 3,
    arbitrary: losing(client, [
      "enqueue",
      "claim",
      "heartbeat",
      "complete",
      "fail",
      "requeue",
      "cancel",
    ]),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.constantFrom(0, 1, 3, 20, 100, 300, 1_100, 3_500),
    }),
  },
);

const plain = {
  do: "enqueue",
  kind: 0,
  priority: 0,
  dedupe: null,
  inMs: null,
  maxAttempts: 3,
  crashLimit: 2,
  maxRunMs: null,
  startByMs: null,
  again: null,
  isStubborn: false,
} as const;

/** What random steps seldom lead to. */
const scene: fc.Arbitrary<readonly TaskStep[]> = fc
  .tuple(fc.nat(1), fc.nat(7), fc.boolean(), anyLoss)
  .map(([first, which, isStubborn, message]) => {
    const client = first;
    const begin: TaskStep[] = [
      { do: "work", client, concurrency: 2, ttlMs: 1_000, kinds: 2 },
      { ...plain, client, isStubborn },
      { do: "pass", ms: 100 },
    ];
    const lose = { do: "lose", client, message, times: 1 } as const;
    const scenes: readonly (readonly TaskStep[])[] = [
      [...begin, { ...lose, of: "complete" }, { do: "end", job: 0, how: "complete" }],
      [...begin, { ...lose, of: "fail" }, { do: "end", job: 0, how: "fail" }],
      [...begin, { ...lose, of: "heartbeat" }, { do: "pass", ms: 1_100 }],
      [{ ...lose, of: "claim" }, ...begin, { do: "pass", ms: 300 }],
      // The worker closes while its handler runs on.
      [...begin, { ...lose, of: "requeue" }, { do: "stop", client }, { do: "pass", ms: 1_100 }],
      // A worker is paused until another one has its task.
      [
        ...begin,
        { do: "work", client: 1 - client, concurrency: 2, ttlMs: 1_000, kinds: 2 },
        { do: "end", job: 0, how: "complete" },
        { do: "pause", client, ms: 4_000 },
        { do: "pass", ms: 3_500 },
        { do: "pass", ms: 1_100 },
        { do: "end", job: 0, how: "complete" },
      ],
      [...begin, { do: "cancel", client: 1 - client, task: 0 }, { do: "end", job: 0, how: "fail" }],
      // A handler runs for too long, and may heed its signal.
      [
        ...begin,
        { ...plain, client, isStubborn, maxRunMs: 200 },
        { ...plain, client, startByMs: 150 },
        { do: "pass", ms: 300 },
        { do: "pass", ms: 1_100 },
        { do: "end", job: 0, how: "later" },
      ],
    ];
    return scenes[which] ?? [];
  });

const EXPECTED = [
  ...["enqueued", "duplicate", "conflict", "closed"].map((outcome) => `enqueue: ${outcome}`),
  ...["ok", "conflict", "unavailable"].map((outcome) => `cancel: ${outcome}`),
  ...["ok", "conflict"].map((outcome) => `retry: ${outcome}`),
  "get: answered",
  "counts: answered",
  "stop: done",
  "close: done",
  "pause: over",
  ...[
    "begins",
    "completes",
    "fails",
    "fails for good",
    "stops",
    "is put off",
    "reports progress",
  ].map((what) => `handler: ${what}`),
  ...["expired", "revoked"].map((reason) => `lost: ${reason}`),
  ...[
    "enqueue repeated",
    "enqueue of another content",
    "enqueue of a duplicate",
    "claim repeated",
    "task claimed",
    "claim of several",
    "heartbeat confirmed",
    "completed",
    "complete repeated",
    "failed",
    "fail repeated",
    "requeued",
    "requeue repeated",
    "postponed",
    "failed by time",
    "reaped, expired",
    "complete refused, cancelled",
    "reaped, pending",
    "reaped, dead",
    "heartbeat refused, cancelled",
  ].map((outcome) => `store: ${outcome}`),
  ...["enqueue", "claim", "heartbeat", "complete", "fail", "requeue"].flatMap((operation) =>
    ["request", "reply", "reset"].map((loss) => `lost ${loss} of ${operation}`),
  ),
];

export const TASKS: Family<TaskStep> = {
  name: "tasks",
  usualPrograms: 300,
  steps: fc.oneof({ weight: 6, arbitrary: single(step) }, { weight: 1, arbitrary: scene }),
  expected: EXPECTED,
  async run({ seed, steps }: Program<TaskStep>): Promise<Counts> {
    const run = await TaskRun.open(seed);
    for (const each of steps) await run.step(each);
    await run.end();
    return run.site.world.covered;
  },
};
