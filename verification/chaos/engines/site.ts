/** Everything of one run: an engine, holders with their ways to it, and the witness. */
import type { Random } from "leasehold";
import { nowMs } from "./clock.js";
import { pick } from "./draws.js";
import { HolderSlot } from "./holders.js";
import type { StoreName } from "./store-names.js";
import { Witness } from "./witness.js";

/** One lane of faults each: those of different lanes overlap, and those of `holder` and `clock` share two. */
export type Area = "holder" | "clock" | "network" | "engine";

/** A kind of fault: it happens to a site, and is over and healed when it resolves. */
export interface Kind {
  readonly name: string;
  readonly area: Area;
  /** Whether it stops holders for longer than their TTL. */
  readonly pauses?: boolean;
  /** Why it cannot happen on this machine. */
  readonly missing?: string | null;
  /** Resolves to false if there was no process to hit. Rejects if something is wrong. */
  happen(site: Site, random: Random): Promise<boolean>;
}

/** A store's servers, running. */
export interface Engine {
  /** Of the servers that the holder of this number reaches. */
  portsFor(holder: number): readonly number[];
  /** What a holder opens, given the ports of its ways. */
  urlOf(ports: readonly number[]): string;
  /** What may befall the servers. */
  readonly kinds: readonly Kind[];
  /** As it says itself. */
  readonly version: string;
  /** Another one when it has elected a leader anew: then leases and sessions start over. */
  epoch?(): Promise<string>;
  /** Ends them. */
  remove(): Promise<void>;
  /** What is still wrong when all is over, of what runs beside the holders. */
  finish?(): Promise<{ readonly complaints: string[]; readonly beside: Record<string, number> }>;
}

export interface StoreSettings {
  readonly name: StoreName;
  readonly ttlMs: number;
  /** From the last renewal that counts to the end of a dead holder's grant, at most: a ttl, or a session. */
  readonly lifeMs: number;
  /** What docs/guarantees.md allows beyond that until the next holder has it. */
  readonly epsilonMs: number;
  /** How long a dead waiter stays in the wait queue at most, and how long it may delay the next waiter. */
  readonly deadWaiter: { readonly ticketMs: number; readonly costMs: number };
  missing(): string | null;
  open(random: Random): Promise<Engine>;
}

/** While this clock was wrong, two may have believed; `by` is the holder, or null for the engine's. */
export interface Mark {
  readonly by: string | null;
  readonly fromMs: number;
  readonly toMs: number;
}

/** A holder that was killed or stopped while all else was well. */
export interface Loss {
  readonly kind: string;
  readonly by: string;
  readonly atMs: number;
  /** For how long all had been well by then. */
  readonly calmMs: number;
}

const HOLDERS = 7;
const RESOURCES = 6;
/** So many must be free of faults for another one to be hit. */
const LEAST_LEFT = 2;

export class Site {
  readonly marks: Mark[] = [];
  readonly losses: Loss[] = [];
  /** When the calm began, in which there are no faults but losses. */
  calmFromMs = nowMs();
  /** Losses that say nothing, because the engine elected a leader by itself meanwhile. */
  unsteady = 0;
  #epoch = "";
  /** Of holders, for longer than the ttl: by signals, or in their own work. */
  pausesPastTtl = 0;
  readonly herd = { waiters: 0, served: 0, gaveUp: 0 };
  /** What must not have happened, as it happened. */
  readonly complaints: string[] = [];

  private constructor(
    readonly settings: StoreSettings,
    readonly engine: Engine,
    readonly witness: Witness,
    readonly slots: readonly HolderSlot[],
    readonly resources: readonly string[],
  ) {}

  static async open(settings: StoreSettings, random: Random): Promise<Site> {
    const engine = await settings.open(random);
    const witness = await Witness.open();
    const slots: HolderSlot[] = [];
    const resources = Array.from({ length: RESOURCES }, (_, at) => `r${at + 1}`);
    const site = new Site(settings, engine, witness, slots, resources);
    try {
      for (let count = 0; count < HOLDERS; count += 1) {
        const ports = engine.portsFor(count);
        const slot = await HolderSlot.open({
          name: `h${count + 1}`,
          ttlMs: settings.ttlMs,
          resources,
          witness,
          ports,
          random,
          urlOf: (own) => engine.urlOf(own),
        });
        slots.push(slot);
      }
      await Promise.all(slots.map((slot) => slot.ready()));
      return site;
    } catch (error) {
      await site.close();
      throw error;
    }
  }

  get ttlMs(): number {
    return this.settings.ttlMs;
  }

  /** For how long a dead holder may keep others out. */
  get takeoverMs(): number {
    return this.settings.lifeMs + this.settings.epsilonMs;
  }

  /** Does it to one of the holders that nothing has hit, one at work by preference. */
  async atOne(random: Random, act: (slot: HolderSlot) => Promise<unknown>): Promise<boolean> {
    const free = this.slots.filter((slot) => !slot.hit && slot.isReady);
    if (free.length <= LEAST_LEFT) return false;
    const holding = free.filter(({ name }) => this.witness.journal.heldBy(name).length > 0);
    const slot = pick(random, holding.length > 0 ? holding : free);
    slot.hit = true;
    try {
      await act(slot);
    } finally {
      slot.hit = false;
    }
    return true;
  }

  /** Does it to several at once, as many as may be hit. */
  async atSeveral(
    random: Random,
    count: number,
    act: (slot: HolderSlot) => Promise<unknown>,
  ): Promise<boolean> {
    const hits = await Promise.all(Array.from({ length: count }, () => this.atOne(random, act)));
    return hits.includes(true);
  }

  /** Whether the engine has the leader that it had when this was asked last. */
  async isSteady(): Promise<boolean> {
    const before = this.#epoch;
    this.#epoch = (await this.engine.epoch?.()) ?? "";
    return this.#epoch === before;
  }

  /** Keeps in mind that the clock of a holder, or of the engine, is wrong while this goes on. */
  async marked<T>(by: string | null, afterMs: number, act: () => Promise<T>): Promise<T> {
    const fromMs = nowMs();
    const mark = { by, fromMs, toMs: Number.POSITIVE_INFINITY };
    this.marks.push(mark);
    try {
      return await act();
    } finally {
      mark.toMs = nowMs() + afterMs;
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.slots.map((slot) => slot.close()));
    await this.engine.remove();
    await this.witness.close();
  }
}
