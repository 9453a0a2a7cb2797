/**
 * Bodies of /v1/leases in their usual form, read without a schema: for a lease that is renewed again and again the schema
 * is most of the work. Null: the schema decides, also about what is wrong. All that is read here the schema reads alike.
 */
import { isPlainName } from "leasehold/internal";
import { BOUNDS, fromWireLeaseId } from "leasehold/internal/wire";
import type { AcquireBody, ReleaseBody, RenewBody } from "./leases.js";

type Parsed<Schema extends { readonly _zod: { readonly output: unknown } }> =
  Schema["_zod"]["output"];

type Acquires = Parsed<typeof AcquireBody>;
type Grant = Acquires[number]["leaseId"];

const ACQUIRE = new Set(["leaseId", "holder", "ttlMs", "queueMs", "metadata"]);
const RENEW = new Set(["leaseId", "ttlMs"]);
const RELEASE = new Set(["leaseId"]);

export function plainAcquires(body: unknown): Acquires | null {
  return each(body, ACQUIRE, ({ leaseId, holder, ttlMs, queueMs, metadata }) => {
    const grant = plainGrant(leaseId);
    if (!grant || !isPlainName(holder) || !isDuration(ttlMs)) return null;
    const request: Acquires[number] = { leaseId: grant, holder, ttlMs };
    if (queueMs !== undefined) {
      if (!isDuration(queueMs) || queueMs > BOUNDS.queueMs) return null;
      request.queueMs = queueMs;
    }
    if (metadata !== undefined) {
      if (!isPlainName(metadata)) return null;
      request.metadata = metadata;
    }
    return request;
  });
}

export function plainRenewals(body: unknown): Parsed<typeof RenewBody> | null {
  return each(body, RENEW, ({ leaseId, ttlMs }) => {
    const grant = plainGrant(leaseId);
    return grant && isDuration(ttlMs) ? { leaseId: grant, ttlMs } : null;
  });
}

export function plainReleases(body: unknown): Parsed<typeof ReleaseBody> | null {
  return each(body, RELEASE, ({ leaseId }) => {
    const grant = plainGrant(leaseId);
    return grant && { leaseId: grant };
  });
}

type Fields = Readonly<Record<string, unknown>>;

/** Null if the body is no array, is too long, or has an item that is not plain. */
function each<Item>(
  body: unknown,
  known: ReadonlySet<string>,
  read: (fields: Fields) => Item | null,
): Item[] | null {
  if (!Array.isArray(body) || body.length === 0 || body.length > BOUNDS.batch) return null;
  const items: Item[] = [];
  for (const value of body as unknown[]) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
    for (const name in value) if (!known.has(name)) return null;
    const item = read(value as Fields);
    if (item === null) return null;
    items.push(item);
  }
  return items;
}

/** Of a plain name everything is valid, also for a new lease. */
function plainGrant(text: unknown): Grant | null {
  const grant = typeof text === "string" ? fromWireLeaseId(text) : null;
  return grant && isPlainName(grant.resource) ? grant : null;
}

function isDuration(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
