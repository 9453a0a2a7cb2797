// What SPIN explores: the protocol under several bounds, and broken variants of it, which must fail.

/**
 * @typedef {object} Configuration
 * @property {string} name
 * @property {string} what
 * @property {Readonly<Record<string, number | true>>} defines bounds and flags of the model
 * @property {boolean} [isLiveness] checks the LTL formula, not the promises
 * @property {boolean} [isQuick] part of `--quick` and `npm test`
 */

/** @typedef {Configuration & { mistake: string, breaks: string }} Variant `breaks` is the name of a property */

const SMALLEST = { LEASES: 1, FAULTS: 0, COPIES: 1, CRASHES: 0, REVOKES: 0 };

/** @type {readonly Configuration[]} */
export const CONFIGURATIONS = [
  {
    name: "small",
    what: "a fault of the network",
    defines: { ...SMALLEST, FAULTS: 1 },
    isQuick: true,
  },
  {
    name: "revoked",
    what: "a revocation, and faults of the network",
    defines: { ...SMALLEST, FAULTS: 2, REVOKES: 1 },
  },
  {
    name: "again",
    what: "each client acquires twice",
    defines: { ...SMALLEST, LEASES: 2, FAULTS: 1 },
  },
  {
    name: "killed",
    what: "a client is killed",
    defines: { ...SMALLEST, FAULTS: 1, REVOKES: 1, CRASHES: 1 },
  },
  {
    name: "slow-clock",
    what: "the clock of a client runs slow",
    defines: { ...SMALLEST, FAULTS: 1, SLOW_CLOCK: true },
  },
  {
    name: "sessions",
    what: "an engine ends grants with the sessions of their clients",
    defines: { ...SMALLEST, FAULTS: 1, REVOKES: 1, SESSIONS: true },
  },
  {
    name: "queue",
    what: "three clients",
    defines: { ...SMALLEST, CLIENTS: 3, TTL: 2 },
  },
  {
    name: "at-last",
    what: "the property that holds at last, with a killed client",
    defines: { ...SMALLEST, TTL: 2, FAULTS: 1, CRASHES: 1, LIVENESS: true },
    isLiveness: true,
  },
];

/** @type {readonly Variant[]} */
export const VARIANTS = [
  {
    name: "NO_FENCE",
    what: "a paused holder",
    mistake: "The protected resource takes every write.",
    defines: { ...SMALLEST, NO_FENCE: true },
    breaks: "LATE_WRITE_REFUSED",
    isQuick: true,
  },
  {
    name: "TRUST_FROM_ANSWER",
    what: "a slow answer",
    mistake: "The holder counts its trust from the answer, not from when it sent the request.",
    defines: { ...SMALLEST, TRUST_FROM_ANSWER: true },
    breaks: "TRUST_ENDS_FIRST",
    isQuick: true,
  },
  {
    name: "TOKEN_BEFORE_LOCK",
    what: "two requests at a time",
    mistake: "The store computes the token before the step that makes the grant.",
    defines: { ...SMALLEST, TOKEN_BEFORE_LOCK: true },
    breaks: "TOKENS_GROW",
    isQuick: true,
  },
];
