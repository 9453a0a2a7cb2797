/**
 * Grants that their holder's name addresses, as in the article of the task processor, whose requests
 * name a resource and a holder and no more. Leases are renewed and released by leaseId alone, also
 * these: theirs follows from the record, by a nonce that stands in its metadata, so that any server
 * can work it out again.
 *
 *   POST { resource, holder }        leaseId = hash(namespace, resource, holder, nonce)
 *        └─▶ acquire(leaseId, metadata { byHolder: nonce })
 *   PUT renew { resource, holder }   the last grant's nonce ─▶ the same leaseId ─▶ renew(leaseId)
 *
 * What that cannot do: tell two processes with one name apart, once the first one's lease has run
 * out; nor a late duplicate of a request from the request about the next grant. A grant that was made
 * under a leaseId of its holder's choice is not addressed by a name.
 */

import type { LeaseView } from "leasehold";
import { holderLeaseId, newLeaseId } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import type { Services } from "../services.js";
import type { NamedGrant } from "./grants.js";

/** A new grant for this holder: its lease id, and the metadata by which it is found again. */
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

/** @throws LEASE_ID_REQUIRED when the grant is not addressed by a name */
export function grantByHolder(view: LeaseView): NamedGrant {
  const { namespace, resource, holder } = view;
  const nonce = nonceOf(view.metadata);
  if (nonce === null) {
    throw new ProblemError(
      "LEASE_ID_REQUIRED",
      "this grant was made under a leaseId of its holder's own: send that leaseId",
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
