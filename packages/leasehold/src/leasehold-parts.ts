import type { LeaseClient } from "./lease/index.js";
import type { OnceClient } from "./once/index.js";
import type { TasksClient } from "./tasks/index.js";

/** What a Leasehold is made of. */
export interface LeaseholdParts {
  readonly leases: LeaseClient;
  /** @throws INVALID_OPTION where no store keeps tasks */
  readonly tasks: () => TasksClient;
  /** @throws INVALID_OPTION where no store keeps what has succeeded */
  readonly once: () => Promise<OnceClient>;
  /** Closes what is open: the tasks if they were used, then the leases, then the connections. */
  readonly close: () => Promise<void>;
}
