/** What the routes of /v1/leases do for holders, on requests that were parsed. */
import type { AcquireOutcome, AcquireRequest } from "leasehold/internal";
import type { AcquireBody, ReleaseBody, RenewBody } from "../../protocol/index.js";
import { callerOf, checkNoTask } from "../auth/caller.js";
import { checkTtl, type RequestScope } from "../request.js";
import type { Services } from "../services.js";
import { toWireOutcome } from "./outcomes.js";

/** The value of a schema, as `z.output`. */
type Parsed<Schema extends { readonly _zod: { readonly output: unknown } }> =
  Schema["_zod"]["output"];

type Asked = { -readonly [Name in keyof Omit<AcquireRequest, "namespace">]: AcquireRequest[Name] };

/** One outcome for each request, in order, as it travels. */
export async function acquireEach(
  services: Services,
  scope: RequestScope,
  parsed: Parsed<typeof AcquireBody>,
) {
  const requests = parsed.map(({ leaseId: grant, holder, ttlMs, queueMs, metadata }, index) => {
    checkTtl(`${index}.ttlMs`, ttlMs, services.ttl.leases);
    const { resource, leaseId } = grant;
    checkNoTask(`${index}.leaseId`, resource);
    const request: Asked = { resource, leaseId, holder, ttlMs };
    if (queueMs !== undefined) request.queueMs = queueMs;
    if (metadata !== undefined) request.metadata = metadata;
    return request;
  });
  services.waiters.check(callerOf(scope).namespace, requests);
  const resources = requests.map(({ resource }) => resource);
  const outcomes = await services.inTurn(scope, "acquire", requests.length, async () => {
    await services.reserveQuota(scope, "leases", resources);
    const calls = services.leaseCalls(scope, requests);
    return Promise.all(requests.map(calls.acquire));
  });
  return outcomes.map(toWireAcquired);
}

export async function renewEach(
  services: Services,
  scope: RequestScope,
  parsed: Parsed<typeof RenewBody>,
) {
  const requests = parsed.map(({ leaseId: grant, ttlMs }, index) => {
    checkTtl(`${index}.ttlMs`, ttlMs, services.ttl.leases);
    return { ...grant, ttlMs };
  });
  const outcomes = await services.inTurn(scope, "renew", requests.length, async () => {
    const calls = services.leaseCalls(scope, requests);
    return Promise.all(requests.map(calls.renew));
  });
  return outcomes.map(toWireOutcome);
}

export async function releaseEach(
  services: Services,
  scope: RequestScope,
  parsed: Parsed<typeof ReleaseBody>,
) {
  const grants = parsed.map(({ leaseId: grant }) => grant);
  const outcomes = await services.inTurn(scope, "release", grants.length, async () => {
    const calls = services.leaseCalls(scope, grants);
    return Promise.all(grants.map(calls.release));
  });
  return outcomes.map(toWireOutcome);
}

/** Leaves out the replaced grant, which is for the server's history only. */
function toWireAcquired(outcome: AcquireOutcome) {
  if (outcome.status !== "acquired") return toWireOutcome(outcome);
  if (!outcome.replaced) return outcome;
  const { replaced, ...answer } = outcome;
  return answer;
}
