/**
 * One fault on one engine, and what becomes of each feature:
 *
 *   a joins and has everything ─▶ b and c contend ─▶ the fault strikes a, or the store
 *     ─▶ b or c takes over, with a newer token ─▶ a's late write: refused by the guard, stands without one
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Engine, RunningEngine } from "./engines.js";
import type { Fault, Feature } from "./features.js";
import type { Said } from "./node.js";
import { type Late, type NodeProcess, Nodes, TooSlow } from "./nodes.js";

/** Why a feature has failed; null for one that has not. */
export type Verdicts = ReadonlyMap<Feature, string | null>;

export interface StrikeOptions {
  readonly program: string;
  readonly engine: Engine;
  readonly running: RunningEngine;
  readonly fault: Fault;
  readonly features: readonly Feature[];
  readonly signal: AbortSignal;
}

/** How many rights the first node has of each. */
const RIGHTS: Readonly<Record<Feature, number>> = {
  lease: 1,
  elector: 1,
  singleton: 1,
  shards: 6,
  waiting: 1,
  acquireAll: 2,
  guard: 1,
};
const TRIES = 3;

/** A ttl that the machine was too slow for is no fault of ours: once more with twice of it. */
export async function strike(options: StrikeOptions): Promise<Verdicts> {
  const { engine } = options;
  for (let tries = 1; ; tries += 1) {
    try {
      return await strikeOnce(options, engine.ttlMs * 2 ** (tries - 1));
    } catch (error) {
      if (!(error instanceof TooSlow) || tries === TRIES) throw error;
    }
  }
}

async function strikeOnce(options: StrikeOptions, ttlMs: number): Promise<Verdicts> {
  const { engine, running, fault, features } = options;
  const mayBeItself = fault === "stop" && engine.inProcess !== undefined;
  const nodes = await Nodes.open({ ...options, ttlMs, mayBeItself });
  try {
    const isApart = engine.inProcess === undefined;
    const comeLater = fault === "kill" && engine.inProcess === "after the end of the holder";
    const a = isApart || comeLater ? nodes.start("a") : nodes.start("a", "b", "c");
    await join(nodes, a, "a");
    await nodes.until("a has everything", () => hasAll(nodes, features) || tooSlow(nodes));
    const othersJoin = async () => {
      const b = isApart ? nodes.start("b") : comeLater ? nodes.start("b", "c") : a;
      const c = isApart ? nodes.start("c") : b;
      await Promise.all([join(nodes, b, "b"), join(nodes, c, "c")]);
    };
    if (!comeLater) {
      await othersJoin();
      const isReady = () => tooSlow(nodes) || haveShards(nodes, features);
      await nodes.until("everybody has shards", isReady);
    }
    const before = nodes.rightsOf("a");
    if (features.some((feature) => !before.some((each) => each.feature === feature))) {
      throw new TooSlow("the first node has lost a lease before the fault");
    }

    let lateOf = (right: Said) => nodes.writeLate(right);
    switch (fault) {
      case "kill":
        await a.end("SIGKILL");
        if (comeLater) await othersJoin();
        break;
      case "stop":
        await a.stop();
        // In one process no node takes over before all go on.
        if (!isApart) await delay(2 * ttlMs);
        else await Promise.allSettled(before.map((right) => nodes.successorOf(right)));
        a.cont();
        await Promise.allSettled(before.map((right) => nodes.successorOf(right)));
        a.say("late a");
        lateOf = (right) => nodes.lateWriteOf(right);
        break;
      case "restart":
        await running.restart?.();
        // A lease that is trusted after its TTL was renewed or acquired after the restart.
        await delay(ttlMs);
        await goesOn(nodes, before);
        await a.end("SIGKILL");
    }
    const verdicts = new Map<Feature, string | null>();
    await Promise.all(
      features.map(async (feature) => {
        const own = before.filter((right) => right.feature === feature);
        const judged = judge(nodes, feature, own, lateOf).catch((error: Error) => error.message);
        verdicts.set(feature, await judged);
      }),
    );
    return verdicts;
  } finally {
    await nodes.close();
  }
}

async function join(nodes: Nodes, process: NodeProcess, name: string): Promise<void> {
  process.say(`join ${name}`);
  await process.until(() =>
    nodes.said.some(({ said, node }) => said === "joined" && node === name),
  );
}

function hasAll(nodes: Nodes, features: readonly Feature[]): boolean {
  const rights = nodes.rightsOf("a");
  return features.every(
    (feature) => rights.filter((each) => each.feature === feature).length === RIGHTS[feature],
  );
}

/** Shards change hands as members come; everything else stays where it is. */
function tooSlow(nodes: Nodes): false {
  const isLost = ({ said, feature }: Said) => said === "over" && feature !== "shards";
  if (nodes.said.some(isLost)) throw new TooSlow("a lease was lost before the fault");
  return false;
}

/** Shards are spread evenly: what a has now it would keep. */
function haveShards(nodes: Nodes, features: readonly Feature[]): boolean {
  if (!features.includes("shards")) return true;
  const count = (node: string) =>
    nodes.rightsOf(node).filter(({ feature }) => feature === "shards").length;
  return ["a", "b", "c"].every((node) => count(node) === RIGHTS.shards / 3);
}

/** Resolves when a current holder has written to each resource. */
async function goesOn(nodes: Nodes, before: readonly Said[]): Promise<void> {
  const again = setInterval(() => nodes.sayToAll("write"), 100);
  const idle = () =>
    before.filter(
      ({ resource }) =>
        !nodes.said.some(
          (each) =>
            each.resource === resource &&
            // A waiter is done as soon as it is served, so its resource may have no holder.
            (each.said === "done" || (each.said === "wrote" && each.wrote === "written")),
        ),
    );
  try {
    const left = () => {
      const stories = idle().map(({ resource }) => nodes.storyOf(resource).join(", "));
      return `work goes on: ${stories.join("; ")}`;
    };
    await nodes.until(left, () => idle().length === 0);
  } finally {
    clearInterval(again);
  }
}

/** Null, or what is wrong. */
export async function judge(
  nodes: Pick<Nodes, "successorOf" | "corrupted" | "until" | "said">,
  feature: Feature,
  before: readonly Said[],
  lateOf: (right: Said) => Promise<Late>,
): Promise<string | null> {
  for (const right of before) {
    const successor = await nodes.successorOf(right);
    if (successor.alive !== true) return "the successor did not trust its lease";
    const late = await lateOf(right);
    if (late.wrote !== "STALE_TOKEN") return `the late write was not refused: ${late.wrote}`;
    if (late.alive) return "a lease was trusted past its end";
    const { fenced, unfenced } = await nodes.corrupted(right);
    if (fenced) return "the guarded register was overwritten by an older holder";
    if (!unfenced) return "the unguarded register shows nothing: the late write was none";
  }
  if (feature === "waiting") {
    await nodes.until("both of those who waited get it", () => {
      const done = nodes.said.filter((each) => each.said === "done").map(({ node }) => node);
      return done.includes("b") && done.includes("c");
    });
  }
  return null;
}
