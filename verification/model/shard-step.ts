/** A step of a program of shards. */
import type { Loss } from "./loss.js";

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
  | { readonly do: "pause"; readonly client: number; readonly ms: number }
  | {
      readonly do: "lose";
      readonly client: number;
      readonly message: Loss;
      readonly of: "acquire" | "renew" | "release" | "get";
      readonly times: number;
    }
  | { readonly do: "pass"; readonly ms: number };
