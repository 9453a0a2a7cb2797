/** Measures a store and this process. */
import type { Env, LeaseStore } from "leasehold";
import { defaultTtlMs, newHolder, newLeaseId } from "leasehold/internal";
import { type Summary, summaryOf } from "./ttl.js";

const TICK_MS = 10;

export interface Measured {
  readonly acquireMs: number;
  readonly renewal: Summary;
  /** The offset of the store's clock from ours, with its uncertainty; null if the store shows no clock. */
  readonly clock: { readonly offsetMs: number; readonly uncertainMs: number } | null;
}

/**
 * Acquires a lease on its own resource, renews it `samples` times and releases it.
 * @throws the error of the store
 */
export async function measureStore(
  store: LeaseStore,
  env: Env,
  { namespace, samples }: { namespace: string; samples: number },
): Promise<Measured> {
  const { clock, random } = env;
  const ttlMs = defaultTtlMs(store.capabilities.ttl);
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
  // The fastest round trip gives the most exact time at which the store read its clock.
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
    // Releases after a failure too. A lease that cannot be released expires.
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

/** Measures how late timers fire in this process, until stopped: a holder notices events that late. */
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
