/** How long a test may take: without a mutant, as long as a busy machine needs. */
import { inject, vi } from "vitest";

// Stryker says so. A mutant that never ends fails its test before Stryker ends the process, whose next start takes longer.
const isDryRun = inject("mode" as never) === "dry-run";
vi.setConfig(
  isDryRun
    ? { testTimeout: 120_000, hookTimeout: 120_000 }
    : { testTimeout: 5_000, hookTimeout: 5_000 },
);
