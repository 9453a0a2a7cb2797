/** What the tests of limits share. */
import type { LimitKey, LimitView, TaskLimit, TaskLimits } from "../../tasks/port.js";
import type { Fixture, Need } from "./fixture.js";
import type { TaskChange } from "./new-task.js";

export const HOUR_MS = 3_600_000;

export const ids = (tasks: readonly { id: string }[]) => tasks.map(({ id }) => id);
export const many = (count: number, task: TaskChange = {}) =>
  Array.from({ length: count }, () => task);

export const needsLimits: Need = ({ store }) => (store.limits ? null : "the store keeps no limits");

export function limitsOf({ store }: Fixture): TaskLimits {
  if (!store.limits) throw new Error("the store keeps limits");
  return store.limits;
}

interface Declared extends Partial<TaskLimit>, Partial<LimitKey> {
  readonly by?: string;
}
/** Of the kind `kind` in the test's namespace, unless it says otherwise. */
export async function declare(fixture: Fixture, declared: Declared): Promise<string> {
  const { scope = "kind", name = "kind", namespace = fixture.namespace } = declared;
  const { running = null, rate = null, by = "a test" } = declared;
  const limit = { running, rate };
  const outcome = await limitsOf(fixture).declare({ namespace, scope, name, limit, by });
  if (outcome.status === "failed") throw outcome.error;
  return outcome.status === "full" ? "full" : outcome.change;
}

/** The limit of that place; by default of the kind `kind`, too. */
export async function view(fixture: Fixture, place: Partial<LimitKey> = {}): Promise<LimitView> {
  const { scope = "kind", name = "kind", namespace = fixture.namespace } = place;
  const all = await limitsOf(fixture).list(namespace);
  const found = all.find((one) => one.scope === scope && one.name === name);
  if (!found) throw new Error("the limit is declared");
  return found;
}
