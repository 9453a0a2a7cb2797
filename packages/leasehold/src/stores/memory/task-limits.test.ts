/** What a claim costs under many limits: a tenant chooses how many there are, and how many of its tasks run. */
import { expect, it } from "vitest";
import type { TaskRecord } from "../../tasks/record.js";
import { LimitTable } from "./limit-table.js";
import { Permits } from "./task-limits.js";
import type { Namespace } from "./task-state.js";

it("counts running tasks in one pass, however many limits there are", () => {
  const limits = new LimitTable();
  for (let n = 0; n < 500; n += 1) {
    const limit = { running: 2, rate: null };
    const declared = { declaredAtMs: 0, declaredBy: "a test", window: undefined };
    limits.set({ scope: "kind", name: `kind ${n}`, limit, ...declared });
    limits.set({ scope: "queue", name: `queue ${n}`, limit, ...declared });
  }
  let looks = 0;
  const runningTask = (n: number) => ({
    get kind() {
      looks += 1;
      return `kind ${n}`;
    },
    get queue() {
      looks += 1;
      return `queue ${n}`;
    },
    last: { expiresAtMs: n === 3 ? 10 : 1_000 },
  });
  const running = [1, 1, 2, 3, 3].map(runningTask) as unknown as TaskRecord[];
  const tasks = { running: () => running } as Namespace["tasks"];
  const permits = new Permits({ limits, tasks }, 10);
  expect(looks).toBeLessThanOrEqual(2 * running.length);
  expect([1, 2, 3].map((n) => permits.allows(runningTask(n)))).toEqual([false, true, true]);
});
