/**
 * The revocations of one request. Resources without any record, of which a client can name any number, have one audit
 * entry together. What has not begun when the client disconnects is not done.
 */
import type { Context } from "hono";
import { type By, entryOf, type RevokeRequest } from "leasehold/internal";
import { callerOf } from "../auth/caller.js";
import type { AppEnv, Budget } from "../request.js";
import type { Services } from "../services.js";
import type { Revoked } from "./revoking.js";

interface Revocation {
  readonly request: Omit<RevokeRequest, "namespace">;
  readonly by: By;
}

/** Returns an outcome for each, in order. */
export async function revokeEach(
  services: Services,
  context: Context<AppEnv>,
  revocations: readonly Revocation[],
): Promise<Revoked["outcome"][]> {
  const named = revocations.map(({ request }) => request);
  // Refuses resources that the caller may not use, before anything is read.
  const calls = services.leaseCalls(context, named);
  const { namespace } = callerOf(context);
  const budget = services.budget(context);
  const missing = new Set<Revocation>();
  if (services.control && revocations.length > 1) {
    const keys = named.map(({ resource }) => ({ namespace, resource }));
    const views = await budget.read(() => services.leases.get(keys));
    for (const [index, one] of revocations.entries()) if (!views[index]) missing.add(one);
  }
  // A single one has an entry that its resource finds.
  if (missing.size < 2) missing.clear();
  else await enterMissing(services, namespace, [...missing], budget);
  const { telemetry } = services.env;
  for (const _ of missing) telemetry?.count("leasehold.lease.revokes", { outcome: "notHeld" });
  return Promise.all(
    revocations.map(async (one) =>
      missing.has(one)
        ? ({ status: "notHeld" } as const)
        : (await calls.revoke(one.request, one.by)).outcome,
    ),
  );
}

async function enterMissing(
  { control }: Pick<Services, "control">,
  namespace: string,
  missing: readonly Revocation[],
  budget: Budget,
): Promise<void> {
  const [first] = missing;
  if (!control || !first) return;
  const resources = missing.map(({ request, by }) => ({
    resource: request.resource,
    reason: by.reason,
  }));
  const isOne = missing.every(({ by }) => by.reason === first.by.reason);
  const act = { ...first.by, namespace, action: "lease.revoke" as const, target: "" };
  const entry = entryOf({ ...act, reason: isOne ? first.by.reason : null }, "done", {
    status: "notHeld",
    resources: isOne ? resources.map(({ resource }) => resource) : resources,
  });
  await budget.change(() => control.audit.append([entry]));
}
