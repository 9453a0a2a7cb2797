/** A step of a program of shards. */
import type { FaultStep } from "./faults.js";

export type ShardStep =
  | {
      readonly do: "join";
      readonly client: number;
      /** How long the work on a shard takes to stop when its signal aborts. */
      readonly stoppingMs: number;
    }
  | { readonly do: "leave" | "owners"; readonly client: number }
  | { readonly do: "end"; readonly client: number; readonly how: "return" | "throw" }
  | {
      readonly do: "revoke";
      readonly client: number;
      readonly lease: "coordinator" | "member" | "shard";
      readonly free: "now" | "atExpiry";
    }
  | FaultStep<"acquire" | "renew" | "release" | "get">
  | { readonly do: "pass"; readonly ms: number };
