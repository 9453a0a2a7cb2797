/**
 * A Lease object: acquire(), release(), checkAlive(), onLost(), for code that comes and goes as a
 * leader. A coordinator asks before each allocation, and rejects what is under way when it loses.
 *
 *   node examples/lease-api.js [URL]
 *
 * URL says where the leases are kept: http://127.0.0.1:4040 while `npm start` runs, postgres://...;
 * without one, PGlite in this process.
 *
 * You will see `true` for the node that has the lease, asked twice, and `false` for the other; then
 * an operator revokes it: the allocation under way is rejected, the next one refused, and the other
 * node takes over with a larger token.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "leasehold";
import { openSource } from "./support/source.js";

const RESOURCE = "shard-coordinator";

class ShardCoordinator {
  /** Aborts with the lease, and with it every allocation under way. */
  #leading = new AbortController();

  /**
   * @param {string} name
   * @param {import("leasehold").ReusableLease} lease
   */
  constructor(name, lease) {
    this.name = name;
    this.lease = lease;
    lease.onLost((reason) => {
      console.log(`${name}: lost the lease (${reason})`);
      // Return quickly: another node may already lead.
      this.#leading.abort(new Error(`lease lost: ${reason}`));
    });
  }

  /** Call it when this node becomes the leader. */
  async start() {
    const got = await this.lease.acquire();
    console.log(`${this.name}: acquire() is ${got}${got ? `, token ${this.token}` : ""}`);
    if (got && this.#leading.signal.aborted) this.#leading = new AbortController();
    return got;
  }

  /** Call it when this node stops leading. Without the lease it does nothing. */
  async stop() {
    await this.lease.release();
    console.log(`${this.name}: released, checkAlive() is ${this.lease.checkAlive()}`);
  }

  get token() {
    return this.lease.held?.token ?? 0;
  }

  /**
   * @param {string} shard
   * @param {number} [takesMs] what the region needs to confirm
   */
  async allocate(shard, takesMs = 10) {
    if (!this.lease.checkAlive()) throw new Error("not the leader");
    await sleep(takesMs, undefined, { signal: this.#leading.signal });
    return `${shard} allocated`;
  }
}

const { source, close } = await openSource(process.argv[2]);
const [one, two] = await Promise.all([
  connect(source, { holder: "node-1" }),
  connect(source, { holder: "node-2" }),
]);
const options = { ttlMs: 3_000 };
const first = new ShardCoordinator("node-1", one.reusableLease(RESOURCE, options));
const second = new ShardCoordinator("node-2", two.reusableLease(RESOURCE, options));
try {
  await first.start();
  // A node that holds the lease may acquire it again.
  await first.start();
  // `false`: another node holds the lease. If that were uncertain, acquire() would reject.
  await second.start();
  await second.stop();

  await tell(first, first.allocate("shard-7"));
  const underWay = tell(first, first.allocate("shard-8", 60_000));
  const revoked = await two.revoke(RESOURCE);
  console.log(`operator: ${revoked.status}`);
  await underWay;
  await tell(first, first.allocate("shard-9"));

  const { token: before = 0 } = (await two.get(RESOURCE)) ?? {};
  // The store grants nothing before node-1's grant expires, so the first attempts may fail.
  while (!(await second.start())) await sleep(200);
  console.log(`the token has grown: ${second.token > before}`);
  await tell(second, second.allocate("shard-9"));
  await second.stop();
} finally {
  await Promise.all([one.close(), two.close()]);
  await close();
}

/**
 * @param {ShardCoordinator} coordinator
 * @param {Promise<string>} allocation
 */
async function tell({ name }, allocation) {
  const said = await allocation.catch((error) => {
    // An aborted timer has the signal's reason as its cause.
    return `rejected, ${(error.cause ?? error).message}`;
  });
  console.log(`${name}: ${said}`);
}
