/** Many requests by few calls: one outcome each, in their order. */
import {
  type CallOptions,
  type Failed,
  InvalidOptionError,
  type LeaseholdError,
} from "../../core/index.js";
import type * as wire from "../../wire/index.js";
import { LIMITS } from "../../wire/index.js";
import {
  type Answer,
  DEFAULT_BUDGET_MS,
  failed,
  type HttpClient,
  isFailed,
  misconfigured,
  RefusedKeyError,
  unavailable,
} from "./connection.js";
import { fromWireFailed, isWireFailed } from "./failures.js";

interface Batch extends CallOptions {
  readonly path: string;
  readonly requests: readonly unknown[];
  /** What the server takes in one body. */
  readonly maxBytes: number;
}

/**
 * Calls go one after the other, within one budget: the same key may stand in several of them. A
 * request that the server says is malformed, or not ours to make, is an outcome of its own: nothing
 * was done about it. After a call that failed for a while the rest is not sent: whoever tries again
 * keeps the order.
 */
export async function sendBatch<Outcome>(
  client: HttpClient,
  { path, requests, maxBytes, timeoutMs = DEFAULT_BUDGET_MS }: Batch,
): Promise<(Outcome | Failed)[]> {
  const { clock } = client.connection.env;
  const deadlineMs = clock.monotonic() + timeoutMs;
  const outcomes: (Outcome | Failed)[] = [];
  const chunks = chunked(requests, maxBytes);
  for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) {
    const { body, count } = chunk;
    const budgetMs = deadlineMs - clock.monotonic();
    let answer: Answer | Failed;
    try {
      answer = await client.send({ method: "POST", path, body, budgetMs });
    } catch (error) {
      if (!isOfOne(error)) throw error;
      if (count > 1) {
        chunks.unshift(...halves(requests.slice(outcomes.length, outcomes.length + count)));
        continue;
      }
      answer = failed("no", error);
    }
    for (const outcome of outcomesOf<Outcome>(answer, count)) outcomes.push(outcome);
    if (isFailed(answer) && answer.retryable) break;
  }
  const notSent = failed("no", unavailable("no", "a call before this one had no answer"));
  while (outcomes.length < requests.length) outcomes.push(notSent);
  return outcomes;
}

/** Refused for one of them, and then nothing was done about any. */
function isOfOne(error: unknown): error is LeaseholdError {
  if (error instanceof RefusedKeyError) return error.status === 403;
  return error instanceof InvalidOptionError;
}

/** A request that is malformed must not take those beside it with it: which one it is, halving finds. */
function halves(requests: readonly unknown[]): Chunk[] {
  const middle = Math.ceil(requests.length / 2);
  return [requests.slice(0, middle), requests.slice(middle)].flatMap((half) =>
    chunked(half, Number.POSITIVE_INFINITY),
  );
}

function outcomesOf<Outcome>(answer: Answer | Failed, count: number): (Outcome | Failed)[] {
  if (isFailed(answer)) return Array.from({ length: count }, () => answer);
  if (!Array.isArray(answer.body) || answer.body.length !== count) {
    const unknown = failed("maybe", misconfigured("the answer has not one outcome per request"));
    return Array.from({ length: count }, () => unknown);
  }
  return (answer.body as (Outcome | wire.Failed)[]).map((outcome) =>
    isWireFailed(outcome) ? fromWireFailed(outcome) : outcome,
  );
}

interface Chunk {
  /** A JSON array. */
  readonly body: string;
  readonly count: number;
}

const encoder = new TextEncoder();

/** The items as arrays that the server takes; an item above its limit goes alone. */
export function chunked(items: readonly unknown[], maxBytes: number): Chunk[] {
  const chunks: Chunk[] = [];
  let texts: string[] = [];
  let size = 0;
  const flush = () => {
    if (texts.length > 0) chunks.push({ body: `[${texts.join(",")}]`, count: texts.length });
    texts = [];
    size = 0;
  };
  for (const item of items) {
    const text = JSON.stringify(item);
    // Brackets and comma included.
    const added = encoder.encode(text).length + 2;
    if (texts.length === LIMITS.batch || size + added > maxBytes) flush();
    texts.push(text);
    size += added;
  }
  flush();
  return chunks;
}
