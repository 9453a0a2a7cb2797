import type { Scenario } from "../simulation.js";
import { elections } from "./elections.js";
import { keys } from "./keys.js";
import { leases } from "./leases.js";
import { limits } from "./limits.js";
import { once } from "./once.js";
import { schedules } from "./schedules.js";
import { shards } from "./shards.js";
import { singletons } from "./singletons.js";
import { tasks } from "./tasks.js";
import { versions } from "./versions.js";

/** Programs about leases alone, on a database that keeps less than it promises. */
const WEAK: readonly Scenario[] = [
  { name: "leases-weak", servers: 0, weak: true, set: leases },
  { name: "singletons-weak", servers: 0, weak: true, set: singletons },
];

/** Programs of as many machines as a cluster may have. */
const CLUSTERS: readonly Scenario[] = [
  { name: "elections", servers: 0, mostMachines: 16, set: elections },
  { name: "shards", servers: 0, mostMachines: 16, set: shards },
];

/** Each program straight on the database, and over two servers. */
function bothWays(programs: Readonly<Record<string, Scenario["set"]>>): readonly Scenario[] {
  return Object.entries(programs).flatMap(([name, set]) => [
    { name, servers: 0, set },
    { name: `${name}-http`, servers: 2, set },
  ]);
}

export const SCENARIOS: readonly Scenario[] = [
  ...bothWays({ leases, singletons, tasks }),
  ...CLUSTERS,
  ...WEAK,
  { name: "once", servers: 0, set: once },
  { name: "schedules", servers: 0, mostMachines: 3, set: schedules },
  ...bothWays({ keys, versions, limits }),
];
