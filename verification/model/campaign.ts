/** Many random programs of one family; the first that fails is made small. */
import fc from "fast-check";
import { FAMILIES } from "./families.js";
import type { Family, Program } from "./family.js";
import { Broken } from "./site.js";

export interface CampaignOptions {
  readonly programs: number;
  /** Of fast-check: chooses the programs. */
  readonly seed: number;
  /** Ends the campaign early. */
  readonly signal?: AbortSignal;
}

export interface CampaignResult {
  readonly family: string;
  readonly programs: number;
  /** How often each operation and outcome has happened. */
  readonly counts: Readonly<Record<string, number>>;
  /** What was expected, and has never happened. */
  readonly missing: readonly string[];
  readonly failure: { readonly program: Program; readonly error: string } | null;
}

/** Parts of a program, each of one step or a few. */
const MOST_PARTS = 30;

export async function runPrograms<Step>(
  family: Family<Step>,
  { programs, seed, signal }: CampaignOptions,
): Promise<CampaignResult> {
  const program: fc.Arbitrary<Program<Step>> = fc.record({
    seed: fc.nat(1_000_000),
    steps: fc
      .array(family.steps, { minLength: 1, maxLength: MOST_PARTS, size: "max" })
      .map((parts) => parts.flat()),
  });
  const counts: Record<string, number> = {};
  let ran = 0;
  const property = fc.asyncProperty(program, async (each) => {
    fc.pre(!signal?.aborted);
    const covered = await family.run(each);
    ran += 1;
    for (const [what, times] of covered) counts[what] = (counts[what] ?? 0) + times;
  });
  const details = await fc.check(property, { numRuns: programs, seed, plugins: [fc.unbiased()] });
  const [smallest] = (details.counterexample ?? []) as Program<Step>[];
  const failure = smallest ? await withoutNeedless(family, smallest) : null;
  return {
    family: family.name,
    programs: ran,
    counts,
    missing: family.expected.filter((what) => !counts[what]),
    failure,
  };
}

/** Removes each step without which the program fails as well: fast-check removes whole parts. */
async function withoutNeedless<Step>(
  family: Family<Step>,
  program: Program<Step>,
): Promise<{ readonly program: Program; readonly error: string }> {
  let smallest = {
    ...program,
    error: (await failureOf(family, program)) ?? "fails only sometimes",
  };
  for (let at = 0; at < smallest.steps.length; ) {
    const steps = smallest.steps.toSpliced(at, 1);
    const error = await failureOf(family, { ...program, steps });
    if (error === null) at += 1;
    else [smallest, at] = [{ ...program, steps, error }, 0];
  }
  const { error, ...rest } = smallest;
  return { program: rest as Program, error };
}

async function failureOf<Step>(family: Family<Step>, program: Program<Step>) {
  return family.run(program).then(() => null, asText);
}

function asText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error instanceof Broken ? error.message : (error.stack ?? error.message);
}

/** A program that failed, as one can run it again. */
export function report({ family, failure }: CampaignResult): string {
  if (!failure) return "";
  const { program } = failure;
  const steps = program.steps.map((step) => `  ${JSON.stringify(step)}`).join(",\n");
  return [
    `${family}: ${failure.error}`,
    "",
    "Run this program again:",
    "",
    "npm run verify -- model --replay /dev/stdin <<'PROGRAM'",
    `{ "family": "${family}", "seed": ${program.seed}, "steps": [`,
    `${steps}`,
    "] }",
    "PROGRAM",
  ].join("\n");
}

/** Runs a program that {@link report} has printed. */
export async function replay(
  program: Program & { readonly family: string },
): Promise<{ readonly story: string; readonly failure: string | null }> {
  const family = FAMILIES.find(({ name }) => name === program.family);
  if (!family) throw new RangeError(`there is no family named ${program.family}`);
  try {
    const counts = await family.run(program);
    return { story: [...counts].map((each) => each.join(" ")).join("\n"), failure: null };
  } catch (error) {
    return { story: "", failure: asText(error) };
  }
}
