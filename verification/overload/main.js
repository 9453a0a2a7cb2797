// Asks a server for several times as much as it can do, while others hold leases and renew them. None
// of them may be lost: what keeps a lease is admitted ahead of what asks for one.
//
//   npm run verify -- overload                     five times its capacity for 20 s, beside 200 leases of 5 s
//   npm run verify -- overload --seconds 60 --times 10 --holders 500
//   npm run verify -- overload --engine postgres   or memory, redis, etcd or http, each started for it; default: PGlite in a
//                                           folder of its own
//   npm run verify -- overload --store postgres://...   your own database
//   npm run verify -- overload --json              the figures for machines
//   npm run verify -- overload --attack all        instead: one tenant attacks, while another one's 20 holders renew (--holders):
//                                           complete, enqueue, metrics, renewals, uploads, lists, scans,
//                                           keyless, pipelining, queues, waits, notifications, pauses, streams,
//                                           closes, crowds, drips
//   npm run verify -- overload --attack renewals --unprotected     the same without the limits that protect: leases
//                                           must then be lost
//   npm run verify -- overload --attack all --engine memory
//
// Ends with 1 if a lease was lost, or if the server was not overloaded: then nothing was shown.
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { argumentsOf } from "../support/arguments.js";
import { attackAll } from "./attacks.js";
import { ENGINES, onEngine } from "./engines.js";
import { TTL_MS } from "./holders.js";
import { CALLERS, wrongWith } from "./judge.js";
import { ATTACKER, hold, startServer } from "./processes.js";

/** Of the flood, each with one request under way. */
const CONNECTIONS = 9_000;
const TICK_MS = 10;
/** After a connection was refused. */
const RETRY_MS = 500;

const { values } = argumentsOf(import.meta.url, {
  options: {
    seconds: { type: "string", default: "20" },
    times: { type: "string", default: "5" },
    holders: { type: "string" },
    store: { type: "string" },
    engine: { type: "string" },
    attack: { type: "string" },
    unprotected: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const isAttack = values.attack !== undefined;
const [seconds, times, holders] = [
  values.seconds,
  values.times,
  values.holders ?? (isAttack ? "20" : "200"),
].map(Number);

/** @param {import("./engines.js").Places} places */
async function main(places) {
  // All senders of the flood have one address.
  const { url, end } = await startServer(places, ["--max-connections-per-address", "10000"]);
  try {
    say("measuring what it can do");
    const capacity = await closedLoop(url, 3_000);
    const letGo = await hold(url, holders);
    const flooded = await flood(url, capacity * times, seconds * 1_000);
    const held = await letGo();
    report({ capacityPerSecond: Math.round(capacity), ...flooded, ...held });
  } finally {
    await end();
  }
}

function report(figures) {
  const { lost, offeredPerSecond, capacityPerSecond, refused } = figures;
  if (values.json) console.log(JSON.stringify({ engine, holders, ...figures }));
  else {
    say("");
    console.log(
      `${capacityPerSecond} requests/s is what it can do; ${offeredPerSecond}/s were sent for ${seconds} s: ` +
        `${figures.served} served, ${refused} refused with 429, ${figures.failed} failed\n` +
        `${holders} leases of ${TTL_MS / 1_000} s: ${figures.renewals} renewals, ${lost} lost, ` +
        `least time left ${figures.leastLeftMs} ms`,
    );
  }
  const wrong = wrongWith(figures);
  if (wrong !== null) {
    console.error(wrong);
    process.exitCode = 1;
  }
}

/** As many as come back, from callers who wait for their answers. */
async function closedLoop(url, forMs) {
  const lines = await open(url, CALLERS);
  const endMs = performance.now() + forMs;
  let served = 0;
  const caller = async (line) => {
    while (performance.now() < endMs) if ((await line.acquire()) === 200) served += 1;
  };
  await Promise.all(lines.map(caller));
  for (const line of lines) line.close();
  return (served * 1_000) / forMs;
}

/** So many a second, whether or not the earlier ones were answered. */
async function flood(url, perSecond, forMs) {
  const free = await open(url, CONNECTIONS);
  const counts = { served: 0, refused: 0, failed: 0 };
  let [sent, due] = [0, 0];
  const beginMs = performance.now();
  await new Promise((resolve) => {
    const ticking = setInterval(() => {
      const passedMs = performance.now() - beginMs;
      say(
        `flooding: ${Math.round(passedMs / 1_000)} of ${forMs / 1_000} s, ${counts.refused} refused`,
      );
      if (passedMs >= forMs) {
        clearInterval(ticking);
        resolve();
        return;
      }
      due = Math.floor((perSecond * passedMs) / 1_000);
      for (let line = free.pop(); line; line = sent < due ? free.pop() : undefined) {
        sent += 1;
        const one = line;
        void one.acquire().then((status) => {
          counts[status === 200 ? "served" : status === 429 ? "refused" : "failed"] += 1;
          if (status === 0) one.reopen();
          free.push(one);
        });
      }
    }, TICK_MS);
  });
  const waiting = CONNECTIONS - free.length;
  for (const line of free) line.close();
  return { offeredPerSecond: Math.round((sent * 1_000) / forMs), ...counts, waiting };
}

/**
 * Opens connections and waits for one answer on each. A connected socket is not enough: Node accepts one
 * connection in each turn of its event loop, so the holders' connections would wait behind these.
 */
async function open(url, count) {
  const lines = Array.from({ length: count }, () => new Line(url));
  await Promise.all(lines.map((line) => line.opened));
  await Promise.all(lines.map((line) => line.look()));
  return lines;
}

/** A connection with one request under way: as bare as can be, so that asking costs less than answering. */
class Line {
  #url;
  #socket;
  #answered = (_status) => {};
  /** @type {Promise<unknown>} */
  opened = Promise.resolve();

  constructor(url) {
    this.#url = new URL(url);
    this.reopen();
  }

  reopen() {
    const { port, hostname: host } = this.#url;
    const socket = connect({ port: Number(port), host, localAddress: ATTACKER });
    this.#socket = socket;
    this.opened = new Promise((resolve) => {
      socket.once("connect", resolve).once("error", resolve);
    });
    socket.on("data", (data) => {
      // An answer is small: its head comes first, and what follows belongs to it.
      const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(data.toString("latin1")) ?? [];
      if (status !== undefined) this.#answered(Number(status));
    });
    socket.on("error", () => {}).once("close", () => this.#answered(0));
  }

  /** Until it is answered: the server refuses connections of one address that come all at once. */
  async look() {
    const probe = `GET /healthz HTTP/1.1\r\nhost: ${this.#url.host}\r\n\r\n`;
    while ((await this.#send(probe)) === 0) {
      await pause(RETRY_MS);
      this.reopen();
      await this.opened;
    }
  }

  acquire() {
    const resource = `flood-${randomBytes(8).toString("hex")}`;
    const body = JSON.stringify({ resource, ownerId: "flood", ttlSeconds: 60 });
    const head = `POST /v1/locks/acquire HTTP/1.1\r\nhost: ${this.#url.host}\r\n`;
    return this.#send(
      `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  }

  /** The status of the answer; 0 when there was none. */
  #send(request) {
    return new Promise((resolve) => {
      this.#answered = resolve;
      if (this.#socket.destroyed) resolve(0);
      else this.#socket.write(request);
    });
  }

  close() {
    this.#socket.destroy();
  }
}

function say(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

const engine = values.engine ?? values.store?.split(":")[0] ?? "pglite";
if (values.store === undefined && !ENGINES.includes(engine)) {
  console.error(`no engine is named ${engine}: ${ENGINES.join(", ")}`);
  process.exit(64);
}
if (engine.startsWith("http") && values.attack !== undefined) {
  console.error(
    "a server behind a server has one tenant, and no other one to attack: --engine http without --attack",
  );
  process.exit(64);
}
const run = async (/** @type {import("./engines.js").Places} */ places) => {
  if (values.attack === undefined) await main(places);
  else {
    const options = { ...values, ...places, engine, seconds, holders };
    process.exitCode = await attackAll(values.attack, options);
  }
};
await (values.store === undefined ? onEngine(engine, run) : run({ store: values.store }));
