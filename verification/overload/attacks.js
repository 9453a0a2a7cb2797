// What a hostile tenant can do to another one's leases, with the limits that protect and without them.
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wrongWithAttack } from "./judge.js";
import { child, hold, said, scriptOf } from "./processes.js";

const MIB = 1_048_576;
const HOLDERS = 20;
/** As the server was before it had them. */
const UNPROTECTED = {
  bodyBytes: 4 * MIB,
  tenantInFlight: null,
  tenantBodyBytes: null,
  allBodyBytes: null,
  ratePerSecond: null,
};

const emptyObjects = (bytes) => `[${"{},".repeat(Math.floor(bytes / 3) - 1)}{}]`;
const bogusRenewals = () => {
  const one = () => ({
    leaseId: `Ym9ndXM.${randomUUID().replaceAll("-", "")}`,
    ttlMs: 30_000,
  });
  return JSON.stringify(Array.from({ length: 1_000 }, one));
};
const TASK_DATA = (bytes) => `{"task_data":${emptyObjects(bytes - 20)}}`;

/**
 * Each has this many connections, and sends the next request as soon as one is answered. Those with bodies send
 * them as large as the server was before it bounded them, and on every other connection as large as it allows.
 */
const ATTACKS = {
  complete: {
    connections: 16,
    method: "PUT",
    path: () => `/api/tasks/${randomUUID()}/complete`,
    body: (bytes) =>
      `{"leaseId":"${"0".repeat(32)}","fencingToken":1,"task_output":${emptyObjects(bytes - 100)}}`,
  },
  enqueue: { connections: 32, method: "POST", path: () => "/api/tasks", body: TASK_DATA },
  metrics: { connections: 250, method: "GET", path: () => "/metrics" },
  renewals: {
    connections: 100,
    method: "POST",
    path: () => "/v1/leases/renew",
    body: bogusRenewals,
  },
  /** Bodies that never end. */
  uploads: {
    connections: 500,
    method: "POST",
    path: () => "/api/tasks",
    body: TASK_DATA,
    unfinished: true,
    takes: "memory",
  },
  /** Lists of tasks of 4 MiB, which were added while the server took them. */
  lists: {
    connections: 16,
    method: "GET",
    path: () => "/api/tasks/pending?limit=200",
    tasks: 200,
    takes: "memory",
  },
};

/**
 * @param {string} wanted the name of an attack, or `all`
 * @param {{ store?: string, seconds: number, unprotected: boolean, json: boolean }} options
 * @returns {Promise<number>} the exit code
 */
export async function attackAll(wanted, options) {
  const names = wanted === "all" ? Object.keys(ATTACKS) : [wanted];
  let code = 0;
  for (const name of names) {
    if (!(name in ATTACKS)) {
      console.error(`no attack is named ${name}: ${Object.keys(ATTACKS).join(", ")}`);
      return 64;
    }
    const figures = await attack(name, options);
    const wrong = wrongWithAttack(figures);
    if (options.json) console.log(JSON.stringify(figures));
    else console.log(textOf(figures));
    if (wrong !== null) console.error(wrong);
    if (wrong !== null) code = 1;
  }
  return code;
}

async function attack(name, { store: given, seconds, unprotected }) {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-attack-"));
  const store = given ?? `pglite:${join(folder, "db")}`;
  const server = child([
    scriptOf("attacked-server.js"),
    store,
    JSON.stringify(unprotected ? UNPROTECTED : {}),
    String(ATTACKS[name].tasks ?? 0),
    String(4 * MIB - 100),
  ]);
  try {
    const { url, healthy, attacker } = JSON.parse(await said(server.stdout, (line) => line));
    const letGo = await hold(url.replace("//", `//${healthy}@`), HOLDERS);
    const statuses = await attacked(ATTACKS[name], { url, key: attacker, seconds, unprotected });
    const held = await letGo();
    const peakMiB = Math.round(peakBytesOf(server.pid) / MIB);
    const engine = store.split(":")[0];
    const { takes } = ATTACKS[name];
    return { attack: name, takes, engine, unprotected, seconds, ...held, statuses, peakMiB };
  } finally {
    const ended = new Promise((resolve) => server.once("close", resolve));
    server.stdin.end();
    const killing = setTimeout(() => server.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(killing);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @returns how often each status came; `none`: the connection was cut */
async function attacked(
  { connections, method, path, body, unfinished },
  { url, key, seconds, unprotected },
) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const announced = await maxBodyBytes(url, headers);
  const statuses = {};
  const note = (status) => {
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  const endMs = performance.now() + seconds * 1_000;
  const large = body?.(4 * MIB);
  const allowed = body?.(announced);
  const attacker = async (_, index) => {
    const text = index % 2 === 0 || unprotected ? large : allowed;
    while (performance.now() < endMs) {
      const target = { method, path: path(), headers };
      note(await send(agent, url, target, text, unfinished ? endMs : undefined));
    }
  };
  await Promise.all(Array.from({ length: connections }, attacker));
  agent.destroy();
  return statuses;
}

const ignored = () => {};

async function maxBodyBytes(url, headers) {
  const answer = await fetch(`${url}/v1/capabilities`, { headers });
  return (await answer.json()).maxBodyBytes ?? 4 * MIB;
}

/** @param unfinishedUntilMs the last byte of the body is not sent before this time */
function send(agent, url, { method, path, headers }, text, unfinishedUntilMs) {
  return new Promise((resolve) => {
    const length = text === undefined ? {} : { "content-length": Buffer.byteLength(text) };
    const sending = request(url + path, { agent, method, headers: { ...headers, ...length } });
    sending.once("response", (answer) => {
      answer.resume().once("close", () => resolve(answer.statusCode));
    });
    sending.on("error", () => resolve("none"));
    // A refusal may come before the body has gone: then the connection fails, and no longer the request.
    sending.once("socket", (socket) => {
      if (socket.listenerCount("error", ignored) === 0) socket.on("error", ignored);
    });
    if (text === undefined) sending.end();
    else if (unfinishedUntilMs === undefined) sending.end(text);
    else {
      sending.write(text.slice(0, -1));
      setTimeout(() => sending.destroy(), unfinishedUntilMs - performance.now());
    }
  });
}

/** The most memory that a process has had; 0 where the system does not tell. */
function peakBytesOf(pid) {
  try {
    const [, kib] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return Number(kib ?? 0) * 1_024;
  } catch {
    return 0;
  }
}

function textOf({
  attack: name,
  engine,
  unprotected,
  seconds,
  lost,
  renewals,
  leastLeftMs,
  statuses,
  peakMiB,
}) {
  const how = unprotected ? "without protection" : "protected";
  const answers = Object.entries(statuses).map(([status, count]) => `${count} x ${status}`);
  return (
    `${name} on ${engine}, ${how}, ${seconds} s: ${answers.join(", ") || "no answer"}\n` +
    `  ${HOLDERS} leases of another tenant: ${renewals} renewals, ${lost} lost, least time left ${leastLeftMs} ms; ` +
    `the server's memory at its peak ${peakMiB} MiB`
  );
}
