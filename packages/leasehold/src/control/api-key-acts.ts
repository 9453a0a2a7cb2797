/** Creates, rotates and revokes keys: the operator actions of the command line and the server's routes. */

import { formatDuration, type Random } from "../env/index.js";
import { checkName, InvalidOptionError } from "../lease/index.js";
import {
  type ApiKey,
  ApiKeyRotatedError,
  type NewApiKey,
  newApiKeyText,
  type RotateOutcome,
  TooManyApiKeysError,
} from "./api-keys.js";
import type { Act, Control } from "./operations.js";

/** The most prefixes of one key: each request is compared with all of them. */
const MOST_PREFIXES = 100;

/** Who asks for it, and why. */
export type By = Pick<Act, "actor" | "reason" | "claimedActor">;
/** What a key shall be. */
export interface ApiKeyOrder
  extends Pick<NewApiKey, "namespace" | "name" | "role" | "prefixes" | "lifetimeMs"> {
  /** Default: none. */
  readonly queues?: readonly string[] | undefined;
  /** The longest lifetime; undefined: any, and none at all. */
  readonly maxLifeMs?: number | undefined;
}

export interface ApiKeyToRotate extends Pick<ApiKeyOrder, "namespace" | "maxLifeMs"> {
  readonly id: string;
  /** How long the old key stays valid; 0: it ends now. */
  readonly overlapMs: number;
}

export interface MadeApiKey {
  readonly key: ApiKey;
  /** Show it once: the store keeps only its digest. */
  readonly text: string;
}

/**
 * @throws INVALID_OPTION for a name that is none, or a holder without prefixes
 * @throws TooManyApiKeysError
 */
export async function createApiKey(
  control: Control,
  random: Random,
  order: ApiKeyOrder,
  by: By,
): Promise<MadeApiKey> {
  checkOrder(order);
  const { id, text, digest } = newApiKeyText(random);
  const { namespace, name, role, lifetimeMs } = order;
  const isLimited = role === "holder" || role === "operator";
  const prefixes = isLimited ? [...new Set(order.prefixes)] : [];
  const queues = role === "operator" ? [...new Set(order.queues)] : [];
  const wanted = { namespace, name, role, lifetimeMs };
  const key = await control.perform(
    { ...by, namespace, action: "key.create", target: id },
    async ({ keys }) => {
      const value = await keys.add({ ...wanted, id, digest, prefixes, queues });
      const came = value ? { expiresAt: value.expiresAt } : { refused: "full" };
      const limited = { prefixes, ...(queues.length > 0 && { queues }) };
      return { value, details: { name, role, ...limited, ...came } };
    },
  );
  if (!key) throw new TooManyApiKeysError();
  return { key, text };
}

/**
 * Adds a key with the same rights and lifetime. The old key ends after the overlap, so that its users can
 * change to the new one.
 *
 *   rotate ─┬─ good ──▶ successor added, old one ends after the overlap
 *           ├─ rotated before ──▶ nothing: a second successor would get the rest of the overlap as its lifetime
 *           └─ revoked or expired, also a moment ago ──▶ nothing: a revocation that comes first stands
 *
 * @returns null when the namespace has no such key, or it has ended without a successor
 * @throws TooManyApiKeysError
 * @throws ApiKeyRotatedError if it was rotated before, also once the overlap is over
 * @throws INVALID_OPTION if the key lives longer than keys may, as its successor would
 */
export async function rotateApiKey(
  control: Control,
  random: Random,
  { namespace, id: oldId, overlapMs, maxLifeMs }: ApiKeyToRotate,
  by: By,
): Promise<(MadeApiKey & { readonly old: ApiKey }) | null> {
  if (maxLifeMs !== undefined) {
    const old = await control.keys.find(oldId);
    if (old?.namespace === namespace) checkLife(lifetimeOf(old), maxLifeMs);
  }
  const { id, text, digest } = newApiKeyText(random);
  const rotation = { namespace, id: oldId, overlapMs, successor: { id, digest } };
  const outcome = await control.perform(
    { ...by, namespace, action: "key.rotate", target: oldId },
    async ({ keys }) => {
      const value = await keys.rotate(rotation);
      return { value, details: detailsOf(value) };
    },
  );
  if (outcome.status === "full") throw new TooManyApiKeysError();
  if (outcome.status === "rotatedBefore") throw new ApiKeyRotatedError(oldId, outcome.successor);
  return outcome.status === "notGood" ? null : { key: outcome.key, text, old: outcome.old };
}

function detailsOf(outcome: RotateOutcome): object {
  if (outcome.status !== "rotated") return { refused: outcome.status };
  const { key, old } = outcome;
  return { successor: key.id, expiresAt: key.expiresAt, oldExpiresAt: old.expiresAt };
}

/** Ends a key now. Null when the namespace has none of this id; one that has ended stays as it is. */
export function revokeApiKey(
  control: Control,
  { namespace, id }: { namespace: string; id: string },
  by: By,
): Promise<ApiKey | null> {
  return control.perform(
    { ...by, namespace, action: "key.revoke", target: id },
    async ({ keys }) => {
      const value = await keys.revoke(namespace, id);
      return { value, details: { found: value !== null } };
    },
  );
}

/** Null: it has no end. */
function lifetimeOf({ createdAt, expiresAt }: ApiKey): number | null {
  return expiresAt === null ? null : Date.parse(expiresAt) - Date.parse(createdAt);
}

function checkLife(lifetimeMs: number | null, maxLifeMs: number | undefined): void {
  if (maxLifeMs === undefined || (lifetimeMs !== null && lifetimeMs <= maxLifeMs)) return;
  const most = `at most ${formatDuration(maxLifeMs)}, the longest life of a key here`;
  const problem = lifetimeMs === null ? `is missing: give ${most}` : `must be ${most}`;
  throw new InvalidOptionError("lifetimeMs", problem);
}

function checkOrder(order: ApiKeyOrder): void {
  const { namespace, name, role, prefixes, lifetimeMs, maxLifeMs } = order;
  checkName("namespace", namespace);
  checkName("name", name);
  if (role === "holder" && prefixes.length === 0) {
    throw new InvalidOptionError("prefixes", 'of a holder must not be empty; "" is any resource');
  }
  if (prefixes.length > MOST_PREFIXES) {
    throw new InvalidOptionError("prefixes", `must be at most ${MOST_PREFIXES}`);
  }
  for (const prefix of prefixes) if (prefix !== "") checkName("prefixes", prefix);
  const { queues = [] } = order;
  if (queues.length > MOST_PREFIXES) {
    throw new InvalidOptionError("queues", `must be at most ${MOST_PREFIXES}`);
  }
  for (const queue of queues) checkName("queues", queue);
  if (lifetimeMs !== null && !(lifetimeMs > 0)) {
    throw new InvalidOptionError("lifetimeMs", "must be greater than 0");
  }
  checkLife(lifetimeMs, maxLifeMs);
}
