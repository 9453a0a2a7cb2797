/**
 * The query language of the lease search:
 *
 *   orders/ holder:worker-1 state:live,expired >5m <10s is:renewed
 *
 * A plain word is a prefix of the resource; in double quotes it may contain spaces and colons.
 * `>5m`: held for at least 5 minutes. `<10s`: expires within 10 seconds unless it is renewed.
 */
import { parseDuration } from "leasehold/internal";
import type { LeaseView } from "leasehold/internal/wire";

export type LeaseState = LeaseView["state"];
export const LEASE_STATES: readonly LeaseState[] = ["live", "expired", "released", "revoked"];

/** The query of GET /v1/leases. */
export interface LeaseQuery {
  readonly prefix?: string;
  readonly state?: readonly LeaseState[];
  readonly holder?: string;
  readonly heldForMs?: number;
  readonly expiringWithinMs?: number;
  readonly renewedOnly?: true;
}

export interface LeaseSearch {
  readonly query: LeaseQuery;
  /** A message for each word that is invalid. */
  readonly problems: readonly string[];
}

const WORD = /(?:[^\s"]|"[^"]*"?)+/g;

export function parseLeaseSearch(text: string): LeaseSearch {
  let query: LeaseQuery = {};
  const problems: string[] = [];
  for (const word of text.match(WORD) ?? []) {
    const read = readWord(word, query);
    if (typeof read === "string") problems.push(read);
    else query = { ...query, ...read };
  }
  return { query, problems };
}

/** The filter that a word adds, or a message that says why it is invalid. */
function readWord(word: string, before: LeaseQuery): LeaseQuery | string {
  const [, sign, amount = ""] = /^([<>])(.*)$/.exec(word) ?? [];
  if (sign) {
    const ms = parseDuration(amount);
    if (ms === null) return `${word}: write a duration such as 500ms, 30s, 5m, 2h or 1d`;
    return sign === ">" ? { heldForMs: ms } : { expiringWithinMs: ms };
  }
  const [, name, rest = ""] = /^(holder|state|is):(.*)$/.exec(word) ?? [];
  const value = rest.replaceAll('"', "");
  if (name === "holder") return value ? { holder: value } : "holder: needs a name";
  if (name === "is")
    return value === "renewed" ? { renewedOnly: true } : "is: supports only is:renewed";
  if (name === "state") {
    const states = value.split(",");
    const known = LEASE_STATES.filter((state) => states.includes(state));
    if (known.length < states.length) return `state: must be one of ${LEASE_STATES.join(", ")}`;
    return { state: known };
  }
  const prefix = word.replaceAll('"', "");
  if (before.prefix === undefined) return { prefix };
  return `${prefix}: only one prefix is allowed; put a prefix with spaces in quotes`;
}

/** The same search with these states; an empty list means any state. */
export function withStates(text: string, states: readonly LeaseState[]): string {
  const words = (text.match(WORD) ?? []).filter((word) => !word.startsWith("state:"));
  return [...words, ...(states.length > 0 ? [`state:${states.join(",")}`] : [])].join(" ");
}
