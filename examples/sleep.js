/**
 * Tasks that only take time, done by workers that fail in the ways that leases are made for.
 *
 *   npx leasehold serve
 *   npx leasehold worker --store http://127.0.0.1:4040 --handlers examples/sleep.js \
 *     --option crashRate=0.05 --option latencyRate=0.1 --ttl 5s
 *   npx leasehold enqueue sleep '{"sleep_duration_seconds": 5}' --store http://127.0.0.1:4040
 *
 * `npm start` runs three of these workers.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { defineTask } from "leasehold";
import { z } from "zod";

const STEP_SECONDS = 0.2;
/** A pause this many times as long as the lease has certainly lost it. */
const STALL_TTLS = 1.2;

const schema = z.object({ sleep_duration_seconds: z.number().min(0).max(3_600) });
/** A task that is posted without a kind has the kind `default`. */
const sleepTasks = [defineTask("sleep", { schema }), defineTask("default", { schema })];

/**
 * @typedef {object} Options
 * @property {number} [crashRate] Share of the tasks, 0 to 1, in the middle of which the whole
 *   process ends, with all that it was doing. Default 0.
 * @property {number} [latencyRate] Share of the tasks, 0 to 1, in the middle of which the whole
 *   process stalls for longer than its leases last: no heartbeat leaves it. Default 0.
 * @property {string} [reportTo] URL of the server. After a stall, report the task as done there all
 *   the same, as a worker would that does not ask whether it still holds the lease; the server must
 *   refuse it. Default: abandon the task, as one should.
 */

/** @param {Options} options */
export default function handlers({ crashRate = 0, latencyRate = 0, reportTo } = {}) {
  return sleepTasks.map((sleepTask) =>
    sleepTask.handle(
      async ({ sleep_duration_seconds: seconds }, { task, lease, signal, ...rest }) => {
        const steps = Math.ceil(seconds / STEP_SECONDS);
        const crashAt = chance(crashRate) ? someStep(steps) : undefined;
        const stallAt = chance(latencyRate) ? someStep(steps) : undefined;
        for (let step = 0; step < steps; step += 1) {
          if (step === crashAt) {
            rest.log.error({ task: task.id }, "simulated crash");
            process.exit(1);
          }
          if (step === stallAt) {
            stall(STALL_TTLS * task.ttlMs);
            if (reportTo !== undefined) await reportLate(reportTo, task.id, lease);
          }
          // Rejects when the lease is lost, because another worker may already run this task.
          await sleep((1_000 * seconds) / steps, undefined, { signal });
          rest.progress({ step: step + 1, of: steps });
        }
        return { slept_seconds: seconds, attempt: task.attempt };
      },
    ),
  );
}

/** @param {number} rate */
function chance(rate) {
  return Math.random() < rate;
}

/** @param {number} steps */
function someStep(steps) {
  return Math.floor(Math.random() * steps);
}

/**
 * Stops the whole process, timers and heartbeats included, as a long garbage collection or a
 * suspended machine would.
 * @param {number} ms
 */
function stall(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * What a worker must not do: speak for a task without asking `lease.checkAlive()` first.
 * @param {string} server
 * @param {string} id
 * @param {import("leasehold").Lease} lease
 */
async function reportLate(server, id, { leaseId, token }) {
  await fetch(new URL(`/api/tasks/${id}/complete`, server), {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ leaseId, fencingToken: token, task_output: "too late" }),
  });
}
