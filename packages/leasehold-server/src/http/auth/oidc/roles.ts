/**
 * What the claims of a token give its caller, by rules in order:
 *
 *   groups:lease-admins=admin                   the claim `groups` is this text, or a list that has it
 *   scope:leases.read=viewer                    `scope` and `scp` are lists with spaces
 *   realm_access.roles:ops=operator,tenant=shop a path into a claim; a tenant of the rule's own
 *   sub:ci:*=holder,prefix=build/,prefix=task:  text that begins with `ci:`; the prefixes of a holder
 *   groups:shop=operator,prefix=shop/,queue=mails  an operator who may act on these resources and queues alone
 *
 * The first rule that matches counts. Without one there is no access, and none without a tenant where a claim names it.
 */
import { InvalidOptionError } from "leasehold";
import { checkName, ROLES, type Role } from "leasehold/internal";

export type Claims = Readonly<Record<string, unknown>>;

export interface RoleRule {
  readonly claim: string;
  /** A `*` at the end matches any text. */
  readonly value: string;
  readonly role: Role;
  readonly tenant: string | undefined;
  readonly prefixes: readonly string[];
  /** Of an operator. */
  readonly queues: readonly string[];
}

/** What a caller may do, and where. */
export interface Access {
  readonly namespace: string;
  readonly role: Role;
  readonly prefixes: readonly string[];
  readonly queues: readonly string[];
}

/** A claim whose name has a colon is in quotes. A value may have `=` too, as names of a directory do. */
const RULE = /^("(?:[^"\\]|\\.)+"|[^":]+):(.+?)=(\w+)((?:,(?:tenant|prefix|queue)=[^,]*)*)$/s;

/** @throws InvalidOptionError */
export function roleRuleOf(text: unknown): RoleRule {
  const [, name = "", value = "", role = "", rest = ""] = RULE.exec(String(text)) ?? [];
  if (name === "") {
    throw wrong(text, "is not CLAIM:VALUE=ROLE, such as groups:lease-admins=admin");
  }
  if (!isRole(role)) throw wrong(text, `has an unknown role, ${role}: use ${ROLES.join(", ")}`);
  const pairs = rest.split(",").slice(1);
  const valuesOf = (key: string) =>
    pairs.filter((pair) => pair.startsWith(`${key}=`)).map((pair) => pair.slice(key.length + 1));
  const [tenant, ...others] = valuesOf("tenant");
  const prefixes = valuesOf("prefix");
  if (others.length > 0) throw wrong(text, "has more than one tenant");
  const queues = valuesOf("queue");
  if (prefixes.length > 0 && role !== "holder" && role !== "operator") {
    throw wrong(text, "has a prefix, which limits only the roles holder and operator");
  }
  if (queues.length > 0 && role !== "operator") {
    throw wrong(text, "has a queue, which limits only the role operator");
  }
  for (const queue of queues) checkName("oidc.roles: queue", queue);
  if (tenant !== undefined) checkName("oidc.roles: tenant", tenant);
  return {
    claim: name.startsWith('"') ? unquoted(name, text) : name,
    value,
    role,
    tenant,
    prefixes: role === "holder" && prefixes.length === 0 ? [""] : prefixes,
    queues,
  };
}

function isRole(text: string): text is Role {
  return (ROLES as readonly string[]).includes(text);
}

function unquoted(name: string, rule: unknown): string {
  try {
    return String(JSON.parse(name));
  } catch {
    throw wrong(rule, "has a claim that is not quoted as in JSON");
  }
}

function wrong(rule: unknown, problem: string): InvalidOptionError {
  return new InvalidOptionError("oidc.roles", `has ${JSON.stringify(rule)}, which ${problem}`);
}

export interface RoleOptions {
  readonly roles: readonly string[];
  readonly tenantClaim?: string | undefined;
}

export class RoleRules {
  readonly #rules: readonly RoleRule[];
  readonly #tenantClaim: string | undefined;
  readonly #namespace: string;

  /** @param namespace of callers for which neither the rule nor a claim names another */
  constructor({ roles, tenantClaim }: RoleOptions, namespace: string) {
    this.#rules = roles.map(roleRuleOf);
    this.#tenantClaim = tenantClaim;
    this.#namespace = namespace;
  }

  /** What the claims give; null: nothing. */
  accessOf(claims: Claims): Access | null {
    const rule = this.#rules.find(({ claim, value }) => matching(claims, claim, value).length > 0);
    if (!rule) return null;
    const namespace = rule.tenant ?? this.#tenantOf(claims);
    if (namespace === null) return null;
    return { namespace, role: rule.role, prefixes: rule.prefixes, queues: rule.queues };
  }

  /** The claims that {@link accessOf} reads, without values that no rule names. */
  needed(claims: Claims): Claims {
    const kept: Record<string, unknown> = {};
    for (const { claim, value } of this.#rules) {
      const found = matching(claims, claim, value);
      if (found.length > 0) kept[claim] = [...textsOf(claim, kept[claim]), ...found];
    }
    const name = this.#tenantClaim;
    if (name !== undefined) kept[name] = valueOf(claims, name);
    return kept;
  }

  #tenantOf(claims: Claims): string | null {
    if (this.#tenantClaim === undefined) return this.#namespace;
    const [tenant, ...others] = textsOf("", valueOf(claims, this.#tenantClaim));
    if (tenant === undefined || others.length > 0) return null;
    try {
      checkName("tenant", tenant);
      return tenant;
    } catch {
      return null;
    }
  }
}

/** The values of a claim that a rule's value matches. */
function matching(claims: Claims, claim: string, value: string): string[] {
  const texts = textsOf(claim, valueOf(claims, claim));
  if (!value.endsWith("*")) return texts.filter((text) => text === value);
  const start = value.slice(0, -1);
  return texts.filter((text) => text.startsWith(start) && text !== "");
}

/** The claim of this name, or what a path of names with dots leads to. */
function valueOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let at: unknown = claims;
  for (const part of name.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, part)) return undefined;
    at = (at as Claims)[part];
  }
  return at;
}

function textsOf(claim: string, value: unknown): string[] {
  const isSpaced = typeof value === "string" && (claim === "scope" || claim === "scp");
  const values: unknown[] = isSpaced ? value.split(" ") : Array.isArray(value) ? value : [value];
  return values.flatMap((each) =>
    typeof each === "string" || typeof each === "boolean" || typeof each === "number"
      ? [String(each)]
      : [],
  );
}
