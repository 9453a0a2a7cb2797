/**
 * Acts of operators: none without its entry in the audit.
 *
 *   one database   BEGIN ─ act ─ entry (done) ─ COMMIT           both or neither
 *   others         entry (intent) ─ act ─ entry (result)         died in between: an intent alone
 *                  └─ cannot be written: nothing is done
 */
import type { LeaseStore } from "../core/index.js";
import type { AdminOutcome, GeneratorState, TaskKey, TaskStore } from "../tasks/port.js";
import type { AuditEntry, AuditLog, NewAuditEntry } from "./audit.js";
import type { KeyActs, KeyStore } from "./keys.js";
import type { LimitActs, LimitStore } from "./limits.js";
import type { PauseActs, PauseStore } from "./pauses.js";

/** Who does what to what, and why. */
export type Act = Omit<NewAuditEntry, "phase" | "details">;

export interface TaskActs extends Pick<TaskStore, "cancel" | "retry"> {
  /** Forgets tasks that have ended (done, dead, cancelled), with their attempts; `ok` tells the last state. */
  delete(tasks: readonly TaskKey[]): Promise<AdminOutcome[]>;
}

/** What can be done in an act. */
export interface Actors {
  readonly leases: Pick<LeaseStore, "revoke">;
  readonly tasks: TaskActs;
  readonly generator: Pick<GeneratorState, "write">;
  readonly keys: KeyActs;
  readonly pauses: PauseActs;
  readonly limits: LimitActs;
}

export interface Performed<T> {
  readonly value: T;
  /** What came of it, for the entry: anything that JSON can say, without a secret. */
  readonly details: object;
}

export interface Operations {
  /**
   * Does `work` and enters the act. Rejects with what `work` throws. What was refused (`notHeld`) is
   * entered too. Where one database keeps both, an outcome `failed` undoes all of it and rejects with
   * its error, and `work` may be called again: it must do nothing but ask its actors, not the stores,
   * which in PGlite would wait for this very transaction.
   * @param told given the first entry of the act; where `work` is called again, of the last time
   */
  perform<T>(
    act: Act,
    work: (actors: Actors) => Promise<Performed<T>>,
    told?: (entry: AuditEntry) => void,
  ): Promise<T>;
}

/** What operators who are no admins can do in an act. */
export type OperatorActors = Pick<Actors, "leases" | "tasks" | "generator" | "pauses">;

/** What an operator's tools need, wherever the stores are: every {@link Control} is one. */
export interface Operator {
  readonly pauses: PauseStore;
  /** As {@link Operations}; behind a server, which knows the actor, each call of an actor is an act. */
  perform<T>(act: Act, work: (actors: OperatorActors) => Promise<Performed<T>>): Promise<T>;
}

/** What operators keep. */
export interface Control extends Operations {
  readonly audit: AuditLog;
  readonly keys: KeyStore;
  readonly pauses: PauseStore;
  readonly limits: LimitStore;
  /** Whether leases are kept elsewhere: pauses of resources are then for the servers to enforce. */
  readonly leasesApart: boolean;
  /** Each change on its own, without an entry: for {@link inTwoSteps}, and for nobody else. */
  readonly actors: Actors;
}

/**
 * Of a control store that does not keep the leases: acts on them (`lease.…`) take two steps, all
 * others stay one. Pauses of resources are then for the servers to enforce, as those of prefixes.
 */
export function withLeasesApart(control: Control, leases: Actors["leases"]): Control {
  const apart = inTwoSteps(control.audit, { ...control.actors, leases });
  return {
    ...control,
    leasesApart: true,
    perform: (act, work, told) =>
      act.action.startsWith("lease.")
        ? apart.perform(act, work, told)
        : control.perform(act, (actors) => work({ ...actors, leases }), told),
  };
}

/** For stores that cannot commit the act and its entry together. */
export function inTwoSteps(audit: AuditLog, actors: Actors): Operations {
  const enter = (act: Act, phase: NewAuditEntry["phase"], details: object) =>
    audit.append([{ ...act, phase, details: JSON.stringify(details) }]);
  return {
    async perform(act, work, told) {
      const [intent] = await enter(act, "intent", {});
      if (intent) told?.(intent);
      // What was done stays done when its result cannot be entered: the intent stands.
      const result = (details: object) =>
        enter(act, "result", { intent: intent?.seq, ...details }).catch(() => {});
      try {
        const { value, details } = await work(actors);
        await result(details);
        return value;
      } catch (error) {
        await result({ failure: error instanceof Error ? error.message : String(error) });
        throw error;
      }
    },
  };
}
