/** What a TypeScript source reaches for: its imports, and the globals that it names. */
import { type MemberExpression, parseSync, Visitor } from "oxc-parser";

export interface Import {
  /** As written; null where it is computed. */
  readonly specifier: string | null;
  /** `type` leaves no trace at run time; `dynamic` loads when it is reached. */
  readonly kind: "static" | "dynamic" | "type";
  readonly line: number;
}

export interface Use {
  /** A global or a member of one: `setTimeout`, `Date.now`, `new Date()`. */
  readonly name: string;
  readonly line: number;
}

export interface Module {
  readonly imports: readonly Import[];
  readonly uses: readonly Use[];
  readonly lines: number;
}

/** Objects through which a global can be reached under its own name. */
const GLOBAL_OBJECTS = new Set(["globalThis", "global", "window", "self"]);

/**
 * Reads a module. Names are taken as they stand: a local variable that hides a global counts as
 * that global, which is no loss, because hiding one misleads readers too.
 */
export function readModule(path: string, source: string): Module {
  const { program, errors } = parseSync(path, source);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  const lineAt = (offset: number) => source.slice(0, offset).split("\n").length;
  const imports: Import[] = [];
  const uses: Use[] = [];
  const reach = (specifier: string | null, kind: Import["kind"], at: number) =>
    imports.push({ specifier, kind, line: lineAt(at) });
  const use = (name: string, at: number) => uses.push({ name, line: lineAt(at) });
  // Names that refer to nothing outside: keys and members.
  const inert = new Set<number>();

  new Visitor({
    ImportDeclaration(node) {
      const onlyTypes =
        node.importKind === "type" ||
        (node.specifiers.length > 0 &&
          node.specifiers.every((s) => s.type === "ImportSpecifier" && s.importKind === "type"));
      reach(node.source.value, onlyTypes ? "type" : "static", node.start);
      for (const specifier of node.specifiers) {
        inert.add(specifier.local.start);
        if (specifier.type === "ImportSpecifier") inert.add(specifier.imported.start);
      }
    },
    ExportNamedDeclaration(node) {
      if (!node.source) return;
      const onlyTypes =
        node.exportKind === "type" || node.specifiers.every((s) => s.exportKind === "type");
      reach(node.source.value, onlyTypes ? "type" : "static", node.start);
      for (const specifier of node.specifiers) {
        inert.add(specifier.local.start);
        inert.add(specifier.exported.start);
      }
    },
    ExportAllDeclaration(node) {
      reach(node.source.value, node.exportKind === "type" ? "type" : "static", node.start);
    },
    ImportExpression(node) {
      const { source } = node;
      const literal = source.type === "Literal" && typeof source.value === "string";
      reach(literal ? String(source.value) : null, "dynamic", node.start);
    },
    TSImportType(node) {
      reach(node.source.value, "type", node.start);
    },
    MemberExpression(node) {
      if (!node.computed) inert.add(node.property.start);
      const member = nameOfMember(node);
      if (member === null || node.object.type !== "Identifier") return;
      if (GLOBAL_OBJECTS.has(node.object.name)) use(member, node.start);
      else use(`${node.object.name}.${member}`, node.start);
    },
    NewExpression(node) {
      if (node.callee.type === "Identifier" && node.arguments.length === 0) {
        use(`new ${node.callee.name}()`, node.start);
      }
    },
    CallExpression(node) {
      if (node.callee.type === "Identifier") use(`${node.callee.name}()`, node.start);
    },
    VariableDeclarator(node) {
      // const { now } = Date
      if (node.id.type !== "ObjectPattern" || node.init?.type !== "Identifier") return;
      for (const property of node.id.properties) {
        if (property.type !== "Property" || property.key.type !== "Identifier") continue;
        const { name } = node.init;
        use(
          GLOBAL_OBJECTS.has(name) ? property.key.name : `${name}.${property.key.name}`,
          node.start,
        );
      }
    },
    Property(node) {
      if (!node.computed && !node.shorthand) inert.add(node.key.start);
    },
    MethodDefinition(node) {
      if (!node.computed) inert.add(node.key.start);
    },
    PropertyDefinition(node) {
      if (!node.computed) inert.add(node.key.start);
    },
    TSPropertySignature(node) {
      if (!node.computed) inert.add(node.key.start);
    },
    TSMethodSignature(node) {
      if (!node.computed) inert.add(node.key.start);
    },
    TSTypeQuery(node) {
      // `typeof setTimeout` as a type calls nothing.
      inert.add(node.exprName.start);
    },
    Identifier(node) {
      if (!inert.has(node.start)) use(node.name, node.start);
    },
  }).visit(program);
  return { imports, uses, lines: source.trimEnd().split("\n").length };
}

function nameOfMember({ computed, property }: MemberExpression): string | null {
  if (property.type === "Literal") return String(property.value);
  return !computed && property.type === "Identifier" ? property.name : null;
}
