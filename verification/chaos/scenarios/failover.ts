/**
 * What clients see of two servers, the second of which takes over without the last moments of the first.
 *
 *   first   ── kept, early, middle ──┤ cut ├── renewals, releases, completions; grants, new tasks ──╳ killed
 *                                    │
 *   second  ── the same ─────────────┘                                   takes over ├── who asks now?
 *
 * Holders work through it all, and ask their store nothing more before they write. Then each lost grant
 * is made anew, and both of its holders write.
 */
import { setTimeout as delay } from "node:timers/promises";
import { connect, type Lease, type Leasehold } from "leasehold";
import { Load } from "./load.js";
import type { Pair } from "./pair.js";
import { TaskWork } from "./task-work.js";
import { type Grant, Witness } from "./witness.js";

/** Longer than any scenario takes. */
export const LONG_MS = 600_000;
/** For what was on its way when nothing reached the second any more; and to see that there is no more. */
const SILENCE_MS = 1_000;
/** How long a contender waits for the lease of a dead holder. */
const PATIENCE_MS = 30_000;
const RETRY_MS = 50;
/** Of each kind, before the cut. */
export const EACH = 5;
const LOAD = 50;

export interface FailoverOptions {
  /** What the first answers when nothing reaches the second: everything, nothing, or some time still. */
  readonly afterCut: "answers" | "nothing" | "refuses later";
  readonly hasTasks: boolean;
}

/** All of them counts. */
export interface Seen {
  answeredGrants: number;
  lostGrants: number;
  /** Answered after the cut, by the first. */
  lateGrants: number;
  /** Statements that waited for the second, until an operator interfered. */
  cancelledWaits: number;
  /** Answered by the first when it was to answer no more. */
  strayGrants: number;
  /** Grants that the second has, and whose resource it granted again. */
  doubledGrants: number;
  /** Renewed on the second, with the token that they had. */
  keptGrants: number;
  lostRenewals: number;
  /** Released on the first, and yet in the way on the second. */
  lostReleases: number;
  /** Lost grants that their holders still trusted when the next holder had its own. */
  believedAtOnce: number;
  /** Of these, the holders that learned of the loss from their next renewal. */
  heardAtRenewal: number;
  /** Leases of cut off holders, which the next ones have acquired. */
  takenOver: number;
  smallerTokens: number;
  refusedWrites: number;
  fencedViolations: number;
  unfencedViolations: number;
  /** Grants that were made after the remedy, and whose writes passed. */
  remedied: number;
  answeredTasks: number;
  lostTasks: number;
  /** Lost ones that were enqueued anew under their ids, and are done. */
  tasksAddedAgain: number;
  /** Tasks that were done and are done again. */
  lostCompletions: number;
  /** Tasks that the second has, and that are not done in the end. */
  undoneTasks: number;
}

/** Of a scenario in which nothing of the kind happened. */
export const NOTHING_SEEN: Seen = {
  answeredGrants: 0,
  lostGrants: 0,
  lateGrants: 0,
  cancelledWaits: 0,
  strayGrants: 0,
  doubledGrants: 0,
  keptGrants: 0,
  lostRenewals: 0,
  lostReleases: 0,
  believedAtOnce: 0,
  heardAtRenewal: 0,
  takenOver: 0,
  smallerTokens: 0,
  refusedWrites: 0,
  fencedViolations: 0,
  unfencedViolations: 0,
  remedied: 0,
  answeredTasks: 0,
  lostTasks: 0,
  tasksAddedAgain: 0,
  lostCompletions: 0,
  undoneTasks: 0,
};

export interface Held {
  readonly lease: Lease;
  readonly grant: Grant;
}

export async function failover(
  pair: Pair,
  { afterCut, hasTasks }: FailoverOptions,
  say: (line: string) => void,
): Promise<Seen> {
  const holders = await connect(pair.url, { graceMs: 0, holder: "first" });
  const successors = await connect(pair.url, { graceMs: 0, holder: "second" });
  const tasks = hasTasks ? new TaskWork(holders.tasks) : undefined;
  const witness = new Witness();
  const note = (lease: Lease): Held => {
    const grant = witness.granted(lease);
    // The others have not come to it yet.
    if (grant.order % 2 === 0) witness.write(grant);
    return { lease, grant };
  };
  const load = new Load(holders, note, tasks);
  try {
    const take = (name: string) => takeAll(holders, name, note);
    const [kept, renewed, released] = [
      await take("kept"),
      await take("renewed"),
      await take("released"),
    ];
    await tasks?.beforeCut(afterCut === "answers");
    load.start();
    await load.until(({ grants }) => grants.length >= LOAD);
    await pair.cut();
    const early = load.grants.length;
    say(`nothing more reaches the second: ${early} grants so far`);

    let renewedUntil: number[] = [];
    if (afterCut === "answers") {
      for (const { lease } of renewed) await lease.renew();
      renewedUntil = await expiries(holders, renewed);
      for (const { lease } of released) await lease.release();
      await tasks?.afterCut();
      await load.until(({ grants }) => grants.length >= early + LOAD);
    } else if (afterCut === "nothing") {
      await delay(SILENCE_MS);
    } else {
      await load.until(({ refusals }) => refusals.length > 0);
      say(`the first refuses: ${load.refusals[0]}`);
    }
    const late = load.grants.length;
    const cancelledWaits = (await pair.cancelWaits?.()) ?? 0;
    if (afterCut !== "answers") await delay(SILENCE_MS);
    const strayGrants = afterCut === "answers" ? 0 : load.grants.length - late;
    await tasks?.noteDone();
    const lateGrants = load.grants.length - early;
    await Promise.all([pair.failOver(), load.stop()]);
    await Promise.all([isReached(holders), isReached(successors)]);
    say(`the second has taken over: ${load.grants.length} grants were answered`);

    const all = [...kept, ...load.grants];
    const lost = await lostOf(successors, all);
    say(`${lost.length} of them are lost`);
    const lostRenewals = (await expiries(successors, renewed.slice(0, renewedUntil.length))).filter(
      (until, at) => until < (renewedUntil[at] ?? 0),
    ).length;
    const doubled = await takenAnew(
      successors,
      all.filter((one) => !lost.includes(one)),
    );
    const blocked = afterCut === "answers" ? EACH - (await takenAnew(successors, released)) : 0;
    let keptGrants = 0;
    for (const { lease, grant } of kept) {
      await lease.renew();
      if ((await successors.get(lease.resource))?.token === grant.token) keptGrants += 1;
    }
    const { next, believedAtOnce, heardAtRenewal } = await grantAnew(successors, lost, witness);
    const remedied = await remedy(pair, successors, next, witness);
    const work = await tasks?.afterFailover();
    return {
      ...NOTHING_SEEN,
      answeredGrants: all.length,
      lostGrants: lost.length,
      lateGrants,
      cancelledWaits,
      strayGrants,
      doubledGrants: doubled,
      keptGrants,
      lostRenewals,
      lostReleases: blocked,
      believedAtOnce,
      heardAtRenewal,
      remedied,
      ...witness.seen,
      ...work,
    };
  } finally {
    await load.stop();
    await Promise.all([holders.close(), successors.close()]);
  }
}

/** Resolves when it has connected to the second. */
async function isReached(leases: Leasehold): Promise<void> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const error = await leases.get("kept-1").then(
      () => null,
      (reason: Error) => reason,
    );
    if (error === null) return;
    if (performance.now() >= untilMs) throw error;
    await delay(RETRY_MS);
  }
}

async function takeAll(
  leases: Leasehold,
  name: string,
  note: (lease: Lease) => Held,
): Promise<Held[]> {
  const held: Held[] = [];
  for (let at = 1; at <= EACH; at += 1) {
    held.push(note(await leases.acquire(`${name}-${at}`, { ttlMs: LONG_MS, autoRenew: false })));
  }
  return held;
}

async function expiries(leases: Leasehold, held: readonly Held[]): Promise<number[]> {
  const views = await Promise.all(held.map(({ lease }) => leases.get(lease.resource)));
  return views.map((view) => Date.parse(view?.expiresAt ?? ""));
}

/** Those that the store does not have any more. */
export async function lostOf(leases: Leasehold, held: readonly Held[]): Promise<Held[]> {
  const lost: Held[] = [];
  for (const one of held) {
    const view = await leases.get(one.lease.resource);
    // A store may keep the record of a grant that has ended.
    if (view?.grantId !== one.lease.grantId || view.state !== "live") lost.push(one);
  }
  return lost;
}

/** Counts the held resources that another client can acquire. */
export async function takenAnew(
  leases: Leasehold,
  held: readonly Held[],
  ttlMs = LONG_MS,
): Promise<number> {
  let taken = 0;
  for (const { lease } of held) {
    const other = await leases.tryAcquire(lease.resource, { ttlMs, autoRenew: false });
    if (other) taken += 1;
  }
  return taken;
}

/** Each to its next holder, who writes, and then the old one does, who knows of nothing. */
async function grantAnew(leases: Leasehold, lost: readonly Held[], witness: Witness) {
  const next: Lease[] = [];
  let [believedAtOnce, heardAtRenewal] = [0, 0];
  const options = { ttlMs: LONG_MS, waitMs: PATIENCE_MS, autoRenew: false };
  // The last one first: where tokens have gone back, its successor is the furthest behind.
  for (const { lease, grant } of [...lost].reverse()) {
    const newer = await leases.acquire(lease.resource, options);
    next.push(newer);
    witness.write(witness.granted(newer));
    if (!lease.checkAlive()) continue;
    believedAtOnce += 1;
    witness.write(grant);
    const heard = await lease.renew().then(
      () => false,
      (error: { code?: unknown }) => error.code === "LEASE_LOST",
    );
    if (heard && !lease.checkAlive()) heardAtRenewal += 1;
  }
  return { next, believedAtOnce, heardAtRenewal };
}

/** @returns how many of the next grants are larger than all before, and pass */
async function remedy(
  pair: Pair,
  leases: Leasehold,
  held: readonly Lease[],
  witness: Witness,
): Promise<number> {
  if (!pair.raiseTokens || witness.smallerTokens === 0) return 0;
  const above = witness.largestToken;
  await pair.raiseTokens(above);
  let remedied = 0;
  for (const lease of held) {
    await lease.release();
    const again = await leases.acquire(lease.resource, { ttlMs: LONG_MS, autoRenew: false });
    if (again.token > above && witness.write(witness.granted(again))) remedied += 1;
  }
  return remedied;
}
