/**
 * What this instance changes of a tenant's leases, as its limits count them. A grant begins and ends once, however often
 * its requests are repeated:
 *
 *   reserved ─▶ acquired: counts ─▶ released, revoked or recorded: counts no more
 *      └──────▶ refused, or acquired before: returned
 *
 * Until the next count of the store, a repeated release would otherwise make room for a further lease each time.
 */
import { type AcquireRequest, grantIdOf, Recent } from "leasehold/internal";
import type { Quotas } from "./quotas.js";

/** The most grants that are remembered. The next count corrects what one that was forgotten makes wrong. */
const REMEMBERED = 10_000;

type Grant = Pick<AcquireRequest, "namespace" | "resource" | "leaseId">;

export class LeaseCounts {
  readonly #quotas: Pick<Quotas, "note" | "counts">;
  /** By grant. An operator's revocation names the token only. */
  readonly #tokens = new Recent<number>(REMEMBERED);
  /** By token, or by grant where that is unknown. */
  readonly #states = new Recent<"live" | "ended">(REMEMBERED);

  constructor(quotas: Pick<Quotas, "note" | "counts">) {
    this.#quotas = quotas;
  }

  /** An acquire that a place and room for a record were reserved for was refused. */
  refused(namespace: string): void {
    this.#quotas.note("leases", namespace, { live: -1, records: -1 });
  }

  /** @param replaces whether the resource has a record already */
  acquired(grant: Grant, token: number, replaces: boolean): void {
    const { namespace, resource } = grant;
    if (!this.#quotas.counts("leases", namespace)) {
      if (replaces) this.#quotas.note("leases", namespace, { records: -1 });
      return;
    }
    const name = nameOf(namespace, resource, token);
    if (this.#states.get(name) === "live") return this.refused(namespace);
    this.#tokens.set(nameOf(namespace, resource, grantIdOf(grant.leaseId)), token);
    this.#states.set(name, "live");
    if (replaces) this.#quotas.note("leases", namespace, { records: -1 });
  }

  released({ namespace, resource, leaseId }: Grant): void {
    if (!this.#quotas.counts("leases", namespace)) return;
    const name = nameOf(namespace, resource, grantIdOf(leaseId));
    const token = this.#tokens.get(name);
    this.#ended(namespace, token === undefined ? name : nameOf(namespace, resource, token));
  }

  revoked({ namespace, resource }: Omit<Grant, "leaseId">, token: number): void {
    if (!this.#quotas.counts("leases", namespace)) return;
    this.#ended(namespace, nameOf(namespace, resource, token));
  }

  #ended(namespace: string, name: string): void {
    if (this.#states.get(name) === "ended") return;
    this.#states.set(name, "ended");
    this.#quotas.note("leases", namespace, { live: -1 });
  }
}

function nameOf(namespace: string, resource: string, grant: string | number): string {
  return JSON.stringify([namespace, resource, grant]);
}
