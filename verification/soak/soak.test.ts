/**
 * A share of the soak: too short to be judged, long enough to see that everything is measured.
 * @module-tag safety
 */
import { expect, it, vi } from "vitest";
import { describePostgres, freshDatabase } from "../../tests/support/engines/postgres.js";
import { checkBuild } from "../../tests/support/processes/cli.js";
import { runSoak } from "./run.js";
import type { Sample } from "./seen.js";

vi.setConfig({ testTimeout: 240_000 });

describePostgres("20 seconds of load under faults", () => {
  it("measure all, keep what is promised, and end", async () => {
    checkBuild();
    const { url, drop } = await freshDatabase();
    const samples: Sample[] = [];
    try {
      const report = await runSoak({
        hours: 20 / 3_600,
        cycles: 1,
        seed: 1,
        store: url,
        signal: new AbortController().signal,
        onSample: (sample) => samples.push(sample),
      });
      const held = (claim: string) => report.claims.find((one) => one.claim === claim);
      // What hangs on how busy the machine is, is not asked of so short a time.
      for (const claim of [
        "every accepted task is done once",
        "tokens of a resource grow",
        "two never trust one lease at once",
      ]) {
        expect(held(claim)).toMatchObject({ holds: true });
      }
      expect(report.cycles).toHaveLength(1);
      expect(report.faultRecords.length).toBeGreaterThan(0);
      expect(report.counts["acquired"]).toBeGreaterThan(0);
    } finally {
      await drop();
    }
    expect(samples.length).toBeGreaterThan(1);
    const processes = samples.flatMap((sample) => Object.entries(sample.processes));
    expect([...new Set(processes.map(([name]) => name))].sort()).toEqual([
      "library",
      "server",
      "worker",
    ]);
    for (const [, measured] of processes) {
      expect(measured.heapUsed).toBeGreaterThan(1e6);
      expect(measured.resources["PipeWrap"]).toBeGreaterThan(0);
      expect(measured.timers).toBeGreaterThan(0);
      expect(measured.listeners.emitters).toBeGreaterThan(0);
    }
    const { database } = samples.at(-1)!;
    expect(Object.keys(database.tables)).toEqual(
      expect.arrayContaining(["lease", "task", "waiter"]),
    );
    expect(
      Math.max(...samples.map(({ database: { connections } }) => connections)),
    ).toBeGreaterThan(1);
  });
});
