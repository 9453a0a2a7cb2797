/**
 * Leases in Valkey under faults: what every engine does.
 * @module-tag safety
 */
import { VALKEY } from "../support/faults/engines.js";
import { leaseFaults } from "../support/faults/lease-suite.js";
import { sharedServer } from "../support/faults/server.js";
import { storeFaults } from "../support/faults/store-suite.js";

VALKEY.describe("faults of Valkey", () => {
  const shared = sharedServer(VALKEY);
  storeFaults(VALKEY, shared);
  leaseFaults(VALKEY, shared);
});
