/** The values that the lean statements take, and what their rows decide. */

import type {
  ClaimedTask,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
} from "../../tasks/port.js";
import { DEFAULT_GRACE_MS, FIRST_VERSION } from "../../tasks/port.js";
import { encodeJson, isTaskId, NOTHING } from "../../tasks/record.js";
import type { Parameter } from "./connection.js";
import { type LeanStatement, listOf } from "./statement.js";
import { isHex } from "./task-calls.js";
import { COMPLETE_LIVE, type CompletedRow, type LeanClaimedRow } from "./task-lean-statements.js";
import { decode, iso } from "./task-views.js";

/** Null if the general statement decides the claim. */
export function tasksOf(
  { queues: [queue = ""], ttlMs, graceMs = DEFAULT_GRACE_MS }: ClaimRequest,
  rows: readonly LeanClaimedRow[],
): ClaimedTask[] | null {
  const [first] = rows;
  if (!first || first.undecided) return null;
  if (first.id === null) return [];
  const now = first.now ?? first.token;
  const whole = { ttlMs, remainingMs: ttlMs, expiresAt: iso(now + ttlMs * 1_000) };
  const termOf = ({ maxRunMs }: LeanClaimedRow) => {
    if (maxRunMs === null || maxRunMs + graceMs >= ttlMs) return whole;
    const remainingMs = maxRunMs + graceMs;
    return { ttlMs, remainingMs, expiresAt: iso(now + remainingMs * 1_000) };
  };
  return rows.map((row) => ({
    id: row.id as string,
    kind: row.kind,
    queue,
    priority: row.priority ?? 0,
    data: decode(row.data),
    leaseId: row.leaseId,
    token: row.token,
    attempt: row.attempt ?? 1,
    failures: row.failures ?? 0,
    crashes: row.crashes ?? 0,
    maxAttempts: row.maxAttempts,
    dedupeKey: row.dedupeKey,
    scheduledAt: iso(row.scheduledAt),
    version: row.version ?? FIRST_VERSION,
    previousHolder: row.previousHolder,
    checkpoint: decode(row.checkpoint),
    maxRunMs: row.maxRunMs,
    postponed: row.postponed ?? 0,
    ...termOf(row),
  }));
}

/** Most outputs are null: one outcome for all of them. */
const COMPLETED: CompleteOutcome = { status: "completed", repeated: false, output: null };

/** Null unless the requests are about different tasks of one namespace. */
export function leanComplete(
  requests: readonly CompleteRequest[],
): LeanStatement<CompleteOutcome> | null {
  const [first] = requests;
  if (!first || first.namespace.includes("\0")) return null;
  const { namespace } = first;
  const ids: string[] = [];
  const leaseIds: string[] = [];
  const tokens: number[] = [];
  const outputs: string[] = [];
  for (const request of requests) {
    const { id } = request;
    if (request.namespace !== namespace || !isTaskId(id)) return null;
    if (!isHex(request.leaseId) || !Number.isSafeInteger(request.token)) return null;
    ids.push(id);
    leaseIds.push(request.leaseId);
    tokens.push(request.token);
    outputs.push(encodeJson(request.output));
  }
  if (new Set(ids).size < ids.length) return null;
  const plain = ids.every((id) => PLAIN.test(id));
  const values: Parameter[] = [
    namespace,
    plain ? arrayOf(ids) : ids,
    arrayOf(leaseIds),
    arrayOf(tokens),
    outputs,
  ];
  return {
    text: COMPLETE_LIVE,
    values,
    outcomes(row) {
      const { completed } = row as unknown as CompletedRow;
      const outcomes = new Array<CompleteOutcome | null>(requests.length).fill(null);
      for (const n of listOf(completed)) {
        const at = Number(n) - 1;
        const output = outputs[at] as string;
        outcomes[at] =
          output === NOTHING
            ? COMPLETED
            : { status: "completed", repeated: false, output: decode(output) };
      }
      return outcomes;
    },
  };
}

/** Ids that need no quotes in an array. The word null does. */
const PLAIN = /^(?!null$)[\w.:-]+$/i;

/** An array as PostgreSQL reads it, of elements that need no quotes. */
function arrayOf(elements: readonly (string | number)[]): string {
  return `{${elements.join(",")}}`;
}
