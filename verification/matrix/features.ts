/** What is tried in the matrix, and what strikes it. */
export const FEATURES = [
  "lease",
  "elector",
  "singleton",
  "shards",
  "waiting",
  "acquireAll",
  "guard",
] as const;
export type Feature = (typeof FEATURES)[number];

/**
 * kill: SIGKILL of the process of the holder. stop: SIGSTOP of it, past its ttl, and SIGCONT. restart: SIGKILL
 * of the store while a lease is held, and its start with the same data.
 */
export const FAULTS = ["kill", "stop", "restart"] as const;
export type Fault = (typeof FAULTS)[number];
