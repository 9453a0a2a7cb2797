/**
 * What clients see of a cluster that loses its leader and elects another one while they work.
 *
 *   kept     ── renewed ─────────────── ╎ ─────────────────────▶ held, with the same token
 *   load     ── grant after grant ───── ╎ ─────────────────────▶ none is lost
 *   turns    ── one resource, in turns ─╎ ─────────────────────▶ never two holders
 *   cut off  ── renewed ─────────────── ╎ nothing gets through    the next one takes over, late writes are refused
 *                                  leader lost
 */
import { setTimeout as delay } from "node:timers/promises";
import { connect, type Lease, type Leasehold } from "leasehold";
import {
  EACH,
  type Held,
  LONG_MS,
  lostOf,
  NOTHING_SEEN,
  type Seen,
  takenAnew,
} from "./failover.js";
import { Load } from "./load.js";
import { Witness } from "./witness.js";

export interface Cluster {
  /** @param sessionTtlMs of the clients' sessions */
  url(sessionTtlMs: number): string;
  /** The same cluster, for clients that can be cut off. */
  frailUrl(sessionTtlMs: number): string;
  /** From now on nothing gets through between the frail clients and the cluster. */
  cutOff(): void;
  /** Resolves when all that becomes of the leader has happened. */
  loseLeader(say: (line: string) => void): Promise<void>;
  /** Ends all servers. */
  close(): Promise<void>;
}

/** A lease lasts at most three quarters of a session. */
const sessionOf = (ttlMs: number) => Math.ceil((ttlMs * 4) / 3);
/** Not lost to an election on a busy machine. */
const KEPT_MS = 45_000;
/** Of leases that the next holder waits for. */
const SHORT_MS = 7_500;
/** Longer than a dead holder's session lasts after an election. */
const PATIENCE_MS = 180_000;
const LOAD = 50;
const LOAD_PAUSE_MS = 200;
const TURN_PAUSE_MS = 20;

export async function leaderLoss(cluster: Cluster, say: (line: string) => void): Promise<Seen> {
  const open = (holder: string, url: string) => connect(url, { graceMs: 0, holder });
  const clients = await Promise.all([
    open("keeping", cluster.url(sessionOf(KEPT_MS))),
    open("loading", cluster.url(sessionOf(LONG_MS))),
    open("next", cluster.url(sessionOf(SHORT_MS))),
    open("other", cluster.url(sessionOf(SHORT_MS))),
    open("cut off", cluster.frailUrl(sessionOf(SHORT_MS))),
  ]);
  const [keeping, loading, next, other, frail] = clients;
  const witness = new Witness();
  const newest = new Map<string, Lease>();
  let believedAtOnce = 0;
  const note = (lease: Lease): Held => {
    if (newest.get(lease.resource)?.checkAlive()) believedAtOnce += 1;
    newest.set(lease.resource, lease);
    const grant = witness.granted(lease);
    witness.write(grant);
    return { lease, grant };
  };
  const load = new Load(loading, note, undefined, LOAD_PAUSE_MS);
  const turns = new Turns([next, other], note);
  try {
    const kept = await takeAll(keeping, "kept", KEPT_MS, note);
    const doomed = await takeAll(frail, "doomed", SHORT_MS, note);
    load.start();
    turns.start();
    await load.until(({ grants }) => grants.length >= LOAD);
    const early = load.grants.length;
    say(`the leader is lost: ${early} grants so far`);
    cluster.cutOff();
    const [takenOver] = await Promise.all([
      takeOver(next, doomed, note, witness),
      cluster.loseLeader(say),
    ]);
    say(`${takenOver} leases of a holder that was cut off are taken over`);
    const [granted, taken] = [load.grants.length, turns.taken];
    await load.until(({ grants }) => grants.length >= granted + LOAD);
    while (turns.taken <= taken) await delay(TURN_PAUSE_MS);
    await Promise.all([load.stop(), turns.stop()]);
    const all = [...kept, ...load.grants];
    const lost = await lostOf(next, all);
    say(`${all.length} grants were answered, ${lost.length} of them are lost`);
    const doubledGrants = await takenAnew(
      next,
      all.filter((one) => !lost.includes(one)),
      SHORT_MS,
    );
    let keptGrants = 0;
    for (const { lease, grant } of kept) {
      const isRenewed = await lease.renew().then(
        () => true,
        () => false,
      );
      const view = await next.get(lease.resource);
      if (isRenewed && view?.token === grant.token) keptGrants += 1;
    }
    return {
      ...NOTHING_SEEN,
      answeredGrants: all.length,
      lostGrants: lost.length,
      lateGrants: load.grants.length - early,
      doubledGrants,
      keptGrants,
      believedAtOnce,
      takenOver,
      ...witness.seen,
    };
  } finally {
    await Promise.all([load.stop(), turns.stop()]);
    await Promise.all(clients.map((client) => client.close()));
  }
}

/** Clients that hold one resource in turns. */
class Turns {
  taken = 0;
  readonly #running: Promise<void>[] = [];
  #over = false;

  constructor(
    readonly clients: readonly Leasehold[],
    readonly note: (lease: Lease) => Held,
  ) {}

  start(): void {
    for (const client of this.clients) this.#running.push(this.#run(client));
  }

  async stop(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#running);
  }

  async #run(leases: Leasehold): Promise<void> {
    const options = { ttlMs: SHORT_MS, waitMs: SHORT_MS };
    while (!this.#over) {
      try {
        const lease = await leases.acquire("turn", options);
        this.note(lease);
        this.taken += 1;
        await delay(TURN_PAUSE_MS);
        await lease.release();
      } catch {
        // No answer, or the other one holds it: while the cluster has no leader.
        await delay(TURN_PAUSE_MS);
      }
    }
  }
}

async function takeAll(
  leases: Leasehold,
  name: string,
  ttlMs: number,
  note: (lease: Lease) => Held,
): Promise<Held[]> {
  const held: Held[] = [];
  for (let at = 1; at <= EACH; at += 1)
    held.push(note(await leases.acquire(`${name}-${at}`, { ttlMs })));
  return held;
}

/** Each next holder writes, and then the old one does, as if it knew nothing. @returns how many have a next holder */
async function takeOver(
  leases: Leasehold,
  held: readonly Held[],
  note: (lease: Lease) => Held,
  witness: Witness,
): Promise<number> {
  const options = { ttlMs: SHORT_MS, waitMs: PATIENCE_MS };
  const taken = await Promise.all(
    held.map(async ({ lease, grant }) => {
      note(await leases.acquire(lease.resource, options));
      witness.write(grant);
    }),
  );
  return taken.length;
}
