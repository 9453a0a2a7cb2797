import { expect, it } from "vitest";
import { comesBefore, explain, type Surroundings } from "./explain.js";

const NOW = "2020-01-01T12:00:00.000Z";
const LATER = "2020-01-01T12:00:10.000Z";
const TASK: Parameters<typeof explain>[0] = {
  id: "a",
  state: "pending",
  kind: "mail",
  queue: "q",
  scheduledAt: NOW,
  priority: 0,
  version: 1,
  holder: null,
  token: null,
  remainingMs: null,
  error: null,
  failures: 0,
  crashes: 0,
  maxAttempts: 3,
  crashLimit: 2,
  startBy: null,
};
const AROUND: Surroundings = {
  nowMs: Date.parse(NOW),
  pause: null,
  blocked: null,
  limits: [],
  ahead: 0,
  more: false,
  claimers: [{ queues: ["other", "q"], kinds: null }],
};

const KEY = {
  queue: "q",
  kind: "mail",
  key: "ada",
  perKey: 1,
  order: "fifo",
  pending: 2,
  usedUpUntil: null,
} as const;
const LIMIT = {
  namespace: "default",
  scope: "kind",
  name: "mail",
  running: null,
  rate: null,
  declaredAt: LATER,
  declaredBy: "w-1",
  live: 0,
  by: [],
  started: 0,
  usedUpUntil: null,
} as const;
const PAUSE = { actor: "key:1", reason: "upgrade" };
it.each([
  ["due", {}, {}, ["due: it is due: the next worker that asks gets it"]],
  ["not due", { scheduledAt: LATER }, {}, [`scheduled: it is scheduled for ${LATER}`]],
  ["paused", {}, { pause: PAUSE }, ["paused: the queue q is paused by key:1: upgrade"]],
  [
    "of a kind that no worker claims",
    {},
    { claimers: [{ queues: ["q"], kinds: ["other"] }] },
    ["noWorker: no worker has asked this instance for the kind mail of the queue q of late"],
  ],
  [
    "of a key that runs as many as it may",
    {},
    { blocked: { ...KEY, by: [{ id: "b", state: "running", holder: "w-1", until: LATER }] } },
    ["key: of the concurrency key ada, 1 task runs at a time: b (w-1)"],
  ],
  [
    "of a key whose rate is used up",
    {},
    { blocked: { ...KEY, by: [], rate: { limit: 2, perMs: 60_000 }, usedUpUntil: LATER } },
    [`rate: of the concurrency key ada, 2 tasks start within 60s: the next may start at ${LATER}`],
  ],
  [
    "of a kind of which as many run as may",
    {},
    {
      limits: [
        {
          ...LIMIT,
          running: 1,
          live: 1,
          by: [{ id: "b", state: "running", holder: "w-1", until: LATER }],
        },
        { ...LIMIT, running: 2, live: 1 },
      ],
    },
    ["limit: of the kind mail, 1 task runs at a time: b (w-1)"],
  ],
  [
    "of a queue whose rate is used up",
    {},
    {
      limits: [
        { ...LIMIT, scope: "queue", name: "q", rate: { limit: 1, perMs: 500 }, usedUpUntil: LATER },
      ],
    },
    [`rate: of the queue q, 1 task starts within 500ms: the next may start at ${LATER}`],
  ],
  [
    "of a key whose head waits for its retry",
    {},
    { blocked: { ...KEY, by: [{ id: "b", state: "pending", holder: null, until: LATER }] } },
    [`key: the task b of the concurrency key ada comes before it, and is tried again at ${LATER}`],
  ],
  [
    "the head of its key itself",
    { scheduledAt: LATER },
    { blocked: { ...KEY, by: [{ id: "a", state: "pending", holder: null, until: LATER }] } },
    [`scheduled: it is scheduled for ${LATER}`],
  ],
  ["behind", {}, { ahead: 1 }, ["behind: 1 due task comes before it in the queue q"]],
  [
    "behind many",
    {},
    { ahead: 900, more: true },
    ["behind: at least 900 due tasks come before it in the queue q"],
  ],
  [
    "perhaps behind tasks that were not listed",
    {},
    { more: true },
    ["behind: more tasks wait in the queue q than were looked at: some may come before it"],
  ],
  [
    "not due, whatever comes before it, and paused",
    { scheduledAt: LATER },
    { ahead: 5, pause: PAUSE },
    [`scheduled: it is scheduled for ${LATER}`, "paused: the queue q is paused by key:1: upgrade"],
  ],
  [
    "running",
    { state: "running", holder: "w", token: 7, remainingMs: 5 },
    { pause: PAUSE },
    ["running: w works on it with token 7"],
  ],
  [
    "of a worker that is late",
    { state: "running", holder: "w", token: 7, remainingMs: 0 },
    {},
    ["running: the lease of w has expired: it is requeued at once"],
  ],
  [
    "dead of failures",
    { state: "dead", failures: 3, error: "no disk" },
    {},
    ["dead: it failed 3 times, of 3 that are allowed: no disk"],
  ],
  [
    "dead of crashes",
    { state: "dead", crashes: 2 },
    {},
    ["dead: its lease expired 2 times, of 2 that are allowed"],
  ],
  [
    "dead at once",
    { state: "dead", failures: 1, error: "no" },
    {},
    ["dead: its last error was final: no"],
  ],
  ["done", { state: "done" }, {}, ["done: it is done"]],
  ["cancelled", { state: "cancelled" }, {}, ["cancelled: it was cancelled"]],
] as const)("says of a task that is %s why it does not run", (_, task, around, expected) => {
  const reasons = explain({ ...TASK, ...task }, undefined, { ...AROUND, ...around });
  expect(reasons.map(({ code, text }) => `${code}: ${text}`)).toEqual(expected);
});

it("tells a pause after a failure from a time that was chosen", () => {
  const task = { ...TASK, scheduledAt: LATER, failures: 1 };
  expect(explain(task, { result: "failed" }, AROUND)).toEqual([
    {
      code: "retrying",
      inMs: 10_000,
      ahead: null,
      text: `attempt 1 of 3 failed; it is tried again at ${LATER}`,
    },
  ]);
});

it("orders as a claim does", () => {
  const tasks = [
    { id: "b", priority: 0, scheduledAt: NOW },
    { id: "c", priority: -1, scheduledAt: LATER },
    { id: "a", priority: 0, scheduledAt: NOW },
    { id: "d", priority: 0, scheduledAt: "2020-01-01T11:00:00.000Z" },
  ];
  const sorted = tasks.toSorted((a, b) =>
    comesBefore(a, b, tasks.indexOf(a) < tasks.indexOf(b)) ? -1 : 1,
  );
  expect(sorted.map(({ id }) => id)).toEqual(["c", "d", "b", "a"]);
});
