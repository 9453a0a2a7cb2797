/** The shared parts of a run: world, network, settings, log, counters and invariants. */
import type { Network } from "leasehold-verification/simulation/network";
import type { World } from "leasehold-verification/simulation/world";
import type { Invariants } from "./invariants.js";
import type { Log } from "./log.js";
import type { Settings } from "./settings.js";
import type { Tally } from "./tally.js";

/** The election: a resource of the store. */
export const NAMESPACE = "default";
export const NAME = "leader";

export interface Stage {
  readonly world: World;
  readonly network: Network;
  readonly log: Log;
  readonly tally: Tally;
  readonly invariants: Invariants;
  /** The current settings. */
  settings: Settings;
}
