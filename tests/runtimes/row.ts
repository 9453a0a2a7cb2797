/** A row of the table of runtimes, and how it is tried. */
import type { Site } from "./site.js";

export interface Row {
  /** Such as `Node 20: memory`. */
  readonly name: string;
  /** What the row tries, for readers. */
  readonly tries: string;
  /** Tried by `npm test` too. */
  readonly quick?: boolean;
  /** Why it cannot work, and how that shows. */
  readonly fails?: { readonly reason: string; readonly as: RegExp };
  /** Why it cannot be tried on this machine, or null. */
  missing?(): string | null | Promise<string | null>;
  /** @throws Error with what went wrong */
  run(site: Site): Promise<unknown>;
}

/** `no`: as the row says. `wrong`: otherwise than it says. */
export type Verdict = "yes" | "no" | "not tried" | "wrong";

export interface Result {
  readonly name: string;
  readonly tries: string;
  readonly verdict: Verdict;
  /** Of every verdict but `yes`. */
  readonly reason?: string;
  readonly seconds: number;
}

export async function tryRow(row: Row, site: Site): Promise<Result> {
  const { name, tries } = row;
  const beganMs = performance.now();
  const verdict = await judge(row, site);
  const seconds = Math.round((performance.now() - beganMs) / 100) / 10;
  return { name, tries, ...verdict, seconds };
}

async function judge(row: Row, site: Site): Promise<Pick<Result, "verdict" | "reason">> {
  const missing = (await row.missing?.()) ?? null;
  if (missing !== null) return { verdict: "not tried", reason: missing };
  const { fails } = row;
  try {
    await row.run(site);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fails?.as.test(reason)
      ? { verdict: "no", reason: fails.reason }
      : { verdict: "wrong", reason };
  }
  if (!fails) return { verdict: "yes" };
  return { verdict: "wrong", reason: `it works, but the row says that it cannot: ${fails.reason}` };
}

/** Whether each row is as it says. */
export function isGreen(results: readonly Result[], expected: number): boolean {
  return results.length === expected && results.every(({ verdict }) => verdict !== "wrong");
}
