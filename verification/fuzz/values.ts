/** Values that a JSON Schema of the server's document allows, at its bounds more often than not. */
import { claimDigestOf, grantIdOf, taskIds, taskLeaseId } from "leasehold/internal";
import { toWireGrantId, toWireLeaseId } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import type { Chance } from "./chance.js";
import { Members, type Node, ODD_TEXTS } from "./json.js";

export interface Schema {
  readonly $ref?: string;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly type?: string | readonly string[];
  readonly enum?: readonly (string | number)[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly format?: string;
}

const RESOURCES = [...Array(12).keys()].map((n) => `r/${n}`);
/** What the secret ends of all lease ids and ids of claims in requests begin with. */
export const MARK = "ca9a41";
const SECRETS = [...Array(12).keys()].map((n) => {
  return `${n}`.padStart(16, "0") + MARK + `${n}`.padStart(26, "0");
});
const TASK_IDS = ((): readonly string[] => {
  const { clock, random } = manualEnv({ seed: 5 });
  const next = taskIds(clock, random);
  return Array.from({ length: 2_000 }, next);
})();

/**
 * What ties requests to each other: few names, so that one speaks of what another has made. All are
 * the requester's choice, so that a case does not depend on the answers to those before it.
 */
export function known(name: string, chance: Chance, keyIds: readonly string[]): Node | undefined {
  // The first ones are in use all the time, most of the others new.
  const task = TASK_IDS[chance.below(chance.often(60) ? 20 : TASK_IDS.length)]!;
  switch (name) {
    case "resource":
    case "prefix":
      return chance.often(70) ? chance.pick(RESOURCES) : chance.pick(["r/", "r/1", "task:"]);
    case "wireLeaseId":
      return toWireLeaseId(chance.pick(RESOURCES), chance.pick(SECRETS));
    case "grantId":
      return toWireGrantId(chance.pick(RESOURCES), grantIdOf(chance.pick(SECRETS)));
    case "claimId":
      return chance.pick(SECRETS);
    case "taskLeaseId":
      return taskLeaseId(claimDigestOf(chance.pick(SECRETS)), 1 + TASK_IDS.indexOf(task));
    case "taskId":
      return task;
    case "keyId":
      return chance.pick(keyIds);
    case "holder":
    case "ownerId":
    case "processor":
      return chance.pick(["h0", "h1", "h2"]);
    case "queue":
    case "kind":
      return chance.pick(["default", "q1"]);
    case "fencingToken":
    case "expectedToken":
      return 1 + chance.below(4);
    // Short, because most waits end without a task.
    case "waitMs":
      return chance.below(20);
    case "ttlMs":
      return chance.pick([1_000, 1_000, 1_001, 30_000, 3_600_000, 999, 3_600_001]);
    default:
      return undefined;
  }
}

export class Values {
  readonly #schemas: Readonly<Record<string, Schema>>;
  readonly #keyIds: readonly string[];

  constructor(document: object, keyIds: readonly string[]) {
    const { components } = document as { components: { schemas: Record<string, Schema> } };
    this.#schemas = components.schemas;
    this.#keyIds = keyIds;
  }

  /** @param name of the member or parameter that it is for */
  allowed(schema: Schema, chance: Chance, name = "", depth = 0): Node {
    const { $ref, allOf, properties } = schema;
    if ($ref !== undefined) {
      return this.allowed(
        this.#schemas[$ref.slice($ref.lastIndexOf("/") + 1)] ?? {},
        chance,
        name,
        depth,
      );
    }
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices) return this.allowed(chance.pick(choices), chance, name, depth);
    if (allOf) {
      const parts = allOf.map((part) => this.allowed(part, chance, name, depth));
      return new Members(parts.flatMap((part) => (part instanceof Members ? part.list : [])));
    }
    if (schema.enum) return chance.pick(schema.enum);
    const types = [schema.type ?? []].flat();
    const type = chance.pick(types);
    if (type === undefined) return this.#any(chance);
    if (type === "null") return null;
    if (type === "boolean") return chance.often(50);
    if (type === "object" || properties) return this.#object(schema, chance, depth);
    if (type === "array") return this.#array(schema, chance, name, depth);
    // In the bodies about tasks ids are bare, elsewhere they name their resource.
    const bare = name === "leaseId" && /!-~/.test(JSON.stringify(schema));
    const role = { leaseId: bare ? "taskLeaseId" : "wireLeaseId", id: "taskId" }[name] ?? name;
    const fits = known(role, chance, this.#keyIds);
    if (fits !== undefined && chance.often(85)) return fits;
    return type === "string" ? text(schema, chance) : number(schema, type === "integer", chance);
  }

  #object(schema: Schema, chance: Chance, depth: number): Members {
    const required = new Set(schema.required);
    const members = Object.entries(schema.properties ?? {}).filter(
      // Two names for one duration exclude each other.
      ([key]) => required.has(key) || (key !== "ttlSeconds" && chance.often(40)),
    );
    return new Members(
      members.map(([key, part]) => [key, this.allowed(part, chance, key, depth + 1)]),
    );
  }

  #array(
    { items = {}, minItems = 0, maxItems = 1_000 }: Schema,
    chance: Chance,
    name: string,
    depth: number,
  ) {
    const most = Math.min(maxItems, chance.often(1) ? maxItems : 3);
    const count = Math.max(minItems, chance.below(most + 1));
    const one = this.allowed(items, chance, name, depth + 1);
    return Array.from({ length: count }, (_, index) =>
      index > 3 ? one : this.allowed(items, chance, name, depth + 1),
    );
  }

  #any(chance: Chance): Node {
    return chance.pick<Node>([
      null,
      1,
      "data",
      [1, [2]],
      new Members([["a", 1]]),
      chance.pick(ODD_TEXTS),
    ]);
  }
}

function text({ minLength = 0, maxLength = 300, format }: Schema, chance: Chance): string {
  if (format === "date-time") {
    return chance.pick([
      "2020-01-01T00:00:00Z",
      "2020-01-01T00:00:00.123+02:00",
      "9999-12-31T23:59:59Z",
    ]);
  }
  const length = chance.pick([minLength, minLength + 1, 8, maxLength - 1, maxLength]);
  return chance.often(20) ? chance.pick(ODD_TEXTS) : "x".repeat(Math.max(0, length));
}

function number(schema: Schema, whole: boolean, chance: Chance): number {
  const least = schema.minimum ?? schema.exclusiveMinimum ?? -(2 ** 53);
  const most = schema.maximum ?? 2 ** 53 - 1;
  const within = least + chance.below(Math.min(1_000, most - least));
  return chance.pick([least, most, within, within, within + (whole ? 0 : 0.5)]);
}
