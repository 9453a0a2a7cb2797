// Leases over HTTP on durable PostgreSQL, 128 connections, each server a process of its own.
//
// ratio 1 = our acquires per second / responses per second of the same framework without any work
// ratio 2 = our acquires per second / those of the simplest service: one route, one statement per
//           request, through a pool
// ratio 3 = leases per second in batches of 100 by /v1/leases / with one lease a request, 16 connections
import { spawn } from "node:child_process";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ownCpuUs, treeCpuUs } from "../cpu.js";
import { interleaved, rateOf } from "../measure.js";
import { ratioRow } from "../rows.js";

const CONNECTIONS = 128;
const BATCH = 100;
const BATCHING = 16;
const SERVER = fileURLToPath(new URL("../http-server.js", import.meta.url));

/** @type {import("../measure.js").Question} */
export default {
  question: "Leases over HTTP with 128 connections, PostgreSQL behind",
  async run({ engines, size, progress }) {
    const { server: database } = await engines.cpu("postgres");
    /** @typedef {{ port: number, child: import("node:child_process").ChildProcess, cpu: import("../cpu.js").Clocks }} Server */
    /** @type {Record<string, Server>} */
    const servers = {};
    for (const kind of ["ours", "nothing", "naive"]) {
      const child = spawn(process.execPath, [SERVER, kind, await engines.freshDatabase()], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      const lines = createInterface(child.stdout);
      const port = Number((await lines[Symbol.asyncIterator]().next()).value);
      const cpu = { client: ownCpuUs, server: () => treeCpuUs(child.pid ?? 0), database };
      servers[kind] = { port, child, cpu };
    }
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    const forMs = size(3_000, 800);
    let serial = 0;
    const acquires = (/** @type {number} */ count) =>
      Array.from({ length: count }, () => {
        const resource = `r${serial++}`;
        const id = serial.toString(16).padStart(16, "0").padEnd(48, "0");
        const leaseId = `${Buffer.from(resource).toString("base64url")}.${id}`;
        return { leaseId, holder: "bench", ttlMs: 60_000 };
      });
    /** Rates count requests. */
    const requests =
      (/** @type {string} */ kind, connections = CONNECTIONS, batch = 1) =>
      () =>
        rateOf(servers[kind].cpu, connections, forMs, () =>
          post(agent, servers[kind].port, "/v1/leases/acquire", acquires(batch)),
        );
    const measured = await interleaved(
      size(5, 3),
      {
        ours: requests("ours"),
        nothing: requests("nothing"),
        naive: requests("naive"),
        batches: requests("ours", BATCHING, BATCH),
        singles: requests("ours", BATCHING),
      },
      progress,
    );
    agent.destroy();
    for (const { child } of Object.values(servers)) {
      child.stdin?.end();
      await new Promise((resolve) => child.once("exit", resolve));
    }
    const what = `acquires over HTTP, ${CONNECTIONS} connections`;
    const better = /** @type {const} */ ("higher");
    const { ours, nothing, naive, singles } = measured;
    const batches = measured.batches.map((round) => perLease(round, BATCH));
    return [
      ratioRow(
        { id: "http-no-work", what, beside: "the framework without work", reach: 0.65, better },
        "/s",
        { ours, "no work": nothing },
      ),
      ratioRow(
        {
          id: "http-naive",
          what,
          beside: "a service of one statement a request",
          reach: 2.5,
          better,
        },
        "/s",
        { ours, naive },
      ),
      ratioRow(
        {
          id: "http-batch",
          what: `leases in batches of ${BATCH}, ${BATCHING} connections`,
          beside: "one acquire per request",
          reach: 4,
          better,
        },
        "/s",
        { batches, singles },
      ),
    ];
  },
};

/**
 * @param {import("../measure.js").Round} round of requests
 * @param {number} batch leases per request
 */
function perLease({ value, cpuUs = {} }, batch) {
  const each = Object.entries(cpuUs).map(([name, us]) => [name, us / batch]);
  return { value: value * batch, cpuUs: Object.fromEntries(each) };
}

/**
 * Repeats a request that the server refuses because it is overloaded, so that only completed ones count.
 * @param {Agent} agent
 * @param {number} port
 * @param {string} path
 * @param {unknown} body
 */
async function post(agent, port, path, body) {
  const text = JSON.stringify(body);
  while (!(await postOnce(agent, port, path, text)));
}

/**
 * @param {Agent} agent
 * @param {number} port
 * @param {string} path
 * @param {string} text
 * @returns {Promise<boolean>} whether the server accepted it
 */
function postOnce(agent, port, path, text) {
  return new Promise((resolve, reject) => {
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
    };
    const sent = request(
      { agent, port, path, host: "127.0.0.1", method: "POST", headers },
      (answer) => {
        let said = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk) => {
          said += chunk;
        });
        answer.on("end", () => {
          const ok = answer.statusCode === 200 && !said.includes('"failed"');
          if (ok) resolve(true);
          else if (answer.statusCode === 429) resolve(false);
          else reject(new Error(`${answer.statusCode}: ${said.slice(0, 200)}`));
        });
      },
    );
    sent.on("error", reject);
    sent.end(text);
  });
}
