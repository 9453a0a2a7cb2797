/** The public names of a package and the docstring of each, read from the sources. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Class, type Node, parseSync, type TSInterfaceBody } from "oxc-parser";

const packages = fileURLToPath(new URL("../../packages", import.meta.url));

export interface Member {
  readonly name: string;
  readonly docstring: string;
}

export interface PublicName {
  /** `leasehold/fence: memoryGuard`. */
  readonly title: string;
  readonly name: string;
  /** Empty if there is none. */
  readonly docstring: string;
  /** Public methods of a class or an interface. Empty for other declarations. */
  readonly methods: readonly Member[];
  readonly kind: "class" | "interface" | "other";
}

export interface Entry {
  /** What programs import: `leasehold/fence`. */
  readonly specifier: string;
  /** The built module. */
  readonly built: string;
  /** Its source. */
  readonly source: string;
}

/** The entries of a package that follow semantic versioning and export names. */
export function entriesOf(name: string): Entry[] {
  const folder = join(packages, name);
  const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    exports: Readonly<Record<string, string | { readonly default: string }>>;
  };
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === "string" || path.startsWith("./internal")) return [];
    const source = target.default.replace("/dist/", "/src/").replace(/\.js$/, ".ts");
    const specifier = name + path.slice(1);
    return [{ specifier, built: join(folder, target.default), source: join(folder, source) }];
  });
}

/** Exported names of an entry, values and types, with the docstrings of their declarations. */
export function namesOf({ specifier, source }: Entry): PublicName[] {
  return [...exportsOf(source)].map(([name, found]) => {
    const { node, docstring } = found;
    const title = `${specifier}: ${name}`;
    if (node.type === "ClassDeclaration") {
      return { title, name, docstring, kind: "class", methods: methodsOf(found, node.body.body) };
    }
    if (node.type === "TSInterfaceDeclaration") {
      const methods = methodsOf(found, node.body.body);
      return { title, name, docstring, kind: "interface", methods };
    }
    return { title, name, docstring, kind: "other", methods: [] };
  });
}

interface Declaration {
  readonly node: Node;
  readonly docstring: string;
  readonly docstringOf: (node: Node) => string;
}

/** By exported name, in the order of the file; of a function with overloads the first. */
function exportsOf(path: string): Map<string, Declaration> {
  const { program, docstringOf } = parse(path);
  const found = new Map<string, Declaration>();
  const add = (name: string, node: Node, statement: Node = node) => {
    const first = found.get(name);
    if (first?.docstring) return;
    found.set(name, { node, docstring: docstringOf(statement), docstringOf });
  };
  for (const statement of program.body) {
    if (statement.type === "ExportAllDeclaration") {
      const { exported, source } = statement;
      if (exported?.type === "Identifier") add(exported.name, statement);
      else for (const entry of exportsOf(beside(path, source.value))) found.set(...entry);
    } else if (statement.type === "ExportDefaultDeclaration") {
      add("default", statement.declaration, statement);
    } else if (statement.type === "ExportNamedDeclaration") {
      const { declaration, source, specifiers } = statement;
      if (source) {
        const there = exportsOf(beside(path, source.value));
        for (const { local, exported } of specifiers) {
          const reached = there.get(nameOf(local));
          // Types of other packages have no source here.
          if (reached) found.set(nameOf(exported), reached);
        }
      } else if (declaration?.type === "VariableDeclaration") {
        for (const { id } of declaration.declarations) add(nameOf(id), declaration, statement);
      } else if (declaration && "id" in declaration && declaration.id) {
        add(nameOf(declaration.id), declaration, statement);
      }
    }
  }
  return found;
}

function methodsOf(
  { docstringOf }: Declaration,
  members: Class["body"]["body"] | TSInterfaceBody["body"],
): Member[] {
  const methods = new Map<string, string>();
  for (const member of members) {
    const isMethod =
      member.type === "TSMethodSignature" ||
      (member.type === "MethodDefinition" && member.kind === "method" && !member.static);
    if (!isMethod || member.key.type !== "Identifier" || member.computed) continue;
    const { name } = member.key;
    if (!methods.get(name)) methods.set(name, docstringOf(member));
  }
  return [...methods].map(([name, docstring]) => ({ name, docstring }));
}

const parsed = new Map<string, ReturnType<typeof read>>();

function parse(path: string): ReturnType<typeof read> {
  const known = parsed.get(path) ?? read(path);
  parsed.set(path, known);
  return known;
}

function read(path: string) {
  const text = readFileSync(path, "utf8");
  const { program, comments, errors } = parseSync(path, text);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  const docstrings = comments.filter(({ type, value }) => type === "Block" && value[0] === "*");
  const docstringOf = (node: Node) => {
    const before = docstrings.findLast(({ end }) => end <= node.start);
    const isBeside = before && text.slice(before.end, node.start).trim() === "";
    return isBeside ? plain(before.value) : "";
  };
  return { program, docstringOf };
}

/** A docstring without the asterisks of its lines. */
export function plain(comment: string): string {
  return comment.replaceAll(/^ *\*+ ?/gm, "");
}

function beside(path: string, specifier: string): string {
  return join(dirname(path), specifier.replace(/\.js$/, ".ts"));
}

function nameOf(node: Node): string {
  if (node.type === "Identifier") return node.name;
  if (node.type === "Literal") return String(node.value);
  throw new Error(`a name of type ${node.type}`);
}
