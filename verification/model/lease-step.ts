/** A step of a program of leases. */
import type { FaultStep } from "./faults.js";

export type LeaseStep =
  | {
      readonly do: "acquire" | "tryAcquire";
      readonly client: number;
      readonly resource: number;
      readonly ttlMs: number;
      /** null: without end. */
      readonly waitMs: number | null;
      readonly autoRenew: boolean;
    }
  | { readonly do: "renew"; readonly lease: number; readonly ttlMs: number | null }
  | { readonly do: "release" | "write"; readonly lease: number }
  | {
      readonly do: "revoke";
      readonly client: number;
      readonly resource: number;
      readonly free: "now" | "atExpiry";
      readonly expect: "none" | "last" | "wrong";
    }
  | { readonly do: "get"; readonly client: number; readonly resource: number }
  | { readonly do: "abort"; readonly call: number }
  | { readonly do: "close"; readonly client: number }
  | FaultStep<"acquire" | "renew" | "release" | "revoke" | "get">
  | { readonly do: "pass"; readonly ms: number };
