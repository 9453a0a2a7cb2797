/** Random programs of three clients that contend for two resources. */
import fc from "fast-check";
import { type Counts, type Family, type Program, single } from "./family.js";
import { anyLoss, losing, pausing } from "./faults.js";
import { LeaseRun } from "./lease-run.js";
import type { LeaseStep } from "./lease-step.js";

const client = fc.nat(2);
/** The first one more often: programs are about contention. */
const resource = fc.constantFrom(0, 0, 0, 1);
/** Of those so far, counted from the latest. */
const latest = fc.nat(3);

const acquire = fc.record({
  do: fc.constantFrom("acquire", "acquire", "tryAcquire"),
  client,
  resource,
  ttlMs: fc.constantFrom(1_000, 300, 3_000, 20),
  waitMs: fc.constantFrom(null, 0, 40, 700, 2_500),
  autoRenew: fc.boolean(),
});

const step: fc.Arbitrary<LeaseStep> = fc.oneof(
  { weight: 12, arbitrary: acquire },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.constantFrom(0, 1, 3, 20, 100, 300, 600, 1_100, 3_500),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("renew"),
      lease: latest,
      ttlMs: fc.constantFrom(null, 300, 5_000, 20),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("release"), lease: latest }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("write"), lease: latest }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("revoke"),
      client,
      resource,
      free: fc.constantFrom("now", "atExpiry"),
      expect: fc.constantFrom("none", "last", "wrong"),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("get"), client, resource }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("abort"), call: latest }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("close"), client }) },
  { weight: 2, arbitrary: pausing(client, [50, 400, 1_500, 4_000]) },
  { weight: 3, arbitrary: losing(client, ["acquire", "renew", "release", "revoke", "get"]) },
);

/** The first of two clients has a lease that the second one waits for. */
function waiting(holder: number, waiter: number, ttlMs: number, autoRenew: boolean): LeaseStep[] {
  const of = { resource: 0, ttlMs, waitMs: null, autoRenew } as const;
  return [
    { do: "acquire", client: holder, ...of },
    { do: "pass", ms: 3 },
    { do: "acquire", client: waiter, ...of },
    { do: "pass", ms: 20 },
  ];
}

/** What random steps seldom lead to. */
const scene: fc.Arbitrary<readonly LeaseStep[]> = fc
  .tuple(fc.nat(2), fc.nat(10), fc.boolean(), anyLoss)
  .map(([first, which, autoRenew, message]) => {
    const second = (first + 1) % 3;
    const acquire = { do: "acquire", resource: 0, ttlMs: 1_000, autoRenew } as const;
    const lose = { do: "lose", client: first } as const;
    const scenes: readonly (readonly LeaseStep[])[] = [
      // The waiter at the head is paused when the resource is free.
      [
        ...waiting(first, second, 300, false),
        { do: "pause", client: second, ms: 1_500 },
        { do: "pass", ms: 300 },
        { ...acquire, do: "tryAcquire", client: first, waitMs: null },
        { do: "pass", ms: 600 },
        { ...acquire, do: "tryAcquire", client: first, waitMs: null },
        { do: "pass", ms: 3 },
      ],
      // A holder that an operator has overruled writes late.
      [
        ...waiting(first, second, 3_000, autoRenew),
        { do: "revoke", client: second, resource: 0, free: "now", expect: "none" },
        { do: "pass", ms: 100 },
        { do: "write", lease: 0 },
        { do: "write", lease: 1 },
      ],
      [
        { ...lose, message: "reset", of: "acquire", times: 1 },
        { ...acquire, client: first, waitMs: autoRenew ? null : 0 },
        { do: "pass", ms: 600 },
      ],
      // The grant whose answer was lost is revoked before its acquire is repeated.
      [
        { ...lose, message: "reset", of: "acquire", times: 1 },
        { ...acquire, client: first, waitMs: null },
        { do: "pass", ms: 3 },
        { do: "revoke", client: second, resource: 0, free: "now", expect: "none" },
        { do: "pass", ms: 1_100 },
      ],
      [
        { ...acquire, client: first, waitMs: null },
        { do: "pass", ms: 20 },
        { ...lose, message: "reset", of: "release", times: 3 },
        { do: "release", lease: 0 },
        { do: "pass", ms: 600 },
      ],
      [
        ...waiting(first, second, 3_000, autoRenew),
        { ...lose, message, of: "renew", times: 1 },
        { do: "renew", lease: 0, ttlMs: null },
        { do: "renew", lease: 0, ttlMs: 5_000 },
        { do: "pass", ms: 1_100 },
        { ...lose, message, of: "release", times: 1 },
        { do: "release", lease: 0 },
        { do: "pass", ms: 600 },
      ],
      [
        { ...acquire, client: first, waitMs: null },
        { do: "pass", ms: 20 },
        { do: "renew", lease: 0, ttlMs: null },
        { do: "renew", lease: 0, ttlMs: 5_000 },
        { do: "pass", ms: 100 },
      ],
      // A holder that does not know that it was renewed gives the resource up.
      [
        { ...acquire, client: first, waitMs: null, autoRenew: true },
        { do: "pass", ms: 3 },
        { ...lose, message: "reply", of: "renew", times: 9 },
        { do: "pass", ms: 1_000 },
        { do: "release", lease: 0 },
        { do: "pass", ms: 100 },
      ],
      // The second of two callers of a waiting client gives up.
      [
        ...waiting(first, second, 3_000, true),
        { ...acquire, client: second, waitMs: 40 },
        { ...acquire, client: second, waitMs: null },
        { do: "pass", ms: 300 },
      ],
      [
        { ...lose, message, of: "revoke", times: 1 },
        { ...acquire, client: second, waitMs: 0 },
        { do: "pass", ms: 20 },
        { do: "revoke", client: first, resource: 0, free: "now", expect: "last" },
      ],
      [
        { ...lose, message: autoRenew ? "reply" : "request", of: "get", times: 1 },
        { do: "get", client: first, resource: 0 },
        ...waiting(first, second, 300, true),
        { do: "pause", client: first, ms: 1_500 },
        { do: "pass", ms: 1_600 },
        { do: "renew", lease: 1, ttlMs: null },
      ],
    ];
    return scenes[which] ?? [];
  });

const EXPECTED = [
  ...["granted", "granted after a wait", "timed out", "aborted", "closed", "unavailable"].map(
    (outcome) => `acquire: ${outcome}`,
  ),
  ...["granted", "refused", "aborted", "closed", "unavailable"].map(
    (outcome) => `tryAcquire: ${outcome}`,
  ),
  "acquire: invalid",
  "tryAcquire: invalid",
  ...["confirmed", "lost", "of a released lease", "unavailable", "invalid"].map(
    (outcome) => `renew: ${outcome}`,
  ),
  ...["confirmed", "of a lost lease", "repeated", "unavailable"].map(
    (outcome) => `release: ${outcome}`,
  ),
  ...["revoked", "notHeld", "otherToken", "closed", "unavailable"].map(
    (outcome) => `revoke: ${outcome}`,
  ),
  ...["answered", "closed", "unavailable"].map((outcome) => `get: ${outcome}`),
  ...["expired", "revoked", "taken"].map((reason) => `lost: ${reason}`),
  "write: admitted",
  "write: stale",
  "close: with leases",
  "close: without leases",
  "close: repeated",
  "pause: over",
  ...["repeated", "ended", "refused", "reserved for a waiter", "granted"].map(
    (outcome) => `store: acquire ${outcome}`,
  ),
  "store: a waiter passed over",
  ...["revoked", "taken"].map((reason) => `store: renew refused, ${reason}`),
  "store: release of nothing held",
  ...["acquire", "renew", "release", "revoke"].flatMap((operation) =>
    ["request", "reply", "reset"].map((loss) => `lost ${loss} of ${operation}`),
  ),
  "lost request of get",
  "lost reply of get",
];

export const LEASES: Family<LeaseStep> = {
  name: "leases",
  usualPrograms: 300,
  steps: fc.oneof({ weight: 12, arbitrary: single(step) }, { weight: 1, arbitrary: scene }),
  expected: EXPECTED,
  async run({ seed, steps }: Program<LeaseStep>): Promise<Counts> {
    const run = await LeaseRun.open(seed);
    for (const each of steps) await run.step(each);
    await run.end();
    return run.site.world.covered;
  },
};
