/** A step of a program of elections. */
import type { FaultStep } from "./faults.js";

export type ElectionStep =
  | {
      readonly do: "campaign";
      readonly client: number;
      /** How long the work takes to stop when its signal aborts. */
      readonly stoppingMs: number;
    }
  | { readonly do: "leave" | "runIfLeader" | "close"; readonly client: number }
  | { readonly do: "end"; readonly client: number; readonly how: "return" | "throw" }
  | {
      readonly do: "resign";
      readonly client: number;
      /** The other candidate, or none in particular. */
      readonly successor: boolean;
    }
  | { readonly do: "revoke"; readonly client: number; readonly free: "now" | "atExpiry" }
  | FaultStep<"acquire" | "renew" | "release" | "get">
  | { readonly do: "pass"; readonly ms: number };
