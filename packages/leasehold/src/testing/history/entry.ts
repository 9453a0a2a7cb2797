/** What a history consists of: one entry per request, as the client that sent it saw it. */
import type {
  AcquireOutcome,
  AcquireRequest,
  Failed,
  Key,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../../lease/index.js";

/** Each operation of the port that changes a lease, with its request and its outcome. */
interface Operations {
  readonly acquire: { request: AcquireRequest; outcome: Exclude<AcquireOutcome, Failed> };
  readonly renew: { request: RenewRequest; outcome: Exclude<RenewOutcome, Failed> };
  readonly release: { request: ReleaseRequest; outcome: Exclude<ReleaseOutcome, Failed> };
  readonly revoke: { request: RevokeRequest; outcome: Exclude<RevokeOutcome, Failed> };
}

/** The operations that a history records. */
export type Operation = keyof Operations;

/** A request and its result. Times are in milliseconds of one monotonic clock. */
export type HistoryEntry = {
  [Name in Operation]: {
    /** The client that sent it: `options.client` of the recorder. */
    readonly client: string;
    readonly operation: Name;
    readonly request: Operations[Name]["request"];
    /** The time just before the request was sent. */
    readonly invokeMs: number;
    /** The time at which the answer arrived. Null for `unknown`: the request may still take effect at any time. */
    readonly returnMs: number | null;
    /**
     * How often the store has sent it, if the recorder counts (`options.tries`). The answer belongs to the
     * last try, and each try may have taken effect or may still do so. Default: once, unless the checker
     * is called with `repeats`.
     */
    readonly tries?: number;
  } & (
    | { readonly result: "ok"; readonly outcome: Operations[Name]["outcome"] }
    /** `fail`: not applied. `unknown`: applied now, later or never. */
    | { readonly result: "fail" | "unknown"; readonly outcome: null; readonly error: string }
  );
}[Operation];

/**
 * Writes a history as one JSON object per line. It contains lease ids, so it is for tests, not for logs.
 * @example
 * ```ts
 * import { History, toJsonLines } from "leasehold/testing";
 *
 * console.log(toJsonLines(new History().entries()));
 * ```
 */
export function toJsonLines(history: Iterable<HistoryEntry>): string {
  let text = "";
  for (const entry of history) text += `${JSON.stringify(entry)}\n`;
  return text;
}

/**
 * Reads a history that {@link toJsonLines} has written.
 * @throws SyntaxError for a line that is not JSON
 * @example
 * ```ts
 * import { checkGrants, fromJsonLines } from "leasehold/testing";
 *
 * console.log(checkGrants(fromJsonLines("")).grants);
 * ```
 */
export function fromJsonLines(text: string): HistoryEntry[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as HistoryEntry);
}

/** Names a key in maps: names contain no NUL. */
export function keyText({ namespace, resource }: Key): string {
  return `${namespace}\0${resource}`;
}

/** An entry as a person reads it: `12.0..14.5 c1 acquire "r" a1b2, 200 ms: acquired, token 7 ...`. */
export function lineOf(entry: HistoryEntry): string {
  const { client, operation, request, invokeMs, returnMs } = entry;
  const { resource, ...rest } = { leaseId: "", ...request };
  const asked = facts({ ...rest, leaseId: rest.leaseId.slice(0, 8) }, ["namespace", "metadata"]);
  const window = `${invokeMs.toFixed(1)}..${returnMs?.toFixed(1) ?? ""}`;
  const answer =
    entry.result === "ok"
      ? facts(entry.outcome, ["expiresAt", "replaced", "grantId"])
      : `${entry.result}, ${entry.error}`;
  return `${window} ${client} ${operation} "${resource}" ${asked}: ${answer}`;
}

function facts(object: object, left: readonly string[]): string {
  return Object.entries(object)
    .filter(([name, value]) => !left.includes(name) && value !== "")
    .map(([name, value]) => (name === "status" ? String(value) : `${name} ${String(value)}`))
    .join(", ");
}
