/**
 * Observes who leads, by the store's notifications and, for the expiry of a term, by the clock. Stores
 * notify about the end of a grant, not about a new one, and an observer must not join the wait queue of
 * the candidates. So it polls while there is no leader: soon at first, then less often.
 *
 * While the store is unavailable, the last leader counts until its lease must have expired by the local clock:
 * it may have renewed the lease since, but so may another node have acquired it.
 */

import { jittered, withTimeout } from "../env/index.js";
import {
  Aborting,
  type LeaseClient,
  LeaseholdError,
  type LeaseView,
  Wakeup,
} from "../lease/index.js";

/** What an observer of an election sees whenever it changes. */
export interface LeaderChange {
  /** The leader's `leases.holder`; null while there is no leader, or while it is unknown: see `unavailable`. */
  readonly leader: string | null;
  /** Of its term, or of the last one; null while there has been none. */
  readonly token: number | null;
  /** Whether it is the observer's own client. */
  readonly self: boolean;
  /**
   * True: the store does not answer and the lease of the last known leader must have expired, so a node may or may
   * not lead. False: the store has said so.
   */
  readonly unavailable: boolean;
}

/** How often to poll in case a notification was missed, or if the store sends none. */
const POLL_MS = { push: 30_000, poll: 500 } as const;
/** While there is no leader: a notification says that a name may be free, not that it was granted. */
const [FIRST_POLL_MS, LAST_POLL_MS] = [10, 1_000];
const RETRY_MS = 1_000;
/** How long the answer at the end of a term may take before the leader is unknown. */
const LATE_MS = 1_000;
/** Just after the expiry. */
const AFTER_EXPIRY_MS = 1;

/** One for all observers: many may share a signal. */
const aborting = new Aborting();

export async function* observeLeader(
  leases: LeaseClient,
  name: string,
  signal: AbortSignal,
): AsyncGenerator<LeaderChange, void, undefined> {
  const { env } = leases;
  const wakeup = new Wakeup();
  const unlisten = leases.listen(name, wakeup.set);
  let last: LeaderChange | undefined;
  let vacantMs = FIRST_POLL_MS;
  /** When the last known term ends unless it was renewed, by the local monotonic clock. */
  let knownUntilMs = env.clock.monotonic();
  const lostSight = (): LeaderChange => {
    return { leader: null, token: last?.token ?? null, self: false, unavailable: true };
  };
  try {
    while (!signal.aborted) {
      // The store may never answer.
      const polling = aborting.run([signal], (abort) => abort.race(poll(leases, name)));
      if (!last?.unavailable) {
        const leftMs = Math.max(0, knownUntilMs - env.clock.monotonic());
        const late = () => "late" as const;
        const answer = await withTimeout(env.clock, leftMs + LATE_MS, polling, late);
        if (answer === "late") yield (last = lostSight());
      }
      const view = await polling;
      let pauseMs: number = POLL_MS[leases.capabilities.watch];
      if (view === "unknown") {
        const leftMs = knownUntilMs - env.clock.monotonic();
        if (leftMs <= 0 && !last?.unavailable) yield (last = lostSight());
        pauseMs = leftMs > 0 ? Math.min(RETRY_MS, leftMs + AFTER_EXPIRY_MS) : RETRY_MS;
      } else {
        const change = changeOf(view, leases.holder);
        // Ignore a stale answer of a replica.
        const isOld = (change.token ?? 0) < (last?.token ?? 0);
        if (!isOld && !(last && isSame(last, change))) yield (last = change);
        knownUntilMs = env.clock.monotonic() + (view?.remainingMs ?? 0);
        if (view?.state === "live") {
          vacantMs = FIRST_POLL_MS;
          pauseMs = Math.min(pauseMs, view.remainingMs + AFTER_EXPIRY_MS);
        } else {
          pauseMs = Math.min(pauseMs, vacantMs);
          vacantMs = Math.min(2 * vacantMs, LAST_POLL_MS);
        }
      }
      await wakeup.wait(env, jittered(env.random, pauseMs, 0.1), signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    unlisten();
  }
}

async function poll(leases: LeaseClient, name: string): Promise<LeaseView | null | "unknown"> {
  try {
    return await leases.get(name);
  } catch (error) {
    if (!(error instanceof LeaseholdError && error.retryable)) throw error;
    leases.env.logger.warn({ err: error, name }, "observing a store that does not answer");
    return "unknown";
  }
}

function changeOf(view: LeaseView | null, self: string): LeaderChange {
  const leader = view?.state === "live" ? view.holder : null;
  return { leader, token: view?.token ?? null, self: leader === self, unavailable: false };
}

function isSame(a: LeaderChange, b: LeaderChange): boolean {
  return a.leader === b.leader && a.token === b.token && a.unavailable === b.unavailable;
}
