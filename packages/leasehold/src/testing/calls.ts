/** How the suites call a store: as its users do, who repeat what was refused for now. */

import type { CallOptions, Failed } from "../core/index.js";
import { nextTurn, sleep, systemClock, zip } from "../env/index.js";

/** For whatever has to happen, on a machine however slow. */
export const PATIENCE_MS = 15_000;
export const POLL_MS = 10;
/** Of calls that shall end with what the store has to say, not with a budget. */
export const PATIENT: CallOptions = { timeoutMs: PATIENCE_MS };

/**
 * Calls again for the requests that the store has refused for now. Such a refusal is an answer the
 * port allows; a deadlock in disguise is not.
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
