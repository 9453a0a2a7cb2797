// Runs each contender in its own process, all with the same binary: Node 24, which graphile-worker 0.18
// needs. The bench sends requests; between two requests the process is idle.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { treeCpuUs } from "../cpu.js";

const NODE_24 = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));
const SERVE = fileURLToPath(new URL("./serve.js", import.meta.url));

/** What every contender can do; its process serves it. */
/**
 * @typedef {object} Contender
 * @property {(count: number) => Promise<void>} load empties the queue, then adds `count` tasks
 * @property {(count: number) => Promise<number>} drain milliseconds until all are finished and stored
 * @property {(count: number) => Promise<number>} [enqueue] milliseconds to enqueue so many, one by one, by 64 callers
 * @property {(count: number) => Promise<number>} [enqueueAll] the same, 1,000 a call
 * @property {(times: number) => Promise<number[]>} [latencies] milliseconds from enqueue to the handler
 * @property {(forMs: number) => Promise<number>} [rate] tasks per second of a plain worker
 * @property {() => Promise<void>} close
 */

/**
 * @param {string} name of a file in this folder
 * @param {string} url
 * @returns {Promise<Required<Contender> & { cpuUs: () => number }>} with the CPU time that its process has used
 */
export async function contender(name, url) {
  const child = fork(SERVE, [name, url], { execPath: NODE_24, execArgv: [] });
  const gone = new Promise((_, reject) => {
    child.once("exit", (code) => reject(new Error(`${name} ended with ${code}`)));
  });
  gone.catch(() => {});
  /** @type {(answer: { value?: unknown, error?: string }) => void} */
  let answered = () => {};
  child.on("message", (answer) => answered(/** @type {{}} */ (answer)));
  const next = () =>
    Promise.race([
      gone,
      new Promise((resolve, reject) => {
        answered = ({ value, error }) => (error ? reject(new Error(error)) : resolve(value));
      }),
    ]);
  const ask = (/** @type {string} */ what) => (/** @type {number} */ number) => {
    const answer = next();
    child.send({ what, number });
    return answer;
  };
  await next();
  return {
    load: ask("load"),
    drain: ask("drain"),
    enqueue: ask("enqueue"),
    enqueueAll: ask("enqueueAll"),
    latencies: ask("latencies"),
    rate: ask("rate"),
    cpuUs: () => treeCpuUs(child.pid ?? 0),
    async close() {
      await ask("close")(0);
      child.kill();
    },
  };
}
