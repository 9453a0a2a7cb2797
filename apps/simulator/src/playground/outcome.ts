/** The outcome of a script, and the source of a test that expects it. */

import type { GrantFrame, WriteFrame } from "./frame.js";
import { Run } from "./run.js";
import { scenarioById } from "./scenarios.js";
import { encodeScript, LONGEST_RUN_MS, type Script } from "./script.js";

export interface Outcome {
  /** In the order in which the store made them; at most the last 100. */
  readonly grants: readonly Pick<GrantFrame, "token" | "node" | "ended">[];
  /** Writes that the resource refused. */
  readonly refused: readonly Pick<WriteFrame, "node" | "token">[];
  /** Writes of older holders that the resource accepted. */
  readonly letThrough: readonly Pick<WriteFrame, "node" | "token">[];
  /** The time without a leader for each change of leaders, in whole milliseconds. */
  readonly failOverMs: readonly number[];
  /** The hash of the run. Two runs of one script have the same. */
  readonly hash: string;
}

/** Runs a script from the start and returns its outcome. @internal */
export async function replay(script: Script, untilMs: number): Promise<Outcome> {
  const run = new Run(script);
  await run.runTo(Math.min(untilMs, LONGEST_RUN_MS));
  const writes = (accepted: boolean) =>
    run.staleWrites
      .filter((write) => write.accepted === accepted)
      .map(({ node, token }) => ({ node, token }));
  return {
    grants: run.frame().store.grants.map(({ token, node, ended }) => ({ token, node, ended })),
    refused: writes(false),
    letThrough: writes(true),
    failOverMs: run.failOversMs.map(Math.round),
    hash: run.hash,
  };
}

/**
 * The source of a vitest test for this project's apps/simulator/src/. It replays the script and expects the
 * same grants with their tokens and the same stale writes, refused or accepted.
 */
export async function exportTest(script: Script, untilMs: number): Promise<string> {
  const { grants, refused, letThrough } = await replay(script, untilMs);
  const { title } = scenarioById(script.scenario);
  const lines = (values: readonly object[]) =>
    values.length === 0
      ? "[]"
      : `[\n${values.map((value) => `    ${literal(value)},\n`).join("")}  ]`;
  return `/** Exported from the simulator. */
import { expect, it } from "vitest";
import { decodeScript, replay } from "./playground/index.js";

it(${JSON.stringify(`${title}, seed ${script.seed}, with ${script.actions.length} actions`)}, async () => {
  const script = decodeScript(${JSON.stringify(encodeScript(script))});
  const { grants, refused, letThrough } = await replay(script, ${Math.round(untilMs)});
  expect(grants).toEqual(${lines(grants)});
  expect(refused).toEqual(${lines(refused)});
  expect(letThrough).toEqual(${lines(letThrough)});
});
`;
}

/** An object literal in the formatter's style. */
function literal(value: object): string {
  const fields = Object.entries(value).map(([name, one]) => `${name}: ${JSON.stringify(one)}`);
  return `{ ${fields.join(", ")} }`;
}
