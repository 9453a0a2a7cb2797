// A server without what protects its tenants from each other. The server itself has no such switch: this takes the four
// mechanisms of docs/decisions/0038 out of the code that is loaded.
const load = async (/** @type {string} */ path) =>
  import(new URL(`../../packages/leasehold-server/dist/http/${path}.js`, import.meta.url).href);

const { Admission } = await load("limits/admission");
const { TenantAdmission } = await load("limits/tenant-admission");
const { Slots } = await load("limits/slots");
const { RequestTurns } = await load("limits/request-turns");
const { Bucket, Buckets } = await load("limits/buckets");
const { LeaseWaiters } = await load("quotas/lease-waiters");
const { Ttls } = await load("quotas/ttls");

const ignored = () => {};
const atOnce = async () => {};

/** Larger than any attack. */
const MANY = 1_000_000;
const MIB = 1_048_576;

/** Limits for `createApp`. */
export const UNPROTECTED_LIMITS = { bodyBytes: 4 * MIB, waiters: MANY, streams: MANY };

/** Options for `listen`. */
export const UNPROTECTED_CONNECTIONS = { maxConnections: MANY, maxConnectionsPerAddress: MANY };

/**
 * Replaces a method, which there must be: otherwise the protection would stay.
 * @param {object} prototype
 * @param {string} name
 * @param {unknown} by
 */
function replace(prototype, name, by) {
  if (typeof prototype[name] !== "function") throw new Error(`there is no ${name} to take out`);
  prototype[name] = by;
}

/** Has an effect on all servers of this process. */
export function takeProtectionOut() {
  Object.defineProperty(Admission.prototype, "isFull", { get: () => false });
  replace(Admission.prototype, "enter", () => ignored);
  const admitted = { arrive: atOnce, begin: atOnce, measured: (work) => work(), leave: ignored };
  replace(TenantAdmission.prototype, "enter", async () => admitted);
  replace(TenantAdmission.prototype, "delayRefusal", atOnce);
  replace(Slots.prototype, "begin", async (call) => ({ answer: call() }));
  replace(Slots.prototype, "run", (call) => call());
  replace(RequestTurns.prototype, "small", ignored);
  replace(RequestTurns.prototype, "large", atOnce);
  replace(Buckets.prototype, "take", () => 0);
  replace(Bucket.prototype, "take", () => 0);
  replace(Ttls.prototype, "check", ignored);
  replace(LeaseWaiters.prototype, "check", ignored);
}
