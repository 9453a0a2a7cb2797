/**
 * The coordinator's plan: which member works on which shard. It is the metadata of a lease that the
 * coordinator acquires and releases for each new plan. The lease's token is the version of the plan.
 */

import { digestOf } from "../env/index.js";
import type { LeaseClient } from "../lease/index.js";
import type { Allocation } from "./allocation.js";

/** A member's number in a plan is a byte. */
export const MOST_MEMBERS = 255;
/** With so many members a plan fits into the 4 KiB of a lease's metadata. */
export const MOST_SHARDS = 1_024;
/** Of a digest: two of 255 members share one by chance once in 30 million. */
const NAME_DIGITS = 10;
const UNASSIGNED = 255;

export interface Plan {
  /** The token of the coordinator's term. */
  readonly term: number;
  /** By shard: the member's {@link shortName}. */
  readonly allocation: Allocation;
}

/** A digest that represents a member in plans, whatever the length of its name. */
export function shortName(member: string): string {
  return digestOf(member).slice(0, NAME_DIGITS);
}

export function encodePlan({ term, allocation }: Plan): Record<string, string> {
  const members = [...new Set(allocation.filter((name) => name !== null))];
  const numbers = new Map<string | null, number>(members.map((name, index) => [name, index]));
  const bytes = allocation.map((name) => String.fromCharCode(numbers.get(name) ?? UNASSIGNED));
  return { term: String(term), members: members.join(""), shards: btoa(bytes.join("")) };
}

function decodePlan(metadata: string | null): Plan | null {
  const text = metadata === null ? {} : (JSON.parse(metadata) as Partial<Record<string, string>>);
  const { term, members, shards } = text;
  if (term === undefined || members === undefined || shards === undefined) return null;
  const allocation = Array.from(atob(shards), (byte) => {
    const number = byte.charCodeAt(0);
    if (number === UNASSIGNED) return null;
    return members.slice(number * NAME_DIGITS, (number + 1) * NAME_DIGITS);
  });
  return { term: Number(term), allocation };
}

/** The newest plan; null while there is none. @throws STORE_UNAVAILABLE */
export async function readPlan(leases: LeaseClient, resource: string): Promise<Plan | null> {
  const view = await leases.get(resource);
  return view === null ? null : decodePlan(view.metadata);
}
