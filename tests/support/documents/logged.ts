/** What a TypeScript source logs: the messages of its warnings and errors, and the names of its events. */
import { type Argument, type Expression, parseSync, Visitor } from "oxc-parser";

export interface Logged {
  /** Of `logger.warn` and `logger.error`; null where it is computed from more than texts that stand there. */
  readonly warnings: readonly { readonly message: string | null; readonly line: number }[];
  /** Of fields that are logged, and names with an underscore anywhere: those of notices on stderr have none. */
  readonly events: ReadonlySet<string>;
}

const EVENT = /^[a-z]+(?:_[a-z]+)+$/;
const FIELDS = /^(?:fields|event)$/;
const LOGGER = /^#?(?:logger|log)$/;

export function loggedBy(path: string, source: string): Logged {
  const { program, errors } = parseSync(path, source);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  const constants = new Map<string, Expression>();
  const warnings: { message: string | null; line: number }[] = [];
  const events = new Set<string>();
  const calls: (() => void)[] = [];
  const textsOf = (node: Argument | undefined): (string | null)[] => {
    if (node?.type === "Literal" && typeof node.value === "string") return [node.value];
    if (node?.type === "ConditionalExpression") {
      return [...textsOf(node.consequent), ...textsOf(node.alternate)];
    }
    if (node?.type === "Identifier") {
      const constant = constants.get(node.name);
      if (constant) return textsOf(constant);
    }
    return [null];
  };
  const noteEvent = (fields: Argument | undefined) => {
    if (fields?.type !== "ObjectExpression") return;
    for (const property of fields.properties) {
      if (property.type !== "Property" || property.key.type !== "Identifier") continue;
      const { key, value } = property;
      if (key.name === "event" && value.type === "Literal") events.add(String(value.value));
    }
  };
  new Visitor({
    VariableDeclarator({ id, init }) {
      if (id.type !== "Identifier" || !init) return;
      constants.set(id.name, init);
      if (FIELDS.test(id.name)) noteEvent(init);
    },
    CallExpression({ callee, arguments: given, start }) {
      if (callee.type !== "MemberExpression" || callee.computed) return;
      const method = "name" in callee.property ? callee.property.name : "";
      if (!/^(?:warn|error)$/.test(method) || !LOGGER.test(lastNameOf(callee.object))) return;
      noteEvent(given[0]);
      const line = source.slice(0, start).split("\n").length;
      // After the walk, when all constants are known.
      calls.push(() => {
        for (const message of textsOf(given[1])) warnings.push({ message, line });
      });
    },
    Property({ key, value, computed }) {
      if (computed || key.type !== "Identifier" || key.name !== "event") return;
      if (value.type === "Literal" && EVENT.test(String(value.value))) {
        events.add(String(value.value));
      }
    },
  }).visit(program);
  for (const read of calls) read();
  return { warnings, events };
}

/** `#logger` of `this.#env.logger`. */
function lastNameOf(node: Expression): string {
  if (node.type === "Identifier") return node.name;
  if (node.type !== "MemberExpression" || node.computed) return "";
  return "name" in node.property ? node.property.name : "";
}
