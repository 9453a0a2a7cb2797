/** Closing and opening: the acts behind the command line and the server's routes. */
import type { By } from "./api-key-acts.js";
import type { Operator } from "./operations.js";
import type { Pause, PauseKey } from "./pauses.js";

/** Repeated, the pause keeps its time and takes the new actor and reason. */
export function setPause(
  operator: Operator,
  key: PauseKey,
  by: By & { readonly reason: string },
): Promise<Pause> {
  const { namespace, kind, name } = key;
  const { actor, reason } = by;
  return operator.perform(
    { ...by, namespace, action: `${kind}.pause`, target: name },
    async ({ pauses }) => {
      const value = await pauses.set({ namespace, kind, name, actor, reason });
      return { value, details: { kind, since: value.since } };
    },
  );
}

/** Whether it was paused. */
export function clearPause(operator: Operator, key: PauseKey, by: By): Promise<boolean> {
  const { namespace, kind, name } = key;
  return operator.perform(
    { ...by, namespace, action: `${kind}.resume`, target: name },
    async ({ pauses }) => {
      const value = await pauses.clear({ namespace, kind, name });
      return { value, details: { kind, wasPaused: value } };
    },
  );
}
