/** What the routes of /v1/leases do for holders, on requests that were parsed. */
import type { AcquireOutcome, AcquireRequest } from "leasehold/internal";
import type { AcquireBody, ReleaseBody, RenewBody } from "../../protocol/index.js";
import { checkNoTask } from "../auth/caller.js";
import type { LeaseCalls, Named } from "../lease-calls.js";
import type { LeaseOperation } from "../limits/tenants.js";
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
  services.checkLeases(scope, requests);
  const resources = requests.map(({ resource }) => resource);
  const outcomes = await callEach(services, scope, "acquire", requests, () =>
    services.reserveQuota(scope, "leases", resources),
  );
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
  services.checkLeases(scope, requests);
  return (await callEach(services, scope, "renew", requests)).map(toWireOutcome);
}

export async function releaseEach(
  services: Services,
  scope: RequestScope,
  parsed: Parsed<typeof ReleaseBody>,
) {
  const grants = parsed.map(({ leaseId: grant }) => grant);
  return (await callEach(services, scope, "release", grants)).map(toWireOutcome);
}

/**
 * Stores decide each resource once in a round, so a batch that names one many times needs as many rounds, and the requests of
 * other tenants that share its call wait for all of them. What names a resource often is served in waves, each of which waits
 * for the turn of its tenant. The order of the requests for each resource stays.
 */
const MOST_OF_ONE_RESOURCE = 8;

type Request<Name extends LeaseOperation> = Parameters<LeaseCalls[Name]>[0];
type Outcome<Name extends LeaseOperation> = Awaited<ReturnType<LeaseCalls[Name]>>;
type Call<Name extends LeaseOperation> = (
  request: Request<Name>,
  spentMs: number,
) => Promise<Outcome<Name>>;

/**
 * One outcome for each request, in order.
 * @param prepare runs right before the first change, after the wait for other requests of the tenant
 */
async function callEach<Name extends LeaseOperation>(
  services: Services,
  scope: RequestScope,
  operation: Name,
  requests: readonly Request<Name>[],
  prepare = async () => {},
): Promise<Outcome<Name>[]> {
  const waves = wavesOf(requests);
  const ofTenant = waves.length > 1 ? Infinity : requests.length;
  const outcomes: Outcome<Name>[] = [];
  let calls: LeaseCalls | undefined;
  let sinceMs = 0;
  for (const wave of waves) {
    await services.inStore(scope, operation, ofTenant, async () => {
      if (!calls) {
        await prepare();
        calls = services.leaseCalls(scope, requests);
        sinceMs = services.env.clock.monotonic();
      }
      const spentMs = services.env.clock.monotonic() - sinceMs;
      const call = calls[operation] as Call<Name>;
      const answers = await Promise.all(
        wave.map((at) => call(requests[at] as Request<Name>, spentMs)),
      );
      for (const [index, at] of wave.entries()) outcomes[at] = answers[index] as Outcome<Name>;
    });
  }
  return outcomes;
}

/** The indexes of the requests of each wave. */
function wavesOf(requests: readonly Named[]): number[][] {
  if (requests.length <= MOST_OF_ONE_RESOURCE) return [[...requests.keys()]];
  const counts = new Map<string, number>();
  const waves: number[][] = [];
  for (const [at, { resource }] of requests.entries()) {
    const before = counts.get(resource) ?? 0;
    counts.set(resource, before + 1);
    (waves[Math.floor(before / MOST_OF_ONE_RESOURCE)] ??= []).push(at);
  }
  return waves;
}

/** Leaves out the replaced grant, which is for the server's history only. */
function toWireAcquired(outcome: AcquireOutcome) {
  if (outcome.status !== "acquired") return toWireOutcome(outcome);
  if (!outcome.replaced) return outcome;
  const { replaced, ...answer } = outcome;
  return answer;
}
