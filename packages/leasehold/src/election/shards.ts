/**
 * Work in shards, each of which runs on exactly one member at a time, spread evenly over live members.
 *
 *   NAME/coordinator    elects one member (Elector)
 *   NAME/members/M      held by each member: it lives        │ list, every second and when one expires
 *   NAME/plan           ◀── who works on what ── coordinator ◀┘
 *      │ read by each member every second, and at once where the store notifies of resources without waiters
 *      ▼
 *   NAME/shards/N       held by the member that works on shard N (Singleton), for as long as it does
 *
 * Only the lease of a shard excludes others: members may read plans late, and two coordinators may have
 * planned. So:
 * - *Handover.* A member that loses a shard asks its work to stop, waits for it to drain, and releases.
 *   The next member waits in the wait queue of the lease.
 * - *A member dies.* Its leases expire together. The coordinator wakes at that time and plans, and other
 *   members acquire the shards: within the TTL, the store's epsilon, and the second of the plan.
 * - *The coordinator dies.* All members continue. Another one is elected and starts from the last plan.
 * - *A paused coordinator* calls checkAlive() before each plan. A stale plan that still gets through is
 *   overwritten: the new coordinator checks every second whose plan it is.
 * - *A member that loses its own lease* drains its shards and joins again.
 * - *Work that does not stop* within its grace period: the shard's lease is left to expire, and the next
 *   member acquires it then. This member works on that shard again only once the old work has ended.
 */

import { jittered, sleep } from "../env/index.js";
import {
  type AcquireOptions,
  ClosedError,
  checkFunction,
  checkInteger,
  checkKnown,
  checkName,
  checkNumber,
  HOLDING,
  type Lease,
  type LeaseClient,
  LeaseholdError,
  type LeaseView,
  Wakeup,
} from "../lease/index.js";
import { type Allocation, allocate } from "./allocation.js";
import { type Elector, electorOver, type Term } from "./elector.js";
import { markedAs } from "./leadership.js";
import { Counts, describeMember, reportTwin } from "./membership.js";
import { encodePlan, MOST_MEMBERS, MOST_SHARDS, type Plan, readPlan, shortName } from "./plan.js";
import { type Singleton, singletonOver } from "./singleton.js";

/** Options of `leasehold.shards`. */
export interface ShardsOptions extends Omit<AcquireOptions, "waitMs" | "signal" | "metadata"> {
  /**
   * How many there are, from 1 to 1,024: the same number at all members. While it differs, such as during
   * a deployment that changes it, some shards have no member, and those that see it warn.
   */
  count: number;
  /** This member among the others; default the client's `holder`. A second one of a name waits, and warns. */
  member?: string;
  /** The work on one shard. Must stop when `lease.signal` aborts; is started again, with pauses, when it ends. */
  work: ShardWork;
  /**
   * How often members are counted and the plan is read, in milliseconds, each moved by up to 10 % at
   * random. Default 1,000: what is added to a takeover, against two reads a second and member.
   */
  pollIntervalMs?: number;
  /**
   * How long the work on a shard may take to drain when its signal aborts, in milliseconds. Default
   * 5,000. Work that still runs then keeps the shard's lease until the lease expires.
   */
  graceMs?: number;
}

const { metadata, ...SHARED } = HOLDING;
const OPTIONS: Readonly<Record<keyof ShardsOptions, true>> = {
  ...SHARED,
  count: true,
  member: true,
  work: true,
  pollIntervalMs: true,
  graceMs: true,
};

/** @param shard from 0 to count - 1 */
export type ShardWork = (shard: number, lease: Lease) => Promise<void>;

/** Work on a shard that was asked to stop. */
interface Leaving {
  /** @throws STILL_RUNNING */
  readonly closed: Promise<void>;
  readonly ended: Promise<void>;
}

/** `leasehold.shards()` calls it. Apart from the class, whose public type shows no constructor. */
export let shardsOver: (leases: LeaseClient, name: string, options: ShardsOptions) => Shards;

/**
 * One member of a group that shares work in shards. Made by `leasehold.shards(name, options)`; joins with
 * {@link Shards.start} and leaves with `close()`.
 * @example
 * ```ts
 * import { once } from "node:events";
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const work = async (shard, { signal }) => {
 *   console.log("working on shard", shard);
 *   await once(signal, "abort");
 * };
 * const shards = leasehold.shards("mailboxes", { count: 4, work }).start();
 * console.log(await shards.owners());
 * await shards.close();
 * await leasehold.close();
 * ```
 */
export class Shards implements AsyncDisposable {
  static {
    shardsOver = (leases, name, options) => new Shards(leases, name, options);
  }

  readonly #leases: LeaseClient;
  readonly #count: number;
  readonly #work: ShardWork;
  readonly #pollIntervalMs: number;
  readonly #acquire: AcquireOptions;
  readonly #shortName: string;
  readonly #member: string;
  readonly #counts: Counts;
  readonly #elector: Elector;
  readonly #presence: Singleton;
  readonly #stopping = new AbortController();
  #coordinating: Promise<void> | undefined;
  readonly #working = new Map<number, Singleton>();
  readonly #graceMs: number;
  /** Relieved of, and draining. */
  readonly #leaving = new Map<number, Leaving>();

  private constructor(
    leases: LeaseClient,
    /** The name of the group: a resource. */
    readonly name: string,
    options: ShardsOptions,
  ) {
    checkName("name", name);
    checkKnown(options, OPTIONS);
    const { count, member = leases.holder, work, ...rest } = options;
    const { pollIntervalMs = 1_000, graceMs = 5_000, ...acquire } = rest;
    checkInteger("count", count, 1, MOST_SHARDS);
    checkName("member", member);
    checkNumber("pollIntervalMs", pollIntervalMs, 1, Number.MAX_SAFE_INTEGER);
    checkNumber("graceMs", graceMs, 0, Number.MAX_SAFE_INTEGER);
    checkFunction("work", work);
    this.#leases = leases;
    this.#count = count;
    this.#work = work;
    this.#pollIntervalMs = pollIntervalMs;
    this.#graceMs = graceMs;
    this.#acquire = acquire;
    this.#shortName = shortName(member);
    this.#member = member;
    this.#counts = new Counts(leases, name, count);
    this.#elector = electorOver(leases, `${name}/coordinator`, {
      ...acquire,
      graceMs,
      metadata: markedAs("coordinator", leases),
    });
    const follow = (lease: Lease) => this.#follow(lease.signal);
    const metadata = markedAs("member", leases, describeMember(member, count));
    this.#presence = singletonOver(leases, `${this.#members}${member}`, follow, {
      ...acquire,
      metadata,
      restartDelayMs: pollIntervalMs,
      maxRestartDelayMs: Math.max(60_000, pollIntervalMs),
      // Its shards have theirs first.
      graceMs: 2 * graceMs,
    });
  }

  /**
   * Joins the group. Later calls do nothing.
   * @throws CLOSED when this, or the client, is closed
   */
  start(): this {
    const { signal } = this.#stopping;
    this.#presence.start();
    if (!this.#coordinating) void this.#reportTwin();
    this.#coordinating ??= this.#elector
      .lead((term) => this.#coordinate(term), { signal })
      .catch((error: unknown) => {
        const { logger } = this.#leases.env;
        logger.error({ err: error, name: this.name }, "this member no longer coordinates");
      });
    return this;
  }

  /** The shards whose lease this member holds now, ascending. */
  get held(): readonly number[] {
    const held = [...this.#working].filter(([, { lease }]) => lease?.checkAlive());
    return held.map(([shard]) => shard).sort((a, b) => a - b);
  }

  /** Whether this member coordinates. */
  get coordinates(): boolean {
    return this.#elector.term !== undefined;
  }

  /**
   * The holder of each shard, by the shard's number; null if it has none.
   * @throws STORE_UNAVAILABLE
   */
  async owners(): Promise<(string | null)[]> {
    const owners: (string | null)[] = Array.from({ length: this.#count }, () => null);
    for (const { resource, holder } of await this.#live(this.#shards)) {
      const shard = Number(resource.slice(this.#shards.length));
      if (shard < this.#count) owners[shard] = holder;
    }
    return owners;
  }

  /**
   * Leaves: the work of each shard drains, its lease is released, then the member's own.
   * @throws STILL_RUNNING when some work has not ended within `graceMs`: the lease of its shard is left
   *   to expire. Called again, it resolves once the work has ended
   */
  async close(): Promise<void> {
    this.#stopping.abort(new ClosedError("this member"));
    await Promise.all([this.#presence.close(), this.#coordinating]);
    await this.#left();
  }

  /** Leaves; work that does not stop is logged. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(() => {});
  }

  /** @throws STILL_RUNNING */
  async #left(): Promise<void> {
    await Promise.all([...this.#leaving.values()].map(({ closed }) => closed));
  }

  get #members(): string {
    return `${this.name}/members/`;
  }
  get #shards(): string {
    return `${this.name}/shards/`;
  }
  get #plan(): string {
    return `${this.name}/plan`;
  }

  async #live(prefix: string): Promise<LeaseView[]> {
    const views: LeaseView[] = [];
    let cursor: string | null = null;
    do {
      const query = { prefix, states: ["live"] as const, limit: 1_000 };
      const page = await this.#leases.list(cursor === null ? query : { ...query, cursor });
      views.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== null);
    return views;
  }

  /** The member's part: works on its shards in the plan until the signal aborts, then drains all of them. */
  async #follow(signal: AbortSignal): Promise<void> {
    const wakeup = new Wakeup();
    const unlisten = this.#leases.listen(this.#plan, wakeup.set);
    let newest = 0;
    try {
      while (!signal.aborted) {
        await this.#patiently("could not read the plan of the shards", async () => {
          const plan = await readPlan(this.#leases, this.#plan);
          // A paused coordinator may have written last; the live one overwrites its plan.
          if (plan === null || plan.term < newest) return;
          newest = plan.term;
          this.#adopt(plan.allocation);
          // The coordinator compares counts whenever it plans.
          if (this.coordinates) return;
          const isOfOtherCount = plan.allocation.length !== this.#count;
          this.#counts.compare(isOfOtherCount ? await this.#live(this.#members) : []);
        });
        await wakeup.wait(this.#leases.env, this.#pauseMs(), signal).catch(() => {});
      }
    } finally {
      unlisten();
      this.#adopt([]);
      // A member that leaves waits up to its grace period. One that lost its lease drains, then joins again.
      if (this.#stopping.signal.aborted) await this.#left().catch(() => {});
      else await Promise.all([...this.#leaving.values()].map(({ ended }) => ended));
    }
  }

  #adopt(allocation: Allocation): void {
    const isOwn = (shard: number) => allocation[shard] === this.#shortName;
    for (const [shard, singleton] of this.#working) {
      if (isOwn(shard)) continue;
      this.#working.delete(shard);
      const [closed, { ended }] = [singleton.close(), singleton];
      this.#leaving.set(shard, { closed, ended });
      // Drain logs work that does not stop.
      closed.catch(() => {});
      void ended.then(() => this.#leaving.delete(shard));
    }
    for (let shard = 0; shard < this.#count; shard++) {
      // A later poll restarts a shard that still drains.
      if (!isOwn(shard) || this.#working.has(shard) || this.#leaving.has(shard)) continue;
      const work = (lease: Lease) => this.#work(shard, lease);
      const metadata = markedAs("shard", this.#leases);
      const options = { ...this.#acquire, metadata, graceMs: this.#graceMs };
      const singleton = singletonOver(
        this.#leases,
        `${this.#shards}${shard}`,
        work,
        options,
      ).start();
      this.#working.set(shard, singleton);
    }
  }

  /** The coordinator's part, for one term. */
  async #coordinate(term: Term): Promise<void> {
    const { env } = this.#leases;
    while (!term.signal.aborted) {
      let pauseMs = this.#pauseMs();
      await this.#patiently("could not plan the shards", async () => {
        const members = await this.#live(this.#members);
        this.#counts.compare(members);
        for (const { remainingMs } of members) pauseMs = Math.min(pauseMs, remainingMs + 1);
        await this.#publish(term, members);
      });
      await sleep(env.clock, pauseMs, { signal: term.signal }).catch(() => {});
    }
  }

  async #publish(term: Term, members: readonly LeaseView[]): Promise<void> {
    const names = members
      .slice(0, MOST_MEMBERS)
      .map(({ resource }) => shortName(resource.slice(this.#members.length)));
    const last = await readPlan(this.#leases, this.#plan);
    const before = Array.from({ length: this.#count }, (_, at) => last?.allocation[at] ?? null);
    const allocation = allocate(before, names);
    const plan: Plan = { term: term.token, allocation };
    if (JSON.stringify(plan) === JSON.stringify(last)) return;
    const metadata = encodePlan(plan);
    // Rejects if the term has ended meanwhile: the plan is then not written.
    const publish = async (signal: AbortSignal) => {
      const asked = { ...this.#acquire, metadata, signal };
      const lease = await this.#leases.acquire(this.#plan, asked);
      await lease.release();
    };
    await this.#elector.runIfLeader(publish);
    const { name } = this;
    this.#leases.env.logger.info({ name, members: names.length }, "shards allocated");
  }

  /** Logs a failure of the store; the next poll retries. */
  async #patiently(what: string, step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (this.#stopping.signal.aborted || this.#leases.closing.aborted) return;
      if (!(error instanceof LeaseholdError)) throw error;
      this.#leases.env.logger.warn({ err: error, name: this.name }, what);
    }
  }

  #reportTwin(): Promise<void> {
    const { name } = this;
    const [member, resource] = [this.#member, `${this.#members}${this.#member}`];
    const isJoined = () => this.#presence.lease !== undefined;
    const signal = AbortSignal.any([this.#stopping.signal, this.#leases.closing]);
    const pauseMs = () => this.#pauseMs();
    return reportTwin(this.#leases, { name, member, resource }, isJoined, pauseMs, signal);
  }

  #pauseMs(): number {
    return jittered(this.#leases.env.random, this.#pollIntervalMs, 0.1);
  }
}
