import { ELECTIONS } from "./elections.js";
import type { Family } from "./family.js";
import { LEASES } from "./leases.js";
import { SHARDS } from "./shards.js";
import { TASKS } from "./tasks.js";

export const FAMILIES: readonly Family[] = [LEASES, TASKS, ELECTIONS, SHARDS];
