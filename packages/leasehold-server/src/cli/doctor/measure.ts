/** What a store and this process are like, measured. */
import type { Env, LeaseStore } from "leasehold";
import { newHolder, newLeaseId } from "leasehold/internal";
import { type Summary, summaryOf } from "./ttl.js";

const TICK_MS = 10;
const TTL_MS = 30_000;

export interface Measured {
  readonly acquireMs: number;
  readonly renewal: Summary;
  /** The store's clock less ours, and how far that may be wrong; null where the store shows none. */
  readonly clock: { readonly offsetMs: number; readonly uncertainMs: number } | null;
}

/**
 * Takes a lease on a resource of its own, renews it again and again, and gives it back.
 * @throws what the store answers
 */
export async function measureStore(
  store: LeaseStore,
  env: Env,
  { namespace, samples }: { namespace: string; samples: number },
): Promise<Measured> {
  const { clock, random } = env;
  const { minMs, maxMs } = store.capabilities.ttl;
  const ttlMs = Math.min(maxMs, Math.max(minMs, TTL_MS));
  const leaseId = newLeaseId(random);
  const grant = { namespace, resource: `leasehold-doctor:${leaseId.slice(0, 8)}`, leaseId };
  const timed = async <T>(call: () => Promise<T>) => {
    const beganMs = clock.monotonic();
    const value = await call();
    return { value, tookMs: clock.monotonic() - beganMs };
  };
  const acquired = await timed(() =>
    store.acquire([{ ...grant, holder: newHolder(random), ttlMs }]),
  );
  const [granted] = acquired.value;
  if (granted?.status !== "acquired") throw failureOf(granted);
  const tooks: number[] = [];
  // The quickest round trip tells most exactly when the store looked at its clock.
  let best: Measured["clock"] = null;
  try {
    for (let count = 0; count < samples; count += 1) {
      const { value, tookMs } = await timed(() => store.renew([{ ...grant, ttlMs }]));
      const answeredMs = clock.wall();
      const [renewed] = value;
      if (renewed?.status !== "renewed") throw failureOf(renewed);
      tooks.push(tookMs);
      if (renewed.expiresAt === null || (best && best.uncertainMs <= tookMs / 2)) continue;
      const storeMs = Date.parse(renewed.expiresAt) - renewed.remainingMs;
      best = { offsetMs: Math.round(storeMs - (answeredMs - tookMs / 2)), uncertainMs: tookMs / 2 };
    }
  } finally {
    // Also after a failure; what is not released runs out.
    await store.release([grant]).catch(() => {});
  }
  return {
    acquireMs: acquired.tookMs,
    renewal: summaryOf(tooks),
    clock: best && { ...best, uncertainMs: Math.ceil(best.uncertainMs) },
  };
}

function failureOf(outcome: { status: string; error?: Error } | undefined): Error {
  return outcome?.error ?? new Error(`the store answered ${outcome?.status ?? "nothing"}`);
}

/** How late timers fire in this process, until stopped: what a holder in it would not notice in time. */
export function measurePauses({ clock }: Env): () => Summary {
  const pauses: number[] = [0];
  let timer = clock.timer(0, () => {});
  const tick = (dueMs: number) => {
    timer = clock.timer(
      TICK_MS,
      () => {
        const nowMs = clock.monotonic();
        pauses.push(Math.max(0, nowMs - dueMs));
        tick(nowMs + TICK_MS);
      },
      { background: true },
    );
  };
  tick(clock.monotonic() + TICK_MS);
  return () => {
    timer.cancel();
    return summaryOf(pauses);
  };
}
