/**
 * Grants that are addressed by their holder's name. Requests in the compatibility format name only a
 * resource and a holder. Stores renew and release by leaseId only, so the server derives the leaseId
 * from the record and a nonce in its metadata. Any server can derive it again.
 *
 *   POST { resource, holder }        leaseId = hash(namespace, resource, holder, nonce)
 *        └─▶ acquire(leaseId, metadata { byHolder: nonce })
 *   PUT renew { resource, holder }   the last grant's nonce ─▶ the same leaseId ─▶ renew(leaseId)
 *
 * Limitations: it cannot distinguish two processes with the same name once the lease of the first has
 * expired, nor a late duplicate of a request from a request for the next grant. A grant whose holder
 * chose the leaseId cannot be addressed by name.
 */

import type { LeaseView } from "leasehold";
import { holderLeaseId, newLeaseId } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import type { Services } from "../services.js";
import type { NamedGrant } from "./grants.js";

/** The lease id and metadata of a new grant that its holder's name addresses. */
export function newGrantByHolder(
  { env }: Services,
  namespace: string,
  resource: string,
  holder: string,
): { leaseId: string; metadata: string } {
  const nonce = newLeaseId(env.random).slice(0, 16);
  const leaseId = holderLeaseId(namespace, resource, holder, nonce);
  return { leaseId, metadata: JSON.stringify({ byHolder: nonce }) };
}

/** @throws LEASE_ID_REQUIRED if the grant cannot be addressed by name */
export function grantByHolder(view: LeaseView): NamedGrant {
  const { namespace, resource, holder } = view;
  const nonce = nonceOf(view.metadata);
  if (nonce === null) {
    throw new ProblemError(
      "LEASE_ID_REQUIRED",
      "the holder chose the leaseId of this grant: send that leaseId",
    );
  }
  return { resource, leaseId: holderLeaseId(namespace, resource, holder, nonce) };
}

function nonceOf(metadata: string | null): string | null {
  try {
    const { byHolder } = JSON.parse(metadata ?? "{}") as { byHolder?: unknown };
    return typeof byHolder === "string" ? byHolder : null;
  } catch {
    return null;
  }
}
