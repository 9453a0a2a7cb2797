/** What came of a script, and a test that expects the same of it. */
import { Course } from "./course.js";
import type { GrantFrame, WriteFrame } from "./frame.js";
import { scenarioById } from "./scenarios.js";
import { encodeScript, LONGEST_RUN_MS, type Script } from "./script.js";

export interface Outcome {
  /** In the order in which the store made them; at most the last 100. */
  readonly grants: readonly Pick<GrantFrame, "token" | "node" | "ended">[];
  /** Writes that the resource refused. */
  readonly refused: readonly Pick<WriteFrame, "node" | "token">[];
  /** Writes of older holders that nothing refused. */
  readonly letThrough: readonly Pick<WriteFrame, "node" | "token">[];
  /** How long nobody led, for each change of leaders, in whole milliseconds. */
  readonly failOverMs: readonly number[];
  /** Of the whole course: two runs of one script have the same. */
  readonly hash: string;
}

/** Runs a script from its beginning, and tells what came of it. @internal */
export async function replay(script: Script, untilMs: number): Promise<Outcome> {
  const course = new Course(script);
  await course.runTo(Math.min(untilMs, LONGEST_RUN_MS));
  const writes = (accepted: boolean) =>
    course.staleWrites
      .filter((write) => write.accepted === accepted)
      .map(({ node, token }) => ({ node, token }));
  return {
    grants: course.frame().store.grants.map(({ token, node, ended }) => ({ token, node, ended })),
    refused: writes(false),
    letThrough: writes(true),
    failOverMs: course.failOversMs.map(Math.round),
    hash: course.hash,
  };
}

/**
 * The source of a vitest test, to be kept in this project's apps/console/src/: it replays the script, and expects
 * the grants with their tokens, and the writes that were refused or let through.
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
import { decodeScript, replay } from "./simulator/playground/index.js";

it(${JSON.stringify(`${title}, seed ${script.seed}, with ${script.acts.length} acts`)}, async () => {
  const script = decodeScript(${JSON.stringify(encodeScript(script))});
  const { grants, refused, letThrough } = await replay(script, ${Math.round(untilMs)});
  expect(grants).toEqual(${lines(grants)});
  expect(refused).toEqual(${lines(refused)});
  expect(letThrough).toEqual(${lines(letThrough)});
});
`;
}

/** As a formatter would write it. */
function literal(value: object): string {
  const fields = Object.entries(value).map(([name, one]) => `${name}: ${JSON.stringify(one)}`);
  return `{ ${fields.join(", ")} }`;
}
