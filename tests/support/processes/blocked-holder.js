/**
 * A holder that blocks its event loop: `node blocked-holder.js SOURCE OPTIONS TTL`. It obeys the lines of its stdin
 * (`block MS`, `block-until FILE`, `check`, `end-threads`, `close`) and prints JSON.
 */
import { existsSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { createInterface } from "node:readline";
import threads from "node:worker_threads";

const workers = [];
threads.Worker = class extends threads.Worker {
  constructor(...args) {
    super(...args);
    workers.push(this);
  }
};
syncBuiltinESMExports();
const { connect } = await import("leasehold");

const [source = "", options = "{}", ttlMs = ""] = process.argv.slice(2);
const say = (said) => console.log(JSON.stringify(said));
const entry = (level) => (fields, message) => say({ log: level, message, fields });
const [debug, info] = [() => {}, () => {}];
const logger = { debug, info, warn: entry("warn"), error: entry("error") };

const leasehold = await connect(source, { ...JSON.parse(options), logger });
const lease = await leasehold.acquire("r", { ttlMs: Number(ttlMs) });
lease.onLost((reason) => say({ lost: reason }));
say({ token: lease.token });

const block = (isOver) => {
  say({ blocked: true });
  while (!isOver());
  // In the same turn: no timer has run, and no message has arrived.
  const alive = lease.checkAlive();
  say({ alive, aborted: lease.signal.aborted, remainingMs: lease.remainingMs() });
};
const commands = {
  block(ms) {
    const untilMs = Date.now() + Number(ms);
    block(() => Date.now() >= untilMs);
  },
  "block-until"(file) {
    block(() => existsSync(file));
  },
  check() {
    say({ checked: lease.checkAlive(), aborted: lease.signal.aborted });
  },
  async "end-threads"() {
    await Promise.all(workers.map((worker) => worker.terminate()));
    say({ ended: workers.length });
  },
  async close() {
    await leasehold.close();
    say({ closed: true });
    input.close();
  },
};
const input = createInterface(process.stdin);
input.on("line", (line) => {
  const [command, ...args] = line.split(" ");
  void commands[command]?.(...args);
});
