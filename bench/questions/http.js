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
import { interleaved, median, perSecond, rateOf, ratioRow } from "../measure.js";

const CONNECTIONS = 128;
const BATCH = 100;
const BATCHING = 16;
const SERVER = fileURLToPath(new URL("../http-server.js", import.meta.url));

/** @type {import("../measure.js").Question} */
export default {
  question: "Leases over HTTP with 128 connections, PostgreSQL behind",
  sideBySide: "the same framework without work; a service of one statement a request; batches",
  ids: ["http-no-work", "http-naive", "http-batch"],
  async run({ engines, size, progress }) {
    const servers = [];
    /** @type {Record<string, number>} */
    const ports = {};
    for (const kind of ["ours", "nothing", "naive"]) {
      const child = spawn(process.execPath, [SERVER, kind, await engines.freshDatabase()], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      servers.push(child);
      const lines = createInterface(child.stdout);
      ports[kind] = Number((await lines[Symbol.asyncIterator]().next()).value);
    }
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    const forMs = size(3_000, 800);
    let serial = 0;
    const acquires = (/** @type {number} */ count) =>
      Array.from({ length: count }, () => {
        const resource = `r${serial++}`;
        const id = serial.toString(16).padStart(32, "0");
        const leaseId = `${Buffer.from(resource).toString("base64url")}.${id}`;
        return { leaseId, holder: "bench", ttlMs: 60_000 };
      });
    const one = (/** @type {string} */ kind) => () =>
      rateOf(CONNECTIONS, forMs, () =>
        post(agent, ports[kind] ?? 0, "/v1/leases/acquire", acquires(1)),
      );
    const few = (/** @type {number} */ batch) => async () =>
      batch *
      (await rateOf(BATCHING, forMs, () =>
        post(agent, ports.ours ?? 0, "/v1/leases/acquire", acquires(batch)),
      ));
    const measured = await interleaved(
      size(5, 3),
      {
        ours: one("ours"),
        nothing: one("nothing"),
        naive: one("naive"),
        batches: few(BATCH),
        singles: few(1),
      },
      progress,
    );
    agent.destroy();
    for (const server of servers) {
      server.stdin.end();
      await new Promise((resolve) => server.once("exit", resolve));
    }
    const better = /** @type {const} */ ("higher");
    return [
      ratioRow(
        {
          id: "http-no-work",
          what: "beside no work",
          reach: 0.5,
          better,
          figures: {
            ours: perSecond(median(measured.ours)),
            theirs: perSecond(median(measured.nothing)),
          },
        },
        measured.ours,
        measured.nothing,
      ),
      ratioRow(
        {
          id: "http-naive",
          what: "beside one statement a request",
          reach: 4,
          better,
          figures: {
            ours: perSecond(median(measured.ours)),
            theirs: perSecond(median(measured.naive)),
          },
        },
        measured.ours,
        measured.naive,
      ),
      ratioRow(
        {
          id: "http-batch",
          what: "batches of 100",
          reach: 4,
          better,
          figures: {
            batches: `${perSecond(median(measured.batches))} leases`,
            singles: perSecond(median(measured.singles)),
          },
        },
        measured.batches,
        measured.singles,
      ),
    ];
  },
};

/**
 * @param {Agent} agent
 * @param {number} port
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<void>}
 */
function post(agent, port, path, body) {
  const text = JSON.stringify(body);
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
          if (ok) resolve();
          else reject(new Error(`${answer.statusCode}: ${said.slice(0, 200)}`));
        });
      },
    );
    sent.on("error", reject);
    sent.end(text);
  });
}
