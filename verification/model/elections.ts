/** Random programs of two candidates of one election. */
import fc from "fast-check";
import { ElectionRun } from "./election-run.js";
import type { ElectionStep } from "./election-step.js";
import { type Counts, type Family, type Program, single } from "./family.js";
import { losing, pausing } from "./faults.js";

const client = fc.nat(1);

const step: fc.Arbitrary<ElectionStep> = fc.oneof(
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant("campaign"),
      client,
      stoppingMs: fc.constantFrom(0, 50, 1_500),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("leave"), client }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("runIfLeader"), client }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("end"),
      client,
      how: fc.constantFrom("return", "return", "throw"),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("resign"), client, successor: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("revoke"),
      client,
      free: fc.constantFrom("now", "atExpiry"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("close"), client }) },
  { weight: 2, arbitrary: pausing(client, [50, 400, 1_500, 4_000]) },
  { weight: 3, arbitrary: losing(client, ["acquire", "renew", "release", "get"]) },
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.constantFrom(0, 1, 3, 20, 100, 300, 1_100, 3_500),
    }),
  },
);

/** What random steps seldom lead to: both campaign, and the first one leads. */
const scene: fc.Arbitrary<readonly ElectionStep[]> = fc
  .tuple(fc.nat(1), fc.nat(4), fc.constantFrom(0, 50, 1_500))
  .map(([first, which, stoppingMs]) => {
    const client = first;
    const other = 1 - first;
    const begin: ElectionStep[] = [
      { do: "campaign", client, stoppingMs },
      { do: "pass", ms: 20 },
      { do: "campaign", client: other, stoppingMs: 0 },
      { do: "pass", ms: 100 },
    ];
    const scenes: readonly (readonly ElectionStep[])[] = [
      [...begin, { do: "resign", client, successor: true }, { do: "pass", ms: 300 }],
      // A successor that does not take over.
      [
        ...begin,
        { do: "pause", client: other, ms: 1_500 },
        { do: "resign", client, successor: true },
        { do: "pass", ms: 3_500 },
      ],
      [
        ...begin,
        { do: "runIfLeader", client },
        { do: "revoke", client: other, free: "now" },
        { do: "pass", ms: 1_100 },
      ],
      [...begin, { do: "leave", client }, { do: "pass", ms: 1_100 }],
      [...begin, { do: "pause", client, ms: 4_000 }, { do: "pass", ms: 3_500 }],
    ];
    return scenes[which] ?? [];
  });

const EXPECTED = [
  ...["over", "still running", "threw"].map((outcome) => `lead: ${outcome}`),
  ...["begins", "returns", "throws", "stops", "is overdue"].map((what) => `term: ${what}`),
  ...["done", "to a successor", "in vain", "still running"].map((outcome) => `resign: ${outcome}`),
  ...["done", "not leader", "lost"].map((outcome) => `runIfLeader: ${outcome}`),
  ...["expired", "revoked"].map((reason) => `lost: ${reason}`),
  ...["a leader", "no leader"].map((what) => `observed: ${what}`),
  "campaign: refused",
  "close: done",
  "pause: over",
  "store: acquire refused",
  ...["acquire", "renew", "release", "get"].map((operation) => `lost call of ${operation}`),
];

export const ELECTIONS: Family<ElectionStep> = {
  name: "elections",
  usualPrograms: 300,
  steps: fc.oneof({ weight: 8, arbitrary: single(step) }, { weight: 1, arbitrary: scene }),
  expected: EXPECTED,
  async run({ seed, steps }: Program<ElectionStep>): Promise<Counts> {
    const run = await ElectionRun.open(seed);
    for (const each of steps) await run.step(each);
    await run.end();
    return run.site.world.covered;
  },
};
