/**
 * The work of the chaos test: a few steps, each of which writes once. Between the check of the lease
 * and the write lies a window, as in any real work, and a process that is stopped in it writes late.
 */
import { setTimeout as delay } from "node:timers/promises";
import { defineTask } from "leasehold";

const RETRY_MS = 100;
const MOST_TRIES = 200;

/** @param {{ recorder: string, server: string }} urls */
export default ({ recorder, server }) => [
  defineTask("chaos").handle(async ({ steps }, { task, lease }) => {
    const me = { task: task.id, token: lease.token, holder: lease.holder };
    for (const [step, { waitMs, blockMs, onlyFirst }] of steps.entries()) {
      let accepted = lease.checkAlive();
      if (accepted) {
        await delay(waitMs);
        if (!onlyFirst || task.attempt === 1) block(blockMs);
        ({ accepted } = await say("POST", `${recorder}/writes`, { ...me, step }));
        // A refused write proves that a later grant exists, so the lease must not be trusted any more.
        if (!accepted && lease.checkAlive()) await say("POST", `${recorder}/breaches`, me);
      }
      if (accepted) continue;
      completeLate(server, task.id, lease).catch(() => {});
      throw new Error("the lease is lost");
    }
    return { token: lease.token, holder: lease.holder };
  }),
];

function block(ms) {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** A holder that has lost and does not care. Whether it is refused says the proxy on the way. */
async function completeLate(server, id, { leaseId, token }) {
  const task = `${server}/api/tasks/${id}`;
  // Trust ends a little before the grant does, and until then it may complete.
  for (;;) {
    const { state, fencingToken } = await say("GET", task);
    if (state !== "running" || fencingToken !== token) break;
    await delay(RETRY_MS);
  }
  await say("PUT", `${task}/complete`, { leaseId, fencingToken: token, task_output: "late" });
}

/** Until there is a definite answer. */
async function say(method, url, body) {
  const headers = { "content-type": "application/json" };
  const request = body === undefined ? { method } : { method, headers, body: JSON.stringify(body) };
  for (let tries = 1; ; tries += 1) {
    try {
      const response = await fetch(url, request);
      const answer = await response.json();
      if (response.status < 500) return answer;
    } catch (error) {
      if (tries === MOST_TRIES) throw error;
    }
    await delay(RETRY_MS);
  }
}
