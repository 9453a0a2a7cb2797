// What a hostile tenant can do to another one's leases, with the limits that protect and without them.
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ATTACKS, MIB } from "./attack-kinds.js";
import { wrongWithAttack } from "./judge.js";
import { ATTACKER, child, hold, said, scriptOf } from "./processes.js";

/** How long an attack is under way before late holders connect. */
const LATE_MS = 2_000;
const DRIP_MS = 50;
/**
 * @param {string} wanted the name of an attack, or `all`
 * @param {{ store?: string, control?: string, engine: string, seconds: number, holders: number, unprotected: boolean, json: boolean }} options
 * @returns {Promise<number>} the exit code
 */
export async function attackAll(wanted, options) {
  const names = wanted === "all" ? Object.keys(ATTACKS) : [wanted];
  const unknown = names.find((name) => !(name in ATTACKS));
  if (unknown !== undefined) {
    console.error(`no attack is named ${unknown}: ${Object.keys(ATTACKS).join(", ")}`);
    return 64;
  }
  let code = 0;
  const attacks = [];
  for (const name of names) {
    const figures = await attack(name, options);
    const wrong = wrongWithAttack(figures);
    attacks.push(figures);
    if (!options.json) console.log(textOf(figures));
    if (wrong !== null) console.error(wrong);
    if (wrong !== null) code = 1;
  }
  if (options.json) console.log(JSON.stringify({ attacks }));
  return code;
}

async function attack(name, options) {
  const { store: given, control, engine, seconds, holders, unprotected } = options;
  const { tasks = 0, taskBytes = 4 * MIB - 100, limits = {}, instances = 1 } = ATTACKS[name];
  const folder = mkdtempSync(join(tmpdir(), "leasehold-attack-"));
  const store = given ?? `pglite:${join(folder, "db")}`;
  const served = { store, control, limits, tasks, taskBytes, unprotected };
  const shared = store.startsWith("postgres") ? instances : 1;
  const server = child([
    scriptOf("attacked-server.js"),
    JSON.stringify({ ...served, instances: shared }),
  ]);
  try {
    const { urls, healthy, attacker, viewer } = JSON.parse(
      await said(server.stdout, (line) => line),
    );
    const [url] = urls;
    const { late = false } = ATTACKS[name];
    const start = () => hold(url.replace("//", `//${healthy}@`), holders);
    const holding = late ? pause(LATE_MS).then(start) : start();
    // It is awaited after the attack: an error before would leave the server behind.
    holding.catch(ignored);
    if (!late) await holding;
    const key = ATTACKS[name].viewer ? viewer : attacker;
    const statuses = await attacked(ATTACKS[name], { urls, key, seconds, unprotected });
    const letGo = await holding;
    const held = await letGo();
    const peakMiB = Math.round(peakBytesOf(server.pid) / MIB);
    const { costs = [] } = ATTACKS[name];
    return {
      attack: name,
      costs: costs.includes(engine),
      engine,
      holders,
      unprotected,
      seconds,
      ...held,
      statuses,
      peakMiB,
    };
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
async function attacked(kind, { urls, key, seconds, unprotected }) {
  const [url] = urls;
  const { connections, body, ahead, also, few, streams = 0, results = 0, leavesEveryMs } = kind;
  if (ahead !== undefined) return attackedAhead(kind, { url, seconds });
  const all = connections + streams + results;
  const agent = new Agent({
    keepAlive: true,
    maxSockets: all / urls.length,
    localAddress: ATTACKER,
  });
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
    const isOdd = index % 2 === 1;
    const instance = urls[(index >> 1) % urls.length];
    const own = few && index % few.one === 0 ? few : (isOdd && also) || kind;
    const { method, path, each, unfinished, drips = false } = own;
    const shared = isOdd && !unprotected ? allowed : large;
    while (performance.now() < endMs) {
      const target = { method, path: path(), headers, drips };
      note(await send(agent, instance, target, each?.() ?? shared, unfinished ? endMs : undefined));
    }
  };
  const following = { method: "GET", path: "/v1/events", headers, drips: false };
  const follower = async () => note(await send(agent, url, following, undefined, endMs));
  const waiter = async () => {
    const id = randomUUID();
    const adding = { method: "POST", path: "/api/tasks", headers, drips: false };
    const task = JSON.stringify({ id, queue: "never", task_data: 1 });
    const waiting = { ...following, path: `/v1/tasks/${id}/result?waitMs=20000` };
    for (let isThere = false; performance.now() < endMs; ) {
      if (isThere) note(await send(agent, url, waiting, undefined, endMs));
      else isThere = (await send(agent, url, adding, task)) === 201;
    }
  };
  const leaving = leavesEveryMs && setInterval(() => agent.destroy(), leavesEveryMs);
  await Promise.all([
    ...Array.from({ length: streams }, follower),
    ...Array.from({ length: results }, waiter),
    ...Array.from({ length: connections }, attacker),
  ]);
  clearInterval(leaving);
  agent.destroy();
  return statuses;
}

/** Callers without a key, who send `ahead` requests and as many again when those are answered. */
async function attackedAhead({ connections, method, path, ahead }, { url, seconds }) {
  const { host, hostname, port } = new URL(url);
  const text = `${method} ${path()} HTTP/1.1\r\nhost: ${host}\r\n\r\n`.repeat(ahead);
  const statuses = {};
  const endMs = performance.now() + seconds * 1_000;
  const caller = () =>
    new Promise((resolve) => {
      const from = { port: Number(port), host: hostname, localAddress: ATTACKER };
      const socket = connect(from, () => socket.write(text));
      const ending = setTimeout(() => socket.destroy(), endMs - performance.now());
      let unanswered = ahead;
      socket.setEncoding("latin1").on("data", (answers) => {
        for (const [, status] of answers.matchAll(/HTTP\/1\.1 (\d+)/g)) {
          statuses[status] = (statuses[status] ?? 0) + 1;
          unanswered -= 1;
        }
        if (unanswered > 0) return;
        unanswered = ahead;
        socket.write(text);
      });
      socket.on("error", ignored).once("close", () => {
        clearTimeout(ending);
        resolve();
      });
    });
  const attacker = async () => {
    while (performance.now() < endMs) await caller();
  };
  await Promise.all(Array.from({ length: connections }, attacker));
  return statuses;
}

const ignored = () => {};

async function maxBodyBytes(url, headers) {
  const answer = await fetch(`${url}/v1/capabilities`, { headers });
  return (await answer.json()).maxBodyBytes ?? 4 * MIB;
}

/** @param unfinishedUntilMs when a request ends whose last byte is not sent, or a stream */
function send(agent, url, { method, path, headers, drips }, text, unfinishedUntilMs) {
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
    if (unfinishedUntilMs === undefined || text === undefined) sending.end(text);
    else if (drips) drip(sending, text);
    else sending.write(text.slice(0, -1));
    if (unfinishedUntilMs !== undefined) {
      setTimeout(() => sending.destroy(), unfinishedUntilMs - performance.now());
    }
  });
}

/** Sends a byte at a time, but for the last one, until the request is answered or ends. */
function drip(sending, text) {
  let sent = 0;
  const dripping = setInterval(() => {
    if (sent === text.length - 1) return;
    sending.write(text[sent]);
    sent += 1;
  }, DRIP_MS);
  sending.once("close", () => clearInterval(dripping));
  // A refused one makes room for the next.
  sending.once("response", (answer) => answer.once("end", () => sending.destroy()));
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
  holders,
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
    `  ${holders} leases of another tenant: ${renewals} renewals, ${lost} lost, least time left ${leastLeftMs} ms; ` +
    `the server's memory at its peak ${peakMiB} MiB`
  );
}
