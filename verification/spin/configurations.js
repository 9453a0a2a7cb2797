// What SPIN explores: the protocol under several bounds, and broken variants of it, which must fail.

/**
 * @typedef {object} Configuration
 * @property {string} name
 * @property {string} what
 * @property {Readonly<Record<string, number | true>>} defines bounds and flags of the model
 * @property {boolean} [isLiveness] checks the LTL formula, not the properties of single steps
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
    name: "queue",
    what: "three clients, and a fault",
    defines: { ...SMALLEST, CLIENTS: 3, TTL: 2, FAULTS: 1 },
  },
  {
    name: "again",
    what: "each client acquires twice, with a fault and a revocation",
    defines: { ...SMALLEST, LEASES: 2, TTL: 2, FAULTS: 1, REVOKES: 1 },
  },
  {
    name: "revoked",
    what: "a revocation, and faults of the network",
    defines: { ...SMALLEST, FAULTS: 2, REVOKES: 1 },
  },
  {
    name: "late",
    what: "two late requests at a time",
    defines: { ...SMALLEST, FAULTS: 2, COPIES: 2 },
  },
  {
    name: "long",
    what: "longer grants",
    defines: { ...SMALLEST, TTL: 4, FAULTS: 1, REVOKES: 1 },
  },
  {
    name: "killed",
    what: "a client is killed",
    defines: { ...SMALLEST, FAULTS: 1, REVOKES: 1, CRASHES: 1 },
  },
  {
    name: "slow-clock",
    what: "the clock of a client runs slow",
    defines: { ...SMALLEST, FAULTS: 1, REVOKES: 1, SLOW_CLOCK: true },
  },
  {
    name: "sessions",
    what: "an engine ends grants with the sessions of their clients",
    defines: { ...SMALLEST, FAULTS: 1, REVOKES: 1, SESSIONS: true },
  },
  {
    name: "loads",
    what: "a store loads the record, and saves what it has decided later",
    defines: { ...SMALLEST, REVOKES: 1, LOADS: true },
  },
  {
    name: "at-last",
    what: "what holds at last: with a killed client, and a fault",
    defines: { ...SMALLEST, TTL: 2, FAULTS: 1, CRASHES: 1, LIVENESS: true },
    isLiveness: true,
  },
  {
    name: "at-last-again",
    what: "the same, if each client acquires twice",
    defines: { ...SMALLEST, LEASES: 2, TTL: 2, CRASHES: 1, LIVENESS: true },
    isLiveness: true,
  },
  {
    name: "at-last-queue",
    what: "the same, with three clients",
    defines: { ...SMALLEST, CLIENTS: 3, TTL: 2, CRASHES: 1, LIVENESS: true },
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
  {
    name: "NEW_TOKEN_FOR_A_REPETITION",
    what: "a lost answer",
    mistake: "A repeated acquire draws a new token for its grant.",
    defines: { ...SMALLEST, FAULTS: 1, NEW_TOKEN_FOR_A_REPETITION: true },
    breaks: "SAME_GRANT",
  },
  {
    name: "RENEWAL_REVIVES",
    what: "a late renewal",
    mistake:
      "The store renews a grant that has expired, as long as no other client has the resource.",
    defines: { ...SMALLEST, RENEWAL_REVIVES: true },
    breaks: "ENDED_FOR_GOOD",
  },
  {
    name: "TRUST_OUTLIVES_THE_RELEASE",
    what: "a release",
    mistake: "The holder trusts its lease until the store has answered the release.",
    defines: { ...SMALLEST, TRUST_OUTLIVES_THE_RELEASE: true },
    breaks: "TRUST_ENDS_FIRST",
  },
  {
    name: "FREE_WHEN_REVOKED",
    what: "a revocation",
    mistake: "A grant that is revoked at its expiry is free at once.",
    defines: { ...SMALLEST, REVOKES: 1, FREE_WHEN_REVOKED: true },
    breaks: "TRUST_ENDS_FIRST",
  },
  {
    name: "DRIFT_FORGOTTEN",
    what: "a slow clock",
    mistake: "The holder trusts its lease for the whole TTL, by a clock that may run slow.",
    defines: { ...SMALLEST, SLOW_CLOCK: true, EPSILON: 0 },
    breaks: "TRUST_ENDS_FIRST",
  },
  {
    name: "TRUST_OUTLIVES_THE_SESSION",
    what: "a session that is shorter than the TTL",
    mistake:
      "The holder trusts its lease for longer than its session lasts without a sign of life.",
    defines: { ...SMALLEST, SESSIONS: true, SESSION: 1 },
    breaks: "TRUST_ENDS_FIRST",
  },
  {
    name: "NEWCOMER_OVERTAKES",
    what: "a waiter, and a client that comes later",
    mistake: "A free resource goes to the first client that asks.",
    defines: { ...SMALLEST, LEASES: 2, NEWCOMER_OVERTAKES: true },
    breaks: "IN_ORDER",
  },
  {
    name: "SAVE_WITHOUT_VERSION",
    what: "two requests that have loaded the same record",
    mistake: "The store saves a change although the record is another one than it has loaded.",
    defines: { ...SMALLEST, LOADS: true, SAVE_WITHOUT_VERSION: true },
    breaks: "TRUST_ENDS_FIRST",
  },
  {
    name: "SAVE_WITHOUT_EXPIRY",
    what: "a pause between load and save",
    mistake: "The store saves a renewal although its grant has expired since the load.",
    defines: { ...SMALLEST, LOADS: true, SAVE_WITHOUT_EXPIRY: true },
    breaks: "ENDED_FOR_GOOD",
  },
  {
    name: "JOIN_INSIDE_THE_VERSION",
    what: "a waiter that joins while the holder renews",
    mistake: "A waiter that joins changes the version of the record.",
    defines: { ...SMALLEST, LOADS: true, JOIN_INSIDE_THE_VERSION: true },
    breaks: "ONLY_WRITES_CONFLICT",
  },
  {
    name: "JOIN_AND_WAIT",
    what: "a release between the load and the join",
    mistake:
      "A waiter joins although the lease was released since the load, so the release has woken no one.",
    defines: { ...SMALLEST, LOADS: true, JOIN_AND_WAIT: true },
    breaks: "JOINS_WHILE_HELD",
  },
  {
    name: "NO_EXPIRY",
    what: "a killed holder",
    mistake: "A grant lasts until its release.",
    defines: { ...SMALLEST, TTL: 2, CRASHES: 1, LIVENESS: true, NO_EXPIRY: true },
    breaks: "GRANTED_AT_LAST",
    isLiveness: true,
  },
  {
    name: "DEAD_WAITER_BLOCKS",
    what: "a killed waiter",
    mistake: "A free resource waits for the head of the queue, however long that takes.",
    defines: {
      ...SMALLEST,
      TTL: 2,
      LEASES: 2,
      CRASHES: 1,
      LIVENESS: true,
      DEAD_WAITER_BLOCKS: true,
    },
    breaks: "GRANTED_AT_LAST",
    isLiveness: true,
  },
];
