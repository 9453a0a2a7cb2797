/** Options of serve about leases that no single operator may end. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Stores } from "leasehold";
import type { Auth, TwoPersonRevoke } from "../http/index.js";
import { LONGEST_WITHIN_MS, SHORTEST_WITHIN_MS } from "../http/operations/two-person.js";
import { UsageError } from "./failures.js";
import { duration, notBlank } from "./options.js";
import { resourcePrefix } from "./resource.js";

/** The prefixes of each tenant. */
type Prefixes = ReadonlyMap<string, readonly string[]>;

export interface TwoPersonFlags {
  readonly twoPersonRevoke?: Prefixes;
  readonly twoPersonWithin?: number;
}

/** All tenants. */
const ALL = "*";

export function withTwoPerson(command: Command): Command {
  return command
    .option(
      "--two-person-revoke <tenant=prefix>",
      "resources of a tenant whose leases no single operator may end: another one confirms a revocation; * for all tenants; repeatable",
      prefixes,
    )
    .addOption(
      new Option(
        "--two-person-within <duration>",
        "how long such a revocation can be confirmed, from 1m to 24h (default: 1h)",
      ).argParser(within),
    );
}

function prefixes(text: string, before: Prefixes = new Map()): Prefixes {
  const at = text.indexOf("=");
  if (at < 1)
    throw new InvalidArgumentError("It must be tenant=prefix, or *=prefix for all tenants.");
  const tenant = notBlank(text.slice(0, at));
  const prefix = resourcePrefix(text.slice(at + 1));
  return new Map([...before, [tenant, [...(before.get(tenant) ?? []), prefix]]]);
}

function within(text: string): number {
  const ms = duration(text);
  if (ms >= SHORTEST_WITHIN_MS && ms <= LONGEST_WITHIN_MS) return ms;
  throw new InvalidArgumentError("It must be from 1m to 24h.");
}

/** @throws UsageError if the server could not tell two operators apart, or could not record a request */
export function twoPersonOf(
  { twoPersonRevoke: given, twoPersonWithin: confirmWithinMs }: TwoPersonFlags,
  { control }: Pick<Stores, "control">,
  { auth }: { readonly auth: Auth },
): TwoPersonRevoke | undefined {
  if (!given) {
    if (confirmWithinMs === undefined) return undefined;
    throw new UsageError("--two-person-within needs --two-person-revoke");
  }
  if (!control) {
    throw new UsageError(
      "--two-person-revoke: this store has no audit, which records the requests: name a database that has one (PostgreSQL, PGlite) with --control",
    );
  }
  if (auth !== "keys") {
    throw new UsageError(
      "--two-person-revoke needs --require-keys or --oidc-issuer: without keys, the server cannot tell two operators apart",
    );
  }
  const of = (tenant: string) => given.get(tenant) ?? [];
  return { prefixes: (tenant) => [...of(ALL), ...of(tenant)], confirmWithinMs };
}
