/** Tasks as the rules make them, with a grant or without one. */
import { claimDigestOf } from "../../../packages/leasehold/src/env/index.js";
import type { NewTask } from "../../../packages/leasehold/src/tasks/port.js";
import type { TaskRecord } from "../../../packages/leasehold/src/tasks/record.js";
import * as rules from "../../../packages/leasehold/src/tasks/rules.js";
import { newTaskOf } from "../../../packages/leasehold/src/testing/task-suite/new-task.js";

export const KEY = { namespace: "default", id: "00000000-0000-7000-8000-000000000000" };
export const [CLAIM, OTHER_CLAIM] = ["1".repeat(48), "2".repeat(48)];
const claimBy = (claimId: string, holder: string) => ({
  namespace: KEY.namespace,
  claimId,
  holder,
  queues: ["queue"],
  kinds: null,
  limit: 1,
  ttlMs: 1_000,
});
export const SEQ = 17;
const next = (last: number) => last + 1;

export function pending(change: Partial<NewTask> = {}, nowMs = 0): TaskRecord {
  const { record } = rules.enqueue(null, null, newTaskOf(KEY, change), nowMs, SEQ);
  if (!record) throw new Error("it is new");
  return record;
}
export const claimed = (
  record: TaskRecord,
  nowMs = 0,
  claimId = CLAIM,
  holder = "w1",
  token = next,
) => rules.claim(record, claimBy(claimId, holder), claimDigestOf(claimId), nowMs, token);
export const grantOf = ({ last }: TaskRecord) => ({
  ...KEY,
  leaseId: last?.leaseId ?? "",
  token: last?.token ?? 0,
});
export const running = (change: Partial<NewTask> = {}) => claimed(pending(change)).record;
export const failure = (record: TaskRecord, more: object = {}) => ({
  ...grantOf(record),
  error: "broken",
  retryInMs: null,
  ...more,
});
export const refused = (reason: string) => ({ status: "refused", reason });
