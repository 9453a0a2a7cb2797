/**
 * One run on one store, from its start to its end:
 *
 *   calm   one holder at a time is killed or stopped while all else is well: takeovers are measured
 *   storm  lanes of faults side by side: three at holders, one on their ways, one at the engine
 *   calm, storm, ... and in the end peace: each resource is granted anew
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import { Bag } from "./bag.js";
import { nowMs } from "./clock.js";
import { between } from "./draws.js";
import { CLOCK_KINDS } from "./faults/clock.js";
import { HOLDER_KINDS, LOSS_KINDS } from "./faults/holder.js";
import { NETWORK_KINDS } from "./faults/network.js";
import { type Area, type Kind, Site, type StoreSettings } from "./site.js";

/** In takeover times: the losses of a calm, and a storm. */
const [CALM_TAKEOVERS, STORM_TAKEOVERS] = [3, 5];
/** For a machine that has other things to do. */
const LIVENESS_SLACK_MS = 10_000;

export interface RunSettings {
  readonly store: StoreSettings;
  readonly random: Random;
  readonly ms: number;
  /** Ends it early; what there is by then is judged. */
  readonly signal: AbortSignal;
  say?(text: string): void;
}

export interface Ran {
  readonly site: Site;
  readonly seconds: number;
  /** How often, by name. */
  readonly faults: ReadonlyMap<string, number>;
  /** Kinds that cannot happen here, and why. */
  readonly skipped: ReadonlyMap<string, string>;
  /** From the end of all faults until each resource had been granted anew, at most. */
  readonly livenessMs: number;
  readonly beside: Record<string, number>;
}

class Run {
  readonly faults = new Map<string, number>();
  readonly skipped = new Map<string, string>();
  readonly #bags: Readonly<Record<"holder" | "pause" | "network" | "engine" | "loss", Bag>>;

  constructor(
    readonly site: Site,
    readonly settings: RunSettings,
  ) {
    const { random } = settings;
    const own = (area: Area) => site.engine.kinds.filter((kind) => kind.area === area);
    const bag = (kinds: readonly Kind[]) => new Bag(this.#possible(kinds), random);
    this.#bags = {
      holder: bag([...HOLDER_KINDS, ...CLOCK_KINDS, ...own("holder")]),
      // Often, and several at a time: late writers are what a fence is for.
      pause: bag(HOLDER_KINDS.filter(({ pauses }) => pauses)),
      network: bag(NETWORK_KINDS),
      engine: bag(own("engine")),
      loss: bag(LOSS_KINDS),
    };
  }

  /** Until the time is over. */
  async disturb(): Promise<void> {
    const endMs = nowMs() + this.settings.ms;
    const { takeoverMs, settings } = this.site;
    for (;;) {
      await this.#calm(Math.min(endMs, nowMs() + CALM_TAKEOVERS * takeoverMs));
      await this.#storm(Math.min(endMs, nowMs() + STORM_TAKEOVERS * takeoverMs));
      if (nowMs() >= endMs || this.#isOver) return;
      // Let leases of the storm expire, and queue entries of dead waiters, and of waiters whose request
      // arrived after they had given up.
      await this.#sleep(Math.max(takeoverMs, settings.deadWaiter.ticketMs));
    }
  }

  /** All faults are over. @returns until each resource had been granted anew, at most */
  async peace(): Promise<number> {
    const { site } = this;
    const { journal } = site.witness;
    const fromMs = nowMs();
    const isGranted = (resource: string) =>
      journal.byResource.get(resource)?.some(({ receivedMs }) => receivedMs > fromMs) ?? false;
    const overdue = AbortSignal.timeout(site.takeoverMs + LIVENESS_SLACK_MS);
    await journal.until(() => site.resources.every(isGranted), overdue);
    for (const resource of site.resources) {
      if (!isGranted(resource))
        site.complaints.push(`${resource} is not granted anew after the last fault`);
    }
    return nowMs() - fromMs;
  }

  get #isOver(): boolean {
    return this.settings.signal.aborted;
  }

  async #calm(untilMs: number): Promise<void> {
    this.site.calmFromMs = nowMs();
    await this.site.isSteady();
    while (nowMs() < untilMs && !this.#isOver) {
      await this.#happen(this.#bags.loss.next());
      await this.#sleep(this.site.ttlMs / 4);
    }
    await Promise.all(this.site.slots.map((slot) => slot.ready()));
  }

  async #storm(untilMs: number): Promise<void> {
    const { holder, pause, network, engine } = this.#bags;
    const { ttlMs } = this.site;
    const lanes = [
      { bag: holder, gapMs: ttlMs / 4 },
      { bag: holder, gapMs: ttlMs / 4 },
      { bag: pause, gapMs: ttlMs / 4 },
      { bag: network, gapMs: ttlMs / 4 },
      // Between two of these something must get done.
      { bag: engine, gapMs: ttlMs },
    ];
    await Promise.all(
      lanes.map(async ({ bag, gapMs }) => {
        for (;;) {
          await this.#sleep(between(this.settings.random, 0.5, 1.5) * gapMs);
          if (nowMs() >= untilMs || this.#isOver) return;
          await this.#happen(bag.next());
        }
      }),
    );
  }

  async #happen(kind: Kind | undefined): Promise<void> {
    if (!kind) return;
    try {
      if (!(await kind.happen(this.site, this.settings.random))) return;
    } catch (error) {
      this.site.complaints.push(`${kind.name}: ${error instanceof Error ? error.stack : error}`);
    }
    this.faults.set(kind.name, (this.faults.get(kind.name) ?? 0) + 1);
    this.settings.say?.(kind.name);
  }

  #possible(kinds: readonly Kind[]): Kind[] {
    for (const { name, missing } of kinds) if (missing) this.skipped.set(name, missing);
    return kinds.filter(({ missing }) => !missing);
  }

  #sleep(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.settings.signal }).catch(() => {});
  }
}

/** The site is closed in the end, whatever happens. */
export async function runStore(settings: RunSettings): Promise<Ran> {
  const { store, random } = settings;
  const beganMs = nowMs();
  const site = await Site.open(store, random);
  try {
    const run = new Run(site, settings);
    await run.disturb();
    const livenessMs = await run.peace();
    const { complaints = [], beside = {} } = (await site.engine.finish?.()) ?? {};
    site.complaints.push(...complaints);
    const { faults, skipped } = run;
    const seconds = Math.round((nowMs() - beganMs) / 1_000);
    return { site, faults, skipped, livenessMs, beside, seconds };
  } finally {
    await site.close();
  }
}
