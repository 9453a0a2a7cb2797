/** A step of a program of tasks. */
import type { FaultStep } from "./faults.js";

export type TaskStep =
  | {
      readonly do: "enqueue";
      readonly client: number;
      readonly kind: number;
      readonly priority: number;
      readonly dedupe: string | null;
      /** null: due at once. */
      readonly inMs: number | null;
      readonly maxAttempts: number;
      readonly crashLimit: number;
      readonly maxRunMs: number | null;
      readonly startByMs: number | null;
      /** The id of an earlier task, counted from the latest; null: a new one. */
      readonly again: number | null;
      /** Whether its handler ignores its signal. */
      readonly isStubborn: boolean;
    }
  | {
      readonly do: "work";
      readonly client: number;
      readonly concurrency: number;
      readonly ttlMs: number;
      readonly kinds: number;
    }
  | { readonly do: "stop" | "counts" | "close"; readonly client: number }
  | {
      readonly do: "end";
      readonly job: number;
      readonly how: "complete" | "fail" | "final" | "later";
    }
  | { readonly do: "progress"; readonly job: number }
  | { readonly do: "cancel" | "retry" | "get"; readonly client: number; readonly task: number }
  | FaultStep<"enqueue" | "claim" | "heartbeat" | "complete" | "fail" | "requeue" | "cancel">
  | { readonly do: "pass"; readonly ms: number };
