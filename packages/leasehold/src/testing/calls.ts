/** Calls a store as its users do: the suites retry requests that failed temporarily. */

import { nextTurn, sleep, systemClock, zip } from "../env/index.js";
import type { CallOptions, Failed } from "../lease/index.js";

/** A limit that even a slow machine meets. */
export const PATIENCE_MS = 15_000;
export const POLL_MS = 10;
/** Options for calls that must end with the store's outcome, not with a timeout. */
export const PATIENT: CallOptions = { timeoutMs: PATIENCE_MS };

/**
 * Retries the requests that the store failed with `retryable`. The port allows such
 * an outcome. The retries end after PATIENCE_MS, so that a deadlock fails the test.
 */
export async function settled<Request, Outcome extends { readonly status: string }>(
  call: (requests: Request[], options: CallOptions) => Promise<(Outcome | Failed)[]>,
  requests: readonly Request[],
): Promise<Outcome[]> {
  const untilMs = systemClock.monotonic() + PATIENCE_MS;
  const outcomes: Outcome[] = [];
  let open = requests.map((request, index) => ({ request, index }));
  while (open.length > 0) {
    const answers = await call(
      open.map(({ request }) => request),
      PATIENT,
    );
    if (answers.length !== open.length) {
      throw new Error(`${answers.length} outcomes for ${open.length} requests`);
    }
    const refused: typeof open = [];
    for (const [entry, answer] of zip(open, answers)) {
      if (!isFailed(answer)) outcomes[entry.index] = answer;
      else if (mayRepeat(answer) && systemClock.monotonic() < untilMs) refused.push(entry);
      else throw new Error(`failed, applied ${answer.applied}`, { cause: answer.error });
    }
    open = refused;
    if (open.length > 0) await sleep(systemClock, POLL_MS);
    else await nextTurn();
  }
  return outcomes;
}

export function only<T>(list: readonly T[]): T {
  if (list.length !== 1) throw new Error(`one outcome expected, not ${list.length}`);
  return list[0] as T;
}

function isFailed(outcome: { readonly status: string }): outcome is Failed {
  return outcome.status === "failed";
}

function mayRepeat({ applied, retryable, error }: Failed): boolean {
  const text = `${error.message} ${error.cause instanceof Error ? error.cause.message : ""}`;
  return applied === "no" && retryable && !/deadlock/i.test(text);
}
