/** Runs a program of shards: each has at most one owner, and in the end all have one. */
import type { Lease, Shards } from "leasehold";
import { LeaseBook } from "./lease-book.js";
import type { ShardStep } from "./shard-step.js";
import { type Client, codeOf, Site, SLICE_MS } from "./site.js";

const NAME = "mail";
const COUNT = 5;
const TTL_MS = 1_000;
const GRACE_MS = 300;
const POLL_MS = 200;
const PROMPT_MS = 8;
/** Without faults: the members are counted, the plan is read, shards drain and are acquired. */
const SETTLED_MS = 4 * POLL_MS + TTL_MS + GRACE_MS;
const FAILURE = new Error("the work throws");

interface Working {
  readonly shard: number;
  readonly lease: Lease;
  askedAtMs: number;
  end(how: "return" | "throw" | "stop"): void;
}

class Member {
  shards: Shards | undefined;
  leaving: Promise<void> | undefined;
  stoppingMs = 0;
  /** All work that runs, also of an earlier membership. */
  readonly working = new Set<Working>();

  constructor(readonly client: Client) {}
}

export class ShardRun {
  readonly #members: readonly Member[];
  readonly #owners = new Map<number, string>();
  #open = 0;
  /** From then on work stops at once. */
  #isEnding = false;

  private constructor(
    readonly site: Site,
    readonly book: LeaseBook,
  ) {
    this.#members = site.clients.map((client) => new Member(client));
  }

  static async open(seed: number): Promise<ShardRun> {
    let book: LeaseBook | undefined;
    const leases = (site: Site) => (book = new LeaseBook(site));
    const names = ["node-1", "node-2", "node-3"];
    const site = await Site.open(seed, names, { leases }, { graceMs: GRACE_MS });
    return new ShardRun(site, book ?? leases(site));
  }

  async step(step: ShardStep): Promise<void> {
    const { site } = this;
    if (step.do === "pass") return site.pass(step.ms, this.#look);
    const member = this.#members[step.client];
    if (member?.client.isRunning) this.#do(member, step);
    await site.flush();
    this.#look();
    site.check();
  }

  /** Everything heals: the shards are spread over the members and stay there; then all leave. */
  async end(): Promise<void> {
    const { site } = this;
    this.#isEnding = true;
    for (const member of this.#members) {
      const { client } = member;
      client.resume();
      client.losing.clear();
      for (const work of member.working) if (work.askedAtMs < Infinity) work.end("stop");
    }
    await site.until("all who leave have left", 40_000, this.#look, () => this.#open === 0);
    // What an operator has revoked is lost at its next renewal, and free at its expiry.
    await site.pass(3 * TTL_MS, this.#look);
    const joined = () => this.#members.filter(({ shards }) => shards);
    const [first] = this.#members;
    if (first && joined().length === 0) this.#join(first, 0);
    await this.#settle(joined);
    const [leaver] = joined();
    if (leaver && joined().length > 1) await this.#withOneLess(leaver, joined);
    for (const member of joined()) this.#leave(member);
    await site.until(
      "all have left",
      20_000,
      this.#look,
      () => joined().length === 0 && this.#open === 0,
    );
    for (const { client } of this.#members) {
      client.closing = client.leasehold.close().then(() => {
        client.isClosed = true;
      });
    }
    const isClosed = () => site.clients.every((client) => client.isClosed);
    await site.until("every client is closed", 20_000, this.#look, isClosed);
    const left = this.book.resources.find((resource) => {
      const current = this.book.current(resource);
      return current && current.ended === null;
    });
    site.expect(!left, `${left} is still held at the end`);
    site.check();
  }

  /** Balanced shards stay where they are. A member that recovers from a fault may still join again. */
  async #settle(joined: () => readonly Member[]): Promise<void> {
    const { site } = this;
    for (let before = ""; before !== this.#spread(); ) {
      await site.until("the shards are balanced", 60_000, this.#look, () =>
        this.#isBalanced(joined()),
      );
      site.count("balanced");
      before = this.#spread();
      const isFaulty = site.clients.some((client) => client.isFaulty);
      await site.pass(2 * TTL_MS, this.#look);
      const after = this.#spread();
      site.expect(isFaulty || after === before, `${before} becomes ${after} without a cause`);
      site.check();
    }
  }

  /** A member that leaves moves its own shards alone, and soon. */
  async #withOneLess(leaver: Member, joined: () => readonly Member[]): Promise<void> {
    const { site } = this;
    const before = new Map(this.#owners);
    this.#leave(leaver);
    const stay = joined().filter((member) => member !== leaver);
    const isFree = () => this.#isBalanced(stay) && leaver.shards === undefined;
    await site.until("its shards are taken over", SETTLED_MS + TTL_MS, this.#look, isFree);
    for (const [shard, owner] of before) {
      const isMoved = this.#owners.get(shard) !== owner;
      site.expect(!isMoved || owner === leaver.client.name, `shard ${shard} moved without a cause`);
    }
  }

  #do(member: Member, step: Exclude<ShardStep, { do: "pass" }>): void {
    const { site, book } = this;
    const { client, shards } = member;
    switch (step.do) {
      case "join":
        site.count(shards ? "join: again" : "join: first");
        if (shards && !member.leaving) shards.start();
        if (!shards) this.#join(member, step.stoppingMs);
        return;
      case "leave":
        if (shards) this.#leave(member);
        return;
      case "owners":
        if (shards && !member.leaving) this.#askOwners(client, shards);
        return;
      case "end":
        return [...member.working].at(-1)?.end(step.how);
      case "revoke": {
        const wanted = { coordinator: "/coordinator", member: "/members/", shard: "/shards/" };
        const resource = book.resources.find(
          (name) => name.includes(wanted[step.lease]) && book.current(name)?.holder === client.name,
        );
        if (resource === undefined) return;
        return this.#ask(client, client.leasehold.revoke(resource, { free: step.free }), () => {});
      }
      case "pause":
        return client.pause(step.ms);
      case "lose":
        client.losing.set(step.of, { message: step.message, times: step.times });
    }
  }

  #join(member: Member, stoppingMs: number): void {
    const { client } = member;
    member.stoppingMs = stoppingMs;
    member.leaving = undefined;
    member.shards = client.leasehold
      .shards(NAME, {
        count: COUNT,
        ttlMs: TTL_MS,
        graceMs: GRACE_MS,
        pollIntervalMs: POLL_MS,
        work: (shard, lease) => this.#work(member, shard, lease),
      })
      .start();
  }

  #leave(member: Member): void {
    const { site } = this;
    const { client, shards } = member;
    if (!shards || member.leaving) return;
    const sinceMs = site.nowMs;
    const left = () => {
      member.shards = undefined;
      member.leaving = undefined;
    };
    member.leaving = shards.close().then(
      () => {
        site.count("leave: done");
        const { size } = member.working;
        site.expect(size === 0, `${client.name} has left, and works on ${size} shards`);
        site.expect(shards.held.length === 0, `${client.name} has left, and holds shards`);
        left();
      },
      async (error: unknown) => {
        site.count("leave: still running");
        site.expect(codeOf(error) === "STILL_RUNNING", `leaving fails with ${codeOf(error)}`);
        const isOverdue = member.stoppingMs > GRACE_MS || client.isFaultySince(sinceMs);
        site.expect(isOverdue, `${client.name} leaves overdue work`);
        await shards[Symbol.asyncDispose]();
        for (const work of member.working) work.end("stop");
        left();
      },
    );
    this.#ask(client, member.leaving, () => {});
  }

  /** The answer may be late: it names who had the shard at any time since the question. */
  #askOwners(client: Client, shards: Shards): void {
    const { nowMs: sinceMs } = this.site;
    this.#ask(client, shards.owners(), (owners) => {
      this.site.count("owners: answered");
      this.site.expect(owners.length === COUNT, `there are ${owners.length} shards`);
      for (const [shard, owner] of owners.entries()) {
        const resource = `${NAME}/shards/${shard}`;
        const isRight = owner === null || this.book.wasHeldBy(resource, owner, sinceMs);
        this.site.expect(isRight, `shard ${shard} is said to be ${owner}'s`);
      }
    });
  }

  #work(member: Member, shard: number, lease: Lease): Promise<void> {
    const { site, book } = this;
    const { client } = member;
    const named = `the work of ${client.name} on shard ${shard}`;
    site.count("work: begins");
    site.expect(client.isRunning, `${named} begins while it is paused`);
    site.expect(lease.resource === `${NAME}/shards/${shard}`, `${named} has ${lease.resource}`);
    site.expect(lease.checkAlive(), `${named} begins without a lease`);
    const granted = book.grants.get(lease.leaseId);
    site.expect(granted?.holder === client.name, `${named} has the grant of ${granted?.holder}`);
    const isSecond = [...member.working].some((work) => work.shard === shard);
    site.expect(!isSecond, `${named} overlaps itself`);
    return new Promise((resolve, reject) => {
      const work: Working = {
        shard,
        lease,
        askedAtMs: Infinity,
        end: (how) => {
          if (!member.working.delete(work)) return;
          const what = { return: "returns", throw: "throws", stop: "stops" } as const;
          site.count(`work: ${what[how]}`);
          if (how === "throw") reject(FAILURE);
          else resolve();
        },
      };
      member.working.add(work);
      lease.onLost(() => site.count("work: is lost"));
      const stop = () => {
        work.askedAtMs = site.nowMs;
        const stoppingMs = this.#isEnding ? 1 : member.stoppingMs;
        if (stoppingMs > GRACE_MS) site.count("work: is overdue");
        client.process.env.clock.timer(stoppingMs, () => work.end("stop"));
      };
      if (lease.signal.aborted) stop();
      else lease.signal.addEventListener("abort", stop, { once: true });
    });
  }

  #ask<T>(client: Client, asked: Promise<T>, onAnswer: (value: T) => void): void {
    const sinceMs = this.site.nowMs;
    this.#open += 1;
    asked.then(
      (value) => {
        this.#open -= 1;
        onAnswer(value);
      },
      (error: unknown) => {
        this.#open -= 1;
        const isFaulty = codeOf(error) === "STORE_UNAVAILABLE" && client.isFaultySince(sinceMs);
        this.site.expect(isFaulty, `a call of ${client.name} fails with ${codeOf(error)}`);
      },
    );
  }

  /** Whether each shard is held and worked on, by members that differ by one shard at most. */
  #isBalanced(members: readonly Member[]): boolean {
    const loads = members.map(({ shards }) => shards?.held.length ?? 0);
    const isEven = Math.max(...loads) - Math.min(...loads) <= 1;
    const own = new Set(members.map(({ client }) => client.name));
    const isOwn = [...this.#owners.values()].every((owner) => own.has(owner));
    return isEven && isOwn && loads.reduce((sum, load) => sum + load, 0) === COUNT;
  }

  #spread(): string {
    return this.#members
      .map(({ client, shards }) => `${client.name}: ${shards?.held.join()}`)
      .join("; ");
  }

  readonly #look = (): void => {
    const { site } = this;
    const alive = new Map<number, Working>();
    for (const member of this.#members) {
      if (!member.client.isRunning) continue;
      for (const work of member.working) this.#lookAt(member, work, alive);
      const { shards } = member;
      if (!shards) continue;
      for (const shard of shards.held) {
        const granted = this.book.last(`${NAME}/shards/${shard}`);
        const isOwn = granted?.holder === member.client.name;
        const isRight =
          isOwn || [...this.book.grants.values()].some(({ isOverlapped }) => isOverlapped);
        site.expect(isRight, `${member.client.name} says that it holds shard ${shard}`);
        if (!isOwn) continue;
        const before = this.#owners.get(shard);
        if (before !== undefined && before !== member.client.name) site.count("a shard moved");
        this.#owners.set(shard, member.client.name);
      }
      if (shards.coordinates) site.count("a member coordinates");
    }
    const coordinators = this.#members.filter(
      ({ client, shards }) => client.isRunning && shards?.coordinates,
    );
    const isOverlapped = [...this.book.grants.values()].some((granted) => granted.isOverlapped);
    site.expect(coordinators.length <= 1 || isOverlapped, "two members coordinate");
  };

  #lookAt(
    { client }: Member,
    { shard, lease, askedAtMs }: Working,
    alive: Map<number, Working>,
  ): void {
    const { site, book } = this;
    const named = `the work of ${client.name} on shard ${shard}`;
    const granted = book.grants.get(lease.leaseId);
    if (!granted) return site.broken(`${named} has no grant`);
    if (granted.ended === "released") site.broken(`${named} runs on a released lease`);
    const presence = book.current(`${NAME}/members/${client.name}`);
    const isJoined = presence !== undefined && presence.grantedAtMs > askedAtMs + PROMPT_MS;
    const isOld = isJoined && !client.isFaultySince(askedAtMs);
    site.expect(!isOld, `${named} runs on, and its member has joined again`);
    if (!lease.checkAlive()) {
      site.expect(lease.signal.aborted, `${named} is lost, and its signal has not aborted`);
      const isOverdue = site.nowMs > askedAtMs + GRACE_MS - SLICE_MS;
      const isFaulty = client.isFaultySince(granted.confirmedAtMs) || isOverdue;
      site.expect(isFaulty || granted.ended !== null, `${named} was not renewed`);
      return;
    }
    site.expect(site.nowMs < granted.trustedUntilMs, `${named} is trusted for too long`);
    const other = alive.get(shard);
    const isOverlapped =
      granted.isOverlapped || (other && book.grants.get(other.lease.leaseId)?.isOverlapped);
    site.expect(!other || isOverlapped === true, `shard ${shard} has two owners`);
    alive.set(shard, { shard, lease, askedAtMs, end: () => {} });
    const isOwn = book.current(granted.resource) === granted || granted.isOverlapped;
    site.expect(isOwn, `${named} is alive, and the store's grant is not`);
  }
}
