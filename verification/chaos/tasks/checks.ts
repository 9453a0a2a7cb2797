/** What must be true when the chaos is over. Each check answers what is wrong; nothing, if all is well. */
import type { TaskDetails } from "leasehold/internal/wire";
import type { LogLine } from "./processes.js";
import type { Saying } from "./proxy.js";
import type { Recorder } from "./recorder.js";

/** Each accepted task is done, by one attempt, whose output is stored; tokens grow. */
export function checkTask(task: TaskDetails): string[] {
  const wrong: string[] = [];
  const { id, state, attempts, task_output } = task;
  const complain = (what: string) => wrong.push(`task ${id}: ${what}`);
  if (state !== "done") complain(`is ${state}`);
  const done = attempts.filter(({ result }) => result === "done");
  if (done.length !== 1) complain(`has ${done.length} attempts that completed it`);
  for (const [index, { attempt, fencingToken, result }] of attempts.entries()) {
    const before = attempts[index - 1];
    if (attempt !== index + 1) complain(`its ${index + 1}. attempt says ${attempt}`);
    if (before && fencingToken <= before.fencingToken) complain("its tokens do not grow");
    if (result !== "done" && result !== "expired" && result !== "returned") {
      complain(`attempt ${attempt} ended as ${result}`);
    }
  }
  const last = attempts.at(-1);
  if (last !== done[0]) complain("was claimed after it was done");
  const output = task_output as { token?: number; holder?: string } | null;
  if (output?.token !== last?.fencingToken || output?.holder !== last?.processor) {
    complain(`its output ${JSON.stringify(output)} is not of ${JSON.stringify(last)}`);
  }
  return wrong;
}

/** The completion was accepted once, of the attempt that says so; all else was refused. */
export function checkSayings(task: TaskDetails, all: readonly Saying[]): string[] {
  const wrong: string[] = [];
  const complain = (what: string) => wrong.push(`task ${task.id}: ${what}`);
  const sayings = all.filter(({ id }) => id === task.id);
  const completions = sayings.filter(({ operation }) => operation === "complete");
  const accepted = completions.filter(({ outcome }) => outcome === "accepted");
  if (accepted.length > 1) complain(`was completed ${accepted.length} times`);
  const own = completions.filter(({ token }) => token === task.fencingToken);
  // A server that was killed between the act and the answer has acted nevertheless.
  const unknown = own.some(({ outcome }) => outcome === "unknown");
  if (accepted.length === 0 && !unknown) complain("is done, but no completion was accepted");
  for (const saying of sayings) {
    const { operation, token, outcome } = saying;
    const done = outcome === "accepted" || outcome === "repeated";
    const late = operation === "complete" && done && token !== task.fencingToken;
    // Handlers of the chaos do not fail.
    const failed = operation === "fail" && done;
    if (late || failed || outcome === "invalid") complain(`answered: ${JSON.stringify(saying)}`);
  }
  return wrong;
}

/**
 * Each refusal is in the log of a server, with its reason, as often as clients received it. The log may
 * omit a heartbeat that arrived after its own holder's report.
 */
export function checkLogs(sayings: readonly Saying[], log: readonly LogLine[]): string[] {
  const grantOf = ({ id, token }: Pick<Saying, "id" | "token">) => `${id}:${token}`;
  const keyOf = ({ id, operation, token, reason }: Partial<Saying>) =>
    [operation, id, token, reason].join();
  const reports = sayings.filter(({ operation }) => operation !== "heartbeat");
  const reported = new Set(
    reports.filter(({ outcome }) => outcome !== "refused" && outcome !== "failed").map(grantOf),
  );
  const logged = new Map<string, number>();
  for (const { fencingToken: token, ...line } of log) {
    if (line.event !== "task_refused" || token === undefined) continue;
    const key = keyOf({ ...line, token });
    logged.set(key, (logged.get(key) ?? 0) + 1);
  }
  const missing: string[] = [];
  for (const saying of sayings.filter(({ outcome }) => outcome === "refused")) {
    if (saying.operation === "heartbeat" && reported.has(grantOf(saying))) continue;
    const key = keyOf(saying);
    const left = logged.get(key) ?? 0;
    if (left === 0) missing.push(`not in the log: ${JSON.stringify(saying)}`);
    logged.set(key, left - 1);
  }
  return missing;
}

/** What the fence keeps is what the completed attempt wrote, all of it. */
export function checkRegisters(tasks: readonly TaskDetails[], recorder: Recorder): string[] {
  const wrong = recorder.breaches.map((write) => `trusted, and late: ${JSON.stringify(write)}`);
  for (const { id, fencingToken, task_data } of tasks) {
    const { accepted = [] } = recorder.registers.get(id) ?? {};
    const last = accepted.at(-1)?.token ?? 0;
    if (last !== fencingToken) wrong.push(`task ${id}: written last with ${last}`);
    const steps = accepted.filter(({ token }) => token === fencingToken).map(({ step }) => step);
    const wanted = (task_data as { steps: unknown[] }).steps.map((_, step) => step);
    // A step whose answer was lost is written again.
    if ([...new Set(steps)].join() !== wanted.join()) {
      wrong.push(`task ${id}: the completed attempt wrote the steps ${steps.join()}`);
    }
  }
  return wrong;
}
