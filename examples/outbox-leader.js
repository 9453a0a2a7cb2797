/**
 * A leader that dispatches an outbox, as the article on the lease pattern has it: a lease behind a small
 * interface, a loop that acquires and renews, work that runs only on the leader. Two nodes; one leads.
 *
 *   node examples/outbox-leader.js [URL]
 *
 * URL says where the leases are kept: postgres://..., redis://127.0.0.1:6379, http://127.0.0.1:4040 while
 * `npm start` runs; without one, PGlite in this process. The outbox and its fence are in the same
 * PostgreSQL, in a schema that is dropped afterwards; else in a PGlite of this process.
 *
 * You will see node-1 publish, stand still for longer than its lease in the middle of a message, and be
 * refused when it comes back to mark it as sent (STALE_TOKEN); node-2 publish that message again and go
 * on; node-1 take over at once when node-2 is stopped; every message marked once, in order.
 *
 * What differs from the article's code, and why:
 * - Each step asks the lease, by the clock, whether the node still leads. A flag that the loop sets is wrong
 *   from the expiry of the lease until the next round of the loop.
 * - An error of a call says nothing about the lease. The node leads on until its own time is over, which
 *   comes before the store's; an acquire whose answer was lost is repeated and answers the same grant.
 * - Losing the lease ends the work that is under way: its signal aborts.
 * - stop() ends the loop, waits for the work, and releases last. Released first, the next leader would
 *   begin beside work that still runs, and the loop might acquire again.
 * - What the work writes carries the token, for nothing can stop a node that does not notice the time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, LeaseLostError, StaleTokenError } from "leasehold";
import { FENCE_TABLE, fence } from "leasehold/fence";
import { pglite } from "leasehold/stores/postgres";
import { openDatabase } from "./support/database.js";

const KEY = "lease:outbox-dispatcher";
const TTL_MS = 2_000;
const MESSAGES = 12;
/** node-1 stands still while it has this one in hand; node-2 is stopped after that one. */
const [FROZEN_AT, STOPPED_AT] = [4, 8];

/** The article's ILease: key, ttl, acquire, renew, release. What it adds is the grant in hand. */
class Lease {
  #lease;

  /**
   * @param {import("leasehold").Leasehold} leases
   * @param {string} key
   * @param {number} ttlMs
   */
  constructor(leases, key, ttlMs) {
    this.key = key;
    this.ttlMs = ttlMs;
    // Renewed by the loop below. (Without it, `autoRenew` does the same, and needs no loop.)
    this.#lease = leases.reusableLease(key, { ttlMs, autoRenew: false, acquireRetries: 0 });
  }

  /** With its token and its signal; null when this node does not hold it, by its own clock. */
  get held() {
    return this.#lease.held;
  }

  acquire() {
    return this.#lease.acquire();
  }

  /** `false`: the lease is lost. An error: the result is unknown. */
  async renew() {
    try {
      await this.#lease.held?.renew();
      return this.held !== null;
    } catch (error) {
      if (error instanceof LeaseLostError) return false;
      throw error;
    }
  }

  release() {
    return this.#lease.release();
  }
}

/** Acquires, renews, and runs work while it leads. */
class LeaderLoop {
  #stopping = new AbortController();
  /** @type {Promise<void>} */
  #working = Promise.resolve();
  #looping;
  /** What keeps the whole process from going on. */
  standsStill = Promise.resolve();

  /**
   * @param {string} name
   * @param {Lease} lease
   */
  constructor(name, lease) {
    this.name = name;
    this.lease = lease;
    this.#looping = this.#loop();
  }

  /**
   * @param {(held: import("leasehold").Lease, signal: AbortSignal) => Promise<void>} work ends
   *   when the signal aborts: the lease is lost, or this node stops
   */
  async runIfLeader(work) {
    const { held } = this.lease;
    if (!held || this.#stopping.signal.aborted) return;
    this.#working = work(held, AbortSignal.any([held.signal, this.#stopping.signal]));
    await this.#working;
  }

  async stop() {
    this.#stopping.abort();
    await this.#looping;
    await this.#working.catch(() => {});
    await this.lease.release();
    console.log(`${this.name} has stopped, and released`);
  }

  async #loop() {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.standsStill;
      try {
        await this.#turn();
      } catch (error) {
        console.log(`${this.name} has no answer: ${error}`);
      }
      const jitterMs = Math.random() * (this.lease.ttlMs / 20);
      await sleep(this.lease.ttlMs / 3 + jitterMs, undefined, { signal }).catch(() => {});
    }
  }

  async #turn() {
    const { held } = this.lease;
    if (held) {
      if (!(await this.lease.renew())) console.log(`${this.name} has lost the lease`);
    } else if (await this.lease.acquire()) {
      console.log(`${this.name} leads, token ${this.lease.held?.token}`);
    }
  }
}

const database = await openDatabase(process.argv[2]);
const OUTBOX = `${database.schema}.outbox`;
await database.exec(FENCE_TABLE);
await database.exec(`
  CREATE TABLE ${OUTBOX} (id int PRIMARY KEY, body text NOT NULL, sent_by text);
  INSERT INTO ${OUTBOX} SELECT n, 'order ' || n FROM generate_series(1, ${MESSAGES}) n;`);

/** Publishes what is pending, oldest first, until there is no more or it must stop. */
class OutboxDispatcher {
  /**
   * @param {LeaderLoop} leader
   * @param {(id: number) => Promise<void>} publish
   */
  constructor(leader, publish) {
    this.leader = leader;
    this.publish = publish;
  }

  tick() {
    return this.leader.runIfLeader(async (held, signal) => {
      while (!signal.aborted && held.checkAlive()) {
        const query = `SELECT id FROM ${OUTBOX} WHERE sent_by IS NULL ORDER BY id LIMIT 1`;
        const [message] = /** @type {{ id: number }[]} */ ((await database.query(query)).rows);
        if (!message) return;
        // What receives it must bear it twice: no leader can publish and mark in one step.
        await this.publish(message.id);
        await this.#mark(message.id, held);
        await sleep(50, undefined, { signal }).catch(() => {});
      }
    });
  }

  /**
   * @param {number} id
   * @param {import("leasehold").Lease} held
   */
  async #mark(id, { token }) {
    const { name } = this.leader;
    try {
      const marked = await database.transaction(async (tx) => {
        await fence(tx, KEY, token);
        const update = `UPDATE ${OUTBOX} SET sent_by = $1 WHERE id = $2 AND sent_by IS NULL RETURNING id`;
        return (await tx.query(update, [name, id])).rows.length === 1;
      });
      if (marked) console.log(`${name} marks ${id} as sent, token ${token}`);
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
      console.log(`${name} is refused: ${error.code}, ${error.token} after ${error.lastToken}`);
    }
  }
}

const source =
  process.argv[2] ??
  pglite({ db: /** @type {import("@electric-sql/pglite").PGlite} */ (database.db) });
const clients = [
  await connect(source, { holder: "node-1" }),
  await connect(source, { holder: "node-2" }),
];
/** @param {number} at */
const newLoop = (at) => {
  const leases = /** @type {import("leasehold").Leasehold} */ (clients[at]);
  return new LeaderLoop(leases.holder, new Lease(leases, KEY, TTL_MS));
};
// Two nodes that start together may lead in either order. node-1 must lead first in this example.
const first = newLoop(0);
while (!first.lease.held) await sleep(20);
const second = newLoop(1);

/** When node-2 has marked a message. */
let thaw = () => {};
/** @type {(id: number) => Promise<void>} */
async function publishOnFirst(id) {
  console.log(`node-1 publishes ${id}`);
  if (id !== FROZEN_AT) return;
  console.log("node-1 stands still");
  first.standsStill = new Promise((resolve) => {
    thaw = resolve;
  });
  await first.standsStill;
  console.log("node-1 goes on where it was");
}
/** @type {Promise<void> | undefined} */
let stopped;
/** @type {(id: number) => Promise<void>} */
async function publishOnSecond(id) {
  console.log(`node-2 publishes ${id}`);
  if (id > FROZEN_AT) thaw();
  if (id === STOPPED_AT) stopped = second.stop();
}

/** As a program does that has a timer for it. */
async function ticking(/** @type {OutboxDispatcher} */ dispatcher) {
  for (;;) {
    await dispatcher.tick();
    const { rows } = await database.query(`SELECT FROM ${OUTBOX} WHERE sent_by IS NULL`);
    if (rows.length === 0) return;
    await sleep(50);
  }
}

try {
  await Promise.all([
    ticking(new OutboxDispatcher(first, publishOnFirst)),
    ticking(new OutboxDispatcher(second, publishOnSecond)),
  ]);
  await Promise.all([first.stop(), stopped ?? second.stop()]);
  const query = `SELECT count(*)::int AS sent FROM ${OUTBOX} WHERE sent_by IS NOT NULL`;
  const [row] = /** @type {{ sent: number }[]} */ ((await database.query(query)).rows);
  console.log(`${row?.sent} of ${MESSAGES} messages are sent`);
} finally {
  await Promise.all(clients.map((leases) => leases.close()));
  await database.close();
}
