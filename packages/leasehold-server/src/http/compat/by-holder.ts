/**
 * Grants that are addressed by their holder's name. Requests in the compatibility format name only a
 * resource and a holder. Stores renew and release by leaseId only, so the server derives the leaseId
 * from the record and a nonce in its metadata. Any server can derive it again.
 *
 *   POST { resource, holder }        leaseId = hash(namespace, resource, holder, nonce)
 *        └─▶ acquire(leaseId, metadata { byHolder: nonce })
 *   PUT renew { resource, holder }   the last grant's nonce ─▶ the same leaseId ─▶ renew(leaseId)
 *   GET lists, views                 metadata null: the nonce stays in the store and the server
 *
 * Limitations: it cannot distinguish two processes with the same name once the lease of the first has
 * expired, nor a late duplicate of a request from a request for the next grant. A grant whose holder
 * chose the leaseId cannot be addressed by name, nor can one in the store of another server, which shows no nonce.
 */

import type { LeaseView } from "leasehold";
import { holderLeaseId, randomHex } from "leasehold/internal";
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
  const nonce = randomHex(env.random, 8);
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

/**
 * The grant as callers may see it: the lease id can be derived from the nonce. Apply it to every view
 * with metadata that leaves the server.
 */
export function withoutNonce<View extends Pick<LeaseView, "metadata">>(view: View): View {
  return nonceOf(view.metadata) === null ? view : { ...view, metadata: null };
}

/** Null for metadata of other callers, also if it has a field of this name. */
function nonceOf(metadata: string | null): string | null {
  return /^\{"byHolder":"([0-9a-f]{16})"\}$/.exec(metadata ?? "")?.[1] ?? null;
}
