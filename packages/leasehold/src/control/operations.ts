/**
 * Operator actions: none without its entry in the audit.
 *
 *   one database   BEGIN ─ act ─ entry (done) ─ COMMIT           both or neither
 *   others         entry (intent) ─ act ─ entry (result)         died in between: an intent alone
 *                  └─ cannot be written: nothing is done
 */

import { type Env, reasonOf } from "../env/index.js";
import {
  ACTOR_RETRIES,
  type LeaseStore,
  OPERATOR_RETRIES,
  Retrying,
  UNLESS_APPLIED,
  withRetries,
} from "../lease/index.js";
import type { OnceStore } from "../once/port.js";
import type { TaskLimits, TaskStore } from "../tasks/port.js";
import type { ScheduleStore } from "../tasks/schedules/port.js";
import type { ApiKeyActs, ApiKeyStore } from "./api-keys.js";
import type { AuditEntry, AuditLog, ChainEnd, NewAuditEntry, Verification } from "./audit.js";
import type { Backing } from "./backing.js";
import type { PauseActs, PauseStore } from "./pauses.js";
import type { TenantLimitActs, TenantLimitStore } from "./tenant-limits.js";

/** An operator action: who does what to what, and why. */
export interface Act extends Omit<NewAuditEntry, "phase" | "details"> {
  /** An {@link AuditAction}, or one that the program names. */
  readonly action: string;
  /** The actor that the caller of a server names. Nothing proves it, so `actor` stays what the key says. */
  readonly claimedActor?: string;
}

/** The entry of an action. A claimed actor is part of its details, so the entry's hash covers it. */
export function entryOf(
  { claimedActor, ...act }: Act,
  phase: NewAuditEntry["phase"],
  details: object,
): NewAuditEntry {
  const claimed = claimedActor === undefined ? {} : { claimedActor };
  return { ...act, phase, details: JSON.stringify({ ...details, ...claimed }) };
}

/** What an operator may do to tasks. */
export type TaskActs = Pick<TaskStore, "cancel" | "retry" | "delete">;

/** The changes that an operator action may make. */
export interface Actors {
  readonly leases: Pick<LeaseStore, "revoke">;
  readonly tasks: TaskActs;
  readonly once: Pick<OnceStore, "retry" | "delete">;
  readonly schedules: Pick<ScheduleStore, "pause" | "resume" | "remove" | "runNow">;
  readonly taskLimits: Pick<TaskLimits, "declare" | "remove">;
  readonly backing: Backing;
  readonly keys: ApiKeyActs;
  readonly pauses: PauseActs;
  readonly limits: TenantLimitActs;
}

/** What the work of an operator action returns. */
export interface Performed<T> {
  readonly value: T;
  /** The result, for the entry: any JSON without a secret. */
  readonly details: object;
}

/** Performs operator actions, each with its entry in the audit. */
export interface Operations {
  /**
   * Calls `work` and writes the entry. Rejects with the error of `work`. Refused actions (`notHeld`) have
   * an entry too. If one database keeps both, an outcome `failed` rolls back and rejects with its error.
   * `work` may be called again, so it must only call its actors. It must not call the stores: in PGlite
   * they would wait for this very transaction.
   * @param onEntry receives the first entry of the action; if `work` is called again, that of the last call
   */
  perform<T>(
    act: Act,
    work: (actors: Actors) => Promise<Performed<T>>,
    onEntry?: (entry: AuditEntry) => void,
  ): Promise<T>;
}

/** The changes that an operator without the role admin may make. */
export type OperatorActors = Pick<
  Actors,
  "leases" | "tasks" | "once" | "schedules" | "taskLimits" | "backing" | "pauses"
>;

/** The part of {@link Control} that an operator's tools need, local or behind a server. */
export interface Operator {
  readonly pauses: PauseStore;
  /** As {@link Operations}. Behind a server, which knows the actor, each call of an actor is an action of its own. */
  perform<T>(act: Act, work: (actors: OperatorActors) => Promise<Performed<T>>): Promise<T>;
}

/** The tools of an operator behind a server. */
export interface RemoteOperator extends Operator {
  readonly audit: Pick<AuditLog, "list"> & {
    /** As `verifyAudit`; the server reads the chain. */
    verify(exported: ChainEnd, from?: "start" | "export"): Promise<Verification>;
  };
  readonly keys: Pick<ApiKeyStore, "list">;
  readonly limits: TenantLimitStore;
}

/** The stores of operators: audit, keys, pauses and limits. */
export interface Control extends Operations {
  readonly audit: AuditLog;
  readonly keys: ApiKeyStore;
  readonly pauses: PauseStore;
  readonly limits: TenantLimitStore;
  /** Whether another store keeps the leases. Servers must then enforce pauses of resources. */
  readonly leasesApart: boolean;
  /** Makes each change without an entry. For {@link inTwoSteps} only. */
  readonly actors: Actors;
}

/**
 * Adapts a control store that does not keep the leases. Actions on leases (`lease.…`) take two steps, all
 * others stay atomic. Servers must then enforce pauses of resources, as they do for prefixes.
 */
export function withLeasesApart(control: Control, leases: Actors["leases"]): Control {
  const apart = inTwoSteps(control.audit, { ...control.actors, leases });
  return {
    ...control,
    leasesApart: true,
    perform: (act, work, onEntry) =>
      act.action.startsWith("lease.")
        ? apart.perform(act, work, onEntry)
        : control.perform(act, (actors) => work({ ...actors, leases }), onEntry),
  };
}

/** For stores that cannot commit the action and its entry together. */
export function inTwoSteps(audit: AuditLog, actors: Actors): Operations {
  const enter = (act: Act, phase: NewAuditEntry["phase"], details: object) =>
    audit.append([entryOf(act, phase, details)]);
  return {
    async perform(act, work, onEntry) {
      const [intent] = await enter(act, "intent", {});
      if (intent) onEntry?.(intent);
      // The action stays done even if its result cannot be written; the intent is its record.
      const result = (details: object) =>
        enter(act, "result", { intent: intent?.seq, ...details }).catch(() => {});
      try {
        const { value, details } = await work(actors);
        await result(details);
        return value;
      } catch (error) {
        await result({ failure: reasonOf(error) });
        throw error;
      }
    },
  };
}

/** The operator, with what it reads and each call of an actor tried again, never the act as a whole. */
export function retryingOperator(operator: RemoteOperator, env: Env): RemoteOperator {
  const retrying = new Retrying(env);
  return {
    ...withRetries(operator, OPERATOR_RETRIES, retrying),
    perform: (act, work) =>
      operator.perform(act, (actors) => work(withRetries(actors, ACTOR_RETRIES, retrying))),
  };
}

/** An operator's tools in a database, which takes an action as a whole: it is tried again unless it may have been applied. */
export function retryingControl(control: Control, env: Env): Control {
  const retrying = new Retrying(env);
  return {
    ...control,
    perform: (act, work, onEntry) =>
      retrying.call(() => control.perform(act, work, onEntry), UNLESS_APPLIED),
  };
}
