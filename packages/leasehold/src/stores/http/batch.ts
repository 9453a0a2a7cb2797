/** Sends many requests in few calls. Each request has one outcome, in request order. */
import {
  type CallOptions,
  type Failed,
  InvalidOptionError,
  type LeaseholdError,
} from "../../lease/index.js";
import type * as wire from "../../wire/index.js";
import { BOUNDS } from "../../wire/index.js";
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
import { jsonOf } from "./json.js";

interface Batch extends CallOptions {
  readonly path: string;
  readonly requests: readonly unknown[];
  /** The server's limit for one body. */
  readonly maxBytes: number;
  /** The server's limit for one array; default: that of most routes. */
  readonly maxCount?: number;
  /** Who asks for it, as the caller claims. */
  readonly actor?: string;
}

/**
 * Sends the calls one after the other within one time budget, because several calls may contain the
 * same key.
 * If the server rejects a request as malformed or forbidden, only that request fails; the server did
 * not apply it.
 * After a transient failure the remaining requests are not sent, so that a retry keeps the order.
 */
export async function sendBatch<Outcome>(
  client: HttpClient,
  { path, requests, maxBytes, maxCount, actor, timeoutMs = DEFAULT_BUDGET_MS }: Batch,
): Promise<(Outcome | Failed)[]> {
  const { clock } = client.connection.env;
  const deadlineMs = clock.monotonic() + timeoutMs;
  const outcomes: (Outcome | Failed)[] = [];
  const mostBytes = Math.min(maxBytes, client.connection.maxBodyBytes);
  const chunks = chunked(requests, mostBytes, maxCount);
  for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) {
    const { body, count, bytes } = chunk;
    const budgetMs = deadlineMs - clock.monotonic();
    let answer: Answer | Failed;
    try {
      // Unsent: the answer to a large body is often lost, because the server closes the connection.
      if (count === 1 && bytes > mostBytes) throw tooLarge(mostBytes);
      answer = await client.send({ method: "POST", path, body, actor, budgetMs });
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
  const notSent = failed("no", unavailable("no", "an earlier call of this batch got no response"));
  while (outcomes.length < requests.length) outcomes.push(notSent);
  return outcomes;
}

function tooLarge(mostBytes: number): InvalidOptionError {
  const limit = `at most ${mostBytes} bytes of JSON, by its limit bodyBytes`;
  return new InvalidOptionError("the request", `is too large: the server takes ${limit}`);
}

/** The server rejected the whole call because of one request, and applied none. */
function isOfOne(error: unknown): error is LeaseholdError {
  if (error instanceof RefusedKeyError) return error.status === 403;
  return error instanceof InvalidOptionError;
}

/** Halving isolates a malformed request, so that the others in its call still succeed. */
function halves(requests: readonly unknown[]): Chunk[] {
  const middle = Math.ceil(requests.length / 2);
  return [requests.slice(0, middle), requests.slice(middle)].flatMap((half) =>
    chunked(half, Number.POSITIVE_INFINITY),
  );
}

function outcomesOf<Outcome>(answer: Answer | Failed, count: number): (Outcome | Failed)[] {
  if (isFailed(answer)) return Array.from({ length: count }, () => answer);
  if (!Array.isArray(answer.body) || answer.body.length !== count) {
    const unknown = failed(
      "maybe",
      misconfigured("the response does not have one outcome per request"),
    );
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
  readonly bytes: number;
}

const encoder = new TextEncoder();

/**
 * Splits the items into JSON arrays within the server's limits; an item above the limit is alone in its array.
 */
export function chunked(
  items: readonly unknown[],
  maxBytes: number,
  maxCount: number = BOUNDS.batch,
): Chunk[] {
  const chunks: Chunk[] = [];
  let texts: string[] = [];
  let size = 0;
  const flush = () => {
    const count = texts.length;
    if (count > 0) chunks.push({ body: `[${texts.join(",")}]`, count, bytes: size });
    texts = [];
    size = 0;
  };
  for (const item of items) {
    const text = jsonOf(item);
    // Includes brackets and comma.
    const added = encoder.encode(text).length + 2;
    if (texts.length === maxCount || size + added > maxBytes) flush();
    texts.push(text);
    size += added;
  }
  flush();
  return chunks;
}
