/** Nodes at work: their processes, what they have said, and what they protect. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Child } from "../../tests/support/processes/processes.js";
import type { Engine, RunningEngine } from "./engines.js";
import type { Feature } from "./features.js";
import type { NodeSettings, Said } from "./node.js";
import { openRegisters, type Registers, serveRegisters } from "./registers.js";

/** For what must happen: only a machine that stands still takes longer. */
const PATIENCE_MS = 90_000;
const POLL_MS = 10;

/** A node lost what it had before anything was done to it: its ttl was too short for this machine. */
export class TooSlow extends Error {}

/** How a write by a lease that has ended ended, and whether its holder trusted it, if that was asked. */
export type Late = Pick<Said, "alive" | "wrote">;

/** A process with one node, or several. */
export class NodeProcess extends Child {
  #read = 0;
  readonly #said: Said[] = [];

  constructor(program: string, settings: NodeSettings) {
    super(process.execPath, [program, "node", JSON.stringify(settings)]);
  }

  /** All that its nodes have said so far. */
  get said(): readonly Said[] {
    for (; this.#read < this.out.length; this.#read += 1) {
      this.#said.push(JSON.parse(this.out[this.#read] ?? "") as Said);
    }
    return this.#said;
  }
}

export interface NodesOptions {
  readonly program: string;
  readonly engine: Engine;
  readonly running: RunningEngine;
  readonly features: readonly Feature[];
  readonly ttlMs: number;
  /** Whether a node may take over from itself: where all are stopped together. */
  readonly mayBeItself: boolean;
  /** Ends all waiting. */
  readonly signal?: AbortSignal;
}

/** One run: names, registers and processes of its own. */
export class Nodes {
  readonly prefix = `m${randomBytes(5).toString("hex")}`;
  readonly #processes: NodeProcess[] = [];
  readonly #closing: (() => Promise<void>)[] = [];

  private constructor(
    readonly options: NodesOptions,
    readonly url: string,
    private readonly places: Pick<NodeSettings, "registers" | "guarded">,
    private readonly registers: Registers,
    private readonly guarded: Registers,
  ) {}

  static async open(options: NodesOptions): Promise<Nodes> {
    const { running } = options;
    const served = await serveRegisters();
    const { kind, url } = served;
    const places = { registers: { kind, url }, guarded: running.guarded ?? { kind, url } };
    const [registers, guarded] = [
      await openRegisters(places.registers),
      await openRegisters(places.guarded),
    ];
    const nodes = new Nodes(options, await running.url(), places, registers, guarded);
    nodes.#closing.push(
      () => registers.close(),
      () => guarded.close(),
      () => served.close(),
    );
    return nodes;
  }

  /** Starts a process and has its nodes join, one after the other. */
  start(...names: string[]): NodeProcess {
    const { program, features, ttlMs } = this.options;
    const { url, prefix, places } = this;
    const settings: NodeSettings = { url, nodes: names, features, prefix, ttlMs, ...places };
    const started = new NodeProcess(program, settings);
    this.#processes.push(started);
    return started;
  }

  async close(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.endGroup()));
    for (const close of this.#closing) await close();
  }

  /** All that was said so far, each process's in order. */
  get said(): Said[] {
    return this.#processes.flatMap((each) => each.said);
  }

  /** What a node has by its own words. */
  rightsOf(node: string): Said[] {
    const own = this.said.filter((each) => each.node === node);
    const isOver = ({ resource, token }: Said) =>
      own.some(
        (each) =>
          (each.said === "over" || each.said === "done") &&
          each.resource === resource &&
          each.token === token,
      );
    return own.filter((each) => each.said === "has" && !isOver(each));
  }

  /** Resolves with what `find` makes of what was said, once that is truthy. */
  async until<T>(
    what: string | (() => string),
    find: () => T | undefined | null | false,
  ): Promise<T> {
    const giveUpAtMs = performance.now() + PATIENCE_MS;
    for (;;) {
      this.options.signal?.throwIfAborted();
      const found = find();
      if (found) return found;
      if (performance.now() > giveUpAtMs) {
        const errors = this.#processes.flatMap(({ err }) => err.slice(-3));
        const vain = typeof what === "string" ? what : what();
        throw new Error([`waited in vain: ${vain}`, ...errors].join("; "));
      }
      await delay(POLL_MS);
    }
  }

  /** What was said of it, for people. */
  storyOf(resource: string): string[] {
    return this.said
      .filter((each) => each.resource === resource)
      .map(({ said, node, token, wrote = "" }) => `${node} ${said} ${token} ${wrote}`.trim());
  }

  /** Waits for a takeover with a newer token: by another node, unless all were stopped together. */
  successorOf({ resource, token, feature, node }: Said): Promise<Said> {
    const { mayBeItself } = this.options;
    const what = () =>
      `a takeover of ${feature} after ${token}: ${this.storyOf(resource).join(", ")}`;
    return this.until(what, () =>
      this.said.find(
        (each) =>
          each.said === "has" &&
          each.resource === resource &&
          each.token > token &&
          each.wrote === "written" &&
          (mayBeItself || each.node !== node),
      ),
    );
  }

  /** Waits for the outcome of a node's late write. */
  lateWriteOf({ resource, node, feature }: Said): Promise<Late> {
    return this.until(`${node} writes late to ${feature}`, () =>
      this.said.find(
        (each) => each.said === "late" && each.resource === resource && each.node === node,
      ),
    );
  }

  sayToAll(line: string): void {
    for (const each of this.#processes) each.say(line);
  }

  #registersOf(feature: Feature): Registers {
    return feature === "guard" ? this.guarded : this.registers;
  }

  /** What a holder had sent before its end arrives now. */
  async writeLate({ feature, resource, token }: Said): Promise<Late> {
    return { wrote: await this.#registersOf(feature).write(resource, token) };
  }

  /** Which of the two registers an older token has overwritten. */
  async corrupted({ feature, resource }: Said) {
    const { fenced, unfenced } = await this.#registersOf(feature).read(resource);
    return { fenced: goesBack(fenced), unfenced: goesBack(unfenced) };
  }
}

/** Whether a smaller token follows a larger one. */
function goesBack(tokens: readonly number[]): boolean {
  return tokens.some((token, at) => tokens.slice(0, at).some((before) => before > token));
}
