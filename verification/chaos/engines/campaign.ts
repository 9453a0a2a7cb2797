/** The chaos on each of some stores, one after the other, and what came of it all. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { seededRandom } from "leasehold/testing";
import { endAll } from "../../../tests/support/processes/processes.js";
import { report, type StoreReport } from "./report.js";
import { runStore } from "./run.js";
import type { StoreSettings } from "./site.js";
import { STORES, type StoreName } from "./store-names.js";
import { consul } from "./stores/consul.js";
import { etcd } from "./stores/etcd.js";
import { http } from "./stores/http.js";
import { postgres } from "./stores/postgres.js";
import { redis } from "./stores/redis.js";
import { zookeeper } from "./stores/zookeeper.js";

export interface CampaignSettings {
  readonly stores: readonly StoreName[];
  /** On each store. */
  readonly minutes: number;
  /** Decides the plan of the faults. What they hit is up to the machine. */
  readonly seed: number;
  /** Ends it early; what there is by then is judged. */
  readonly signal: AbortSignal;
  /** A fault has happened. */
  onFault?(store: StoreName, kind: string): void;
  onStore?(report: StoreReport): void;
}

export interface CampaignReport {
  readonly seed: number;
  readonly minutes: number;
  readonly stores: readonly StoreReport[];
  /** Stores that cannot run here, and why. */
  readonly missing: Readonly<Record<string, string>>;
  /** Stores whose run broke off, and why. */
  readonly failed: Readonly<Record<string, string>>;
  /** How often, by kind, on all stores. */
  readonly faults: Readonly<Record<string, number>>;
  readonly kinds: number;
  readonly expiries: number;
  readonly staleRefused: number;
  readonly unfencedViolations: number;
  readonly fencedViolations: number;
  readonly pausesPastTtl: number;
  readonly breaches: number;
  /** Whether each claim holds, and enough happened to prove it. */
  readonly holds: boolean;
}

const SETTINGS: Readonly<Record<StoreName, StoreSettings>> = {
  postgres,
  redis,
  etcd,
  zookeeper,
  http,
  consul,
};

export async function runCampaign(settings: CampaignSettings): Promise<CampaignReport> {
  const { stores, minutes, seed, signal } = settings;
  const reports: StoreReport[] = [];
  const missing: Record<string, string> = {};
  const failed: Record<string, string> = {};
  for (const name of stores) {
    const store = SETTINGS[name];
    const why = store.missing();
    if (why !== null) missing[name] = why;
    if (why !== null || signal.aborted) continue;
    // Of its own, so that a store's plan is the same alone and among others.
    const random = seededRandom(seed * STORES.length + STORES.indexOf(name));
    const stalls = monitorEventLoopDelay({ resolution: 10 });
    stalls.enable();
    const ms = minutes * 60_000;
    const say = (kind: string) => settings.onFault?.(name, kind);
    try {
      const ran = await runStore({ store, random, ms, signal, say });
      const [p99, max] = [stalls.percentile(99), stalls.max].map((ns) => Math.round(ns / 1e6));
      const one = report(ran, ms, { p99: p99!, max: max! });
      reports.push(one);
      settings.onStore?.(one);
    } catch (error) {
      // The others are tried, and reported, all the same.
      failed[name] = `${(error as Error).stack ?? error}`;
    } finally {
      stalls.disable();
      await endAll();
    }
  }
  return summed(settings, reports, { missing, failed });
}

function summed(
  { seed, minutes, stores: asked }: CampaignSettings,
  stores: readonly StoreReport[],
  beside: Pick<CampaignReport, "missing" | "failed">,
): CampaignReport {
  const faults: Record<string, number> = {};
  for (const store of stores) {
    for (const [kind, count] of Object.entries(store.faults)) {
      faults[kind] = (faults[kind] ?? 0) + count;
    }
  }
  const sum = (of: (store: StoreReport) => number) =>
    stores.reduce((total, store) => total + of(store), 0);
  return {
    seed,
    minutes,
    stores,
    ...beside,
    faults,
    kinds: Object.keys(faults).length,
    expiries: sum(({ expiries }) => expiries),
    staleRefused: sum(({ staleRefused }) => staleRefused),
    unfencedViolations: sum(({ unfencedViolations }) => unfencedViolations),
    fencedViolations: sum(({ fencedViolations }) => fencedViolations),
    pausesPastTtl: sum(({ pausesPastTtl }) => pausesPastTtl),
    breaches: sum(({ breaches }) => breaches.length),
    holds:
      stores.length === asked.length &&
      stores.every(({ complaints, tooRare }) => complaints.length + tooRare.length === 0),
  };
}
