/** The holders as processes: each with ways of its own to the store, and started anew when it ends. */
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Random } from "leasehold";
import { openTcpProxy, type TcpProxy } from "../../../tests/support/faults/tcp-proxy.js";
import type { FakeClock } from "../../../tests/support/processes/fake-clock.js";
import { realMs } from "../../../tests/support/processes/fake-clock.js";
import { Child } from "../../../tests/support/processes/processes.js";
import { nowMs } from "./clock.js";
import type { Witness } from "./witness.js";

const HOLDER = fileURLToPath(new URL("./holder.js", import.meta.url));
/** As the library's default. */
const DRIFT_RATIO = 0.01;
const STOP_MS = 20_000;
/** A machine that is too slow for more is not waited for: it goes on with those who are ready. */
const READY_MS = 30_000;

export interface HolderOptions {
  readonly clock?: FakeClock;
  readonly driftRatio?: number;
}

export interface SlotSettings {
  readonly name: string;
  readonly ttlMs: number;
  readonly resources: readonly string[];
  readonly witness: Witness;
  /** Of the servers that it reaches. */
  readonly ports: readonly number[];
  /** The store's URL, given the ports of its own ways. */
  readonly urlOf: (ports: readonly number[]) => string;
  readonly random: Random;
}

/** One incarnation. */
class Incarnation extends Child {
  /** Whether {@link HolderSlot.end} was called on it. */
  endRequested = false;

  constructor(
    readonly name: string,
    settings: Record<string, unknown>,
    { clock, driftRatio = DRIFT_RATIO }: HolderOptions,
  ) {
    const faked = clock !== undefined && clock.wallOnly !== true;
    const all = {
      ...settings,
      name,
      driftRatio,
      uptimeBehindMs: faked ? nowMs() - realMs() : null,
    };
    super(process.execPath, ["--expose-gc", HOLDER, JSON.stringify(all)], {
      ...(clock && { clock }),
    });
  }
}

export class HolderSlot {
  readonly proxies: TcpProxy[] = [];
  /** Whether a fault is at it. */
  hit = false;
  /** When processes were killed. Each may have been in the wait queue. */
  readonly deathsMs: number[] = [];
  /** How processes ended by themselves. */
  readonly ends: string[] = [];
  readonly #settings: SlotSettings;
  #current: Incarnation | undefined;
  #incarnations = 0;
  #supervised = true;
  #next: HolderOptions = {};

  private constructor(settings: SlotSettings) {
    this.#settings = settings;
  }

  static async open(settings: SlotSettings): Promise<HolderSlot> {
    const slot = new HolderSlot(settings);
    for (const port of settings.ports) {
      slot.proxies.push(await openTcpProxy({ port, random: settings.random }));
    }
    slot.#start();
    return slot;
  }

  /** Of the incarnation that runs. */
  get name(): string {
    return this.#current?.name ?? "";
  }

  get isReady(): boolean {
    return this.#current !== undefined && this.#settings.witness.isReady(this.name);
  }

  say(line: string): void {
    this.#current?.say(line);
  }

  /** SIGSTOP, then SIGCONT after `ms`. @returns for how long it was stopped */
  async pause(ms: number): Promise<number> {
    const child = this.#current!;
    const stoppedMs = nowMs();
    await child.stop();
    await delay(ms);
    child.cont();
    return nowMs() - stoppedMs;
  }

  /** Ends it, and another one starts with these options. @returns the exit code or the signal */
  async end(signal: "SIGKILL" | "SIGTERM", next: HolderOptions = {}): Promise<number | string> {
    const child = this.#current!;
    child.endRequested = true;
    if (signal === "SIGKILL") this.deathsMs.push(nowMs());
    this.#next = next;
    const overdue = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    const { code } = await child.end(signal);
    clearTimeout(overdue);
    return code;
  }

  /** Runs a second process of the same name over the same proxies for `ms`. */
  async twin(ms: number): Promise<void> {
    const twin = this.#make(`${this.#settings.name}.twin.${(this.#incarnations += 1)}`, {});
    await delay(ms);
    this.deathsMs.push(nowMs());
    await twin.end("SIGKILL");
  }

  /** Resolves when it has opened its client, or has been given long enough for it. */
  async ready(): Promise<void> {
    const overdueMs = nowMs() + READY_MS;
    while (!this.isReady && nowMs() < overdueMs) await delay(20);
  }

  async close(): Promise<void> {
    this.#supervised = false;
    if (this.#current) {
      this.#current.cont();
      await this.end("SIGKILL");
    }
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
  }

  #make(name: string, options: HolderOptions): Incarnation {
    const { name: holder, ttlMs, resources, witness, urlOf } = this.#settings;
    const url = urlOf(this.proxies.map(({ port }) => port));
    const settings = { url, holder, ttlMs, resources, witnessPort: witness.port };
    return new Incarnation(name, settings, options);
  }

  #start(): void {
    this.#incarnations += 1;
    const child = this.#make(`${this.#settings.name}.${this.#incarnations}`, this.#next);
    this.#next = {};
    this.#current = child;
    void child.ended.then(({ code, stderr }) => {
      if (!child.endRequested) this.ends.push(`${child.name} ended by itself: ${code} ${stderr}`);
      if (this.#supervised) this.#start();
    });
  }
}
