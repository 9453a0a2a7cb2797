/**
 * Three stories of lease-based leader election, for any engine: the leader renews; the leader crashes; the
 * leader pauses for longer than its ttl, and writes. Leaders are processes. A store in the process of its
 * clients would end with it, so there only the clock of one client stops: for ever in the crash, and for a
 * while in the pause.
 */
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { connect } from "../../../packages/leasehold/src/index.js";
import type { LeaseView } from "../../../packages/leasehold/src/lease/index.js";
import type { Engine, RunningEngine } from "../../../verification/matrix/engines.js";
import type { Said } from "../../../verification/matrix/node.js";
import { type NodeProcess, Nodes } from "../../../verification/matrix/nodes.js";

const FEATURES = ["elector"] as const;
/** Of a machine that is too slow for the shortest ttl: with two, four, eight times of it. */
const TRIES = 4;

export interface StoryEngine {
  readonly engine: Engine;
  readonly running: RunningEngine;
  readonly program: string;
}

export function tellStories(open: () => StoryEngine): void {
  /** A body that returns false was too late for its ttl. It runs again with a longer one. */
  const withLongerTtls = async (body: (cast: Cast) => Promise<boolean>): Promise<void> => {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const cast = await Cast.open(open(), open().engine.ttlMs * 2 ** tries);
      try {
        if (await body(cast)) return;
      } finally {
        await cast.nodes.close();
      }
    }
    throw new Error("the machine is too slow for ttls of seconds");
  };

  it.concurrent("acquire and renew: the leader stays beyond its ttl, with the token that it began with", () =>
    withLongerTtls(async (cast) => {
      const first = await cast.leads("a");
      await cast.stands("b");
      // A lower bound: a leader that is trusted after this has renewed.
      await delay(2 * cast.ttlMs);
      cast.processOf("a").say("write");
      const isLater = ({ said, node }: Said) =>
        node === "a" && (said === "wrote" || said === "over");
      const later = await cast.nodes.until("a goes on", () => cast.nodes.said.find(isLater));
      if (later.said === "over") return false;
      expect(later).toMatchObject({ token: first.token, alive: true, wrote: "written" });
      expect(cast.termsOf("b")).toEqual([]);
      const view = await cast.view(first.resource);
      if (view) {
        expect(view).toMatchObject({ holder: "a", token: first.token, state: "live" });
        expect(view.renewedAt).not.toBe(null);
      }
      return true;
    }));

  it.concurrent("leader crash: its lease expires, and another one leads with a larger token", () =>
    withLongerTtls(async (cast) => {
      const first = await cast.leads("a");
      await cast.stands("b");
      if (cast.termsOf("b").length > 0) return false;
      await cast.crash("a");
      const left = await cast.view(first.resource);
      const next = await cast.nodes.successorOf(first);
      // By the store's own times, where it has some. It had none left if b was faster than we.
      const { grantedAt } = (await cast.view(first.resource)) ?? {};
      if (left?.token === first.token && left.expiresAt && grantedAt) {
        const waitedMs = Date.parse(grantedAt) - Date.parse(left.expiresAt);
        expect(waitedMs).toBeGreaterThanOrEqual(0);
      }
      expect(next).toMatchObject({ node: "b", alive: true, wrote: "written" });
      expect(next.token).toBeGreaterThan(first.token);
      // What it had sent before its end arrives now.
      expect(await cast.nodes.writeLate(first)).toEqual({ wrote: "STALE_TOKEN" });
      return true;
    }));

  it.concurrent("pause and fence: the late write is refused by the guard, and corrupts what has none", () =>
    withLongerTtls(async (cast) => {
      const first = await cast.leads("a");
      await cast.stands("b");
      if (cast.termsOf("b").length > 0) return false;
      await cast.pause("a");
      const next = await cast.nodes.successorOf(first);
      expect(next.node).toBe("b");
      expect(next.token).toBeGreaterThan(first.token);
      await cast.resume("a");
      cast.processOf("a").say("late a");
      const late = await cast.nodes.lateWriteOf(first);
      expect(late).toMatchObject({ token: first.token, alive: false, wrote: "STALE_TOKEN" });
      expect(await cast.nodes.corrupted(first)).toEqual({ fenced: false, unfenced: true });
      // It knows, and steps down.
      await cast.nodes.until("a steps down", () =>
        cast.nodes.said.find(({ said, token }) => said === "over" && token === first.token),
      );
      return true;
    }));
}

/** Who plays: a and b, each a process of its own if that can be. */
class Cast {
  readonly isApart: boolean;
  readonly #processes = new Map<string, NodeProcess>();

  private constructor(
    readonly nodes: Nodes,
    readonly ttlMs: number,
  ) {
    this.isApart = nodes.options.engine.inProcess === undefined;
    const together = this.isApart ? undefined : nodes.start("a", "b");
    for (const name of ["a", "b"]) this.#processes.set(name, together ?? nodes.start(name));
  }

  static async open({ engine, running, program }: StoryEngine, ttlMs: number): Promise<Cast> {
    const options = { engine, running, program, ttlMs, mayBeItself: false };
    return new Cast(await Nodes.open({ ...options, features: FEATURES }), ttlMs);
  }

  processOf(name: string): NodeProcess {
    const process = this.#processes.get(name);
    if (!process) throw new Error(`${name} does not play`);
    return process;
  }

  termsOf(name: string): readonly Said[] {
    return this.nodes.said.filter(({ said, node }) => said === "has" && node === name);
  }

  /** Joins. */
  async stands(name: string): Promise<void> {
    this.processOf(name).say(`join ${name}`);
    await this.nodes.until(`${name} joins`, () =>
      this.nodes.said.some(({ said, node }) => said === "joined" && node === name),
    );
  }

  async leads(name: string): Promise<Said> {
    await this.stands(name);
    return this.nodes.until(`${name} leads`, () => this.termsOf(name)[0]);
  }

  /** As the store has it; null where that is in the process of the nodes. */
  async view(resource: string): Promise<LeaseView | null> {
    if (!this.isApart) return null;
    const leases = await connect(this.nodes.url, { connectTimeoutMs: 60_000 });
    try {
      return await leases.get(resource);
    } finally {
      await leases.close();
    }
  }

  async crash(name: string): Promise<void> {
    if (this.isApart) await this.processOf(name).end("SIGKILL");
    else this.processOf(name).say(`freeze ${name}`);
  }

  async pause(name: string): Promise<void> {
    if (this.isApart) await this.processOf(name).stop();
    else this.processOf(name).say(`freeze ${name}`);
  }

  async resume(name: string): Promise<void> {
    if (this.isApart) this.processOf(name).cont();
    else this.processOf(name).say(`thaw ${name}`);
  }
}
