/** What the four families of programs have in common. */
import type { Arbitrary } from "fast-check";

/** Steps are plain values, so that a program is JSON. */
export interface Program<Step = object> {
  /** Of the simulated world: chooses the jitter of timers. */
  readonly seed: number;
  readonly steps: readonly Step[];
}

/** How often each operation and each outcome has happened. */
export type Counts = Map<string, number>;

export interface Family<Step = object> {
  readonly name: string;
  /** How many `npm test` runs: enough for every outcome. */
  readonly usualPrograms: number;
  /** One step of a random program, or a few that lead to a rare outcome together. */
  readonly steps: Arbitrary<readonly Step[]>;
  /** What must have happened at least once in many programs. */
  readonly expected: readonly string[];
  /** Runs a program and checks every answer. @throws Broken */
  run(program: Program<Step>): Promise<Counts>;
}

/** An arbitrary of single steps, for `Family.steps`. */
export function single<Step>(step: Arbitrary<Step>): Arbitrary<readonly Step[]> {
  return step.map((each) => [each]);
}
