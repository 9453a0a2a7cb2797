/** Random programs of three members that share the work on five shards. */
import fc from "fast-check";
import { type Counts, type Family, type Program, single } from "./family.js";
import { losing, pausing } from "./faults.js";
import { ShardRun } from "./shard-run.js";
import type { ShardStep } from "./shard-step.js";

const client = fc.nat(2);

const step: fc.Arbitrary<ShardStep> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("join"),
      client,
      stoppingMs: fc.constantFrom(0, 50, 1_500),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("leave", "owners"), client }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("end"),
      client,
      how: fc.constantFrom("return", "throw"),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("revoke"),
      client,
      lease: fc.constantFrom("coordinator", "member", "shard"),
      free: fc.constantFrom("now", "atExpiry"),
    }),
  },
  { weight: 2, arbitrary: pausing(client, [400, 1_500, 4_000]) },
  { weight: 2, arbitrary: losing(client, ["acquire", "renew", "release", "get"]) },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.constantFrom(1, 20, 300, 1_100, 3_500),
    }),
  },
);

/** What random steps seldom lead to: a member that works is taken for gone, and its work takes long to stop. */
const scene: fc.Arbitrary<readonly ShardStep[]> = client.map((member) => [
  { do: "join", client: member, stoppingMs: 1_500 },
  { do: "pass", ms: 1_100 },
  { do: "revoke", client: member, lease: "member", free: "now" },
  { do: "pass", ms: 1_100 },
]);

const EXPECTED = [
  ...["begins", "returns", "throws", "stops", "is overdue", "is lost"].map(
    (what) => `work: ${what}`,
  ),
  ...["done", "still running"].map((outcome) => `leave: ${outcome}`),
  "join: first",
  "join: again",
  "owners: answered",
  "pause: over",
  "a shard moved",
  "a member coordinates",
  "balanced",
  ...["acquire", "renew", "release", "get"].map((operation) => `lost call of ${operation}`),
];

export const SHARDS: Family<ShardStep> = {
  name: "shards",
  usualPrograms: 100,
  steps: fc.oneof({ weight: 15, arbitrary: single(step) }, { weight: 1, arbitrary: scene }),
  expected: EXPECTED,
  async run({ seed, steps }: Program<ShardStep>): Promise<Counts> {
    const run = await ShardRun.open(seed);
    for (const each of steps) await run.step(each);
    await run.end();
    return run.site.world.covered;
  },
};
