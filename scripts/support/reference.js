// Reads the public names of packages with TypeScript's compiler, and says what their docstrings lack.
import { createRequire } from "node:module";
import { relative } from "node:path";

// TypeScript 7 has no such interface yet. This is the version that reports the API.
const { resolve } = createRequire(import.meta.url);
const ts = createRequire(resolve("@microsoft/api-extractor"))("typescript");

const COMPILER_OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2024.d.ts", "lib.esnext.disposable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
  strict: true,
  skipLibCheck: true,
  noEmit: true,
};

/** How deep a call is followed in search of a `throw`. */
const DEPTH = 4;
/** Types of options, by their names. */
const OPTIONS = /(?:Options|Settings|Limits|Defaults)$/;
/** Names of numbers that state their unit, or have none. */
const NAMES_UNIT = /(?:Ms|Bytes|Count|PerSecond|Attempts)$|^(?:port|priority|seed|token|version)$/;
const STATES_UNIT =
  /\b(?:ms|milliseconds?|seconds?|bytes?|[KM]iB|ratio|how many|number of|at most|times)\b/i;
const STATES_DEFAULT = /\bdefaults?\b|\brequired (?:with|without|if)\b/i;
const STATES_ERRORS = /\b(?:throws?|rejects?)\b/i;

/**
 * @param {readonly { specifier: string, source: string }[]} entries what programs import, and its module
 * @param {string} root the folder of the packages. If it has a tsconfig.json, names of packages are found by its `paths`
 * @returns {string[]} what is missing, a line for each, with its place
 */
export function lacksOf(entries, root) {
  const configFilePath = `${root}/tsconfig.json`;
  const { config } = ts.readConfigFile(configFilePath, ts.sys.readFile);
  const paths = config?.compilerOptions?.paths ?? {};
  const program = ts.createProgram(
    entries.map(({ source }) => source),
    { ...COMPILER_OPTIONS, paths, configFilePath },
  );
  return new Reader(program, root).read(entries);
}

class Reader {
  #program;
  #checker;
  #root;
  /** Declarations that were read: an entry may export a name of another one. */
  #seen = new Set();
  /** @type {string[]} */
  #lacks = [];

  constructor(program, root) {
    this.#program = program;
    this.#checker = program.getTypeChecker();
    this.#root = root;
  }

  read(entries) {
    for (const { specifier, source } of entries) {
      const file = this.#checker.getSymbolAtLocation(this.#program.getSourceFile(source));
      for (const exported of this.#checker.getExportsOfModule(file)) {
        const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
        const symbol = isAlias ? this.#checker.getAliasedSymbol(exported) : exported;
        this.#readExport(symbol, `${specifier}: ${exported.name}`);
      }
    }
    return this.#lacks.sort();
  }

  #readExport(symbol, title) {
    if (!this.#readText(symbol, title)) return;
    const { flags } = symbol;
    if (flags & ts.SymbolFlags.Function) this.#readFunction(symbol, title, () => false);
    if (flags & ts.SymbolFlags.Class) this.#readMethods(symbol, title);
    const isType = (flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias)) !== 0;
    if (isType && OPTIONS.test(symbol.name)) this.#readOptions(symbol, title);
  }

  /** Notes a missing docstring. Returns whether to read on. */
  #readText(symbol, title) {
    const node = this.#declarationOf(symbol);
    if (!node || this.#seen.has(node) || this.#tagsOf(symbol).has("internal")) return false;
    this.#seen.add(node);
    if (this.#textOf(symbol) === "") this.#note(node, title, "no docstring");
    return true;
  }

  #readMethods(symbol, title) {
    for (const member of this.#membersOf(symbol)) {
      const node = this.#declarationOf(member);
      const isPublic = node && ts.isIdentifier(node.name ?? {}) && !isHidden(node);
      if (!isPublic || !(member.flags & ts.SymbolFlags.Method)) continue;
      const name = `${title}.${member.name}`;
      if (!this.#readText(member, name)) continue;
      const owner = this.#checker.getSymbolAtLocation(node.parent.name) ?? symbol;
      // An interface that is merged with the class repeats methods of others, such as Node's EventEmitter.
      const isShown = () =>
        !ts.isMethodDeclaration(node) || this.#examplesOf(owner).includes(`.${member.name}(`);
      this.#readFunction(member, name, isShown);
    }
  }

  #readFunction(symbol, title, isShown) {
    const nodes = symbol.declarations.filter((node) => this.#isOwn(node));
    if (!this.#tagsOf(symbol).has("example") && !isShown()) {
      this.#note(nodes[0], title, "no @example");
    }
    const isThrowing = nodes.some((node) => this.#isThrowing(node, DEPTH, new Set()));
    if (isThrowing && !STATES_ERRORS.test(this.#textOf(symbol))) {
      this.#note(nodes[0], title, "throws, and does not say so");
    }
    for (const parameter of nodes.flatMap(({ parameters }) => parameters)) {
      if (!ts.isIdentifier(parameter.name)) continue;
      const named = this.#checker.getSymbolAtLocation(parameter.name);
      const text = `${this.#textOf(named)} ${this.#textOf(symbol)}`;
      this.#readNumber(named, parameter, `${title}(${named.name})`, text);
    }
  }

  #readOptions(symbol, title) {
    for (const option of this.#membersOf(symbol)) {
      const name = `${title}.${option.name}`;
      if (!this.#readText(option, name)) continue;
      const node = this.#declarationOf(option);
      this.#readNumber(option, node, name, this.#textOf(option));
      const isOptional = (option.flags & ts.SymbolFlags.Optional) !== 0;
      if (isOptional && !STATES_DEFAULT.test(this.#textOf(option))) {
        this.#note(node, name, "an option without a default");
      }
    }
  }

  #readNumber(symbol, node, title, text) {
    if (!isNumeric(this.#checker.getTypeOfSymbol(symbol))) return;
    if (NAMES_UNIT.test(symbol.name) || STATES_UNIT.test(text)) return;
    this.#note(node, title, "a number without a unit");
  }

  /** Whether it throws by itself, or by what it calls of these packages; not in functions that it passes on. */
  #isThrowing({ body }, depth, within) {
    if (!body || within.has(body)) return false;
    within.add(body);
    const visit = (node) => {
      if (ts.isFunctionLike(node) || ts.isClassLike(node)) return false;
      if (ts.isThrowStatement(node)) return true;
      if (ts.isTryStatement(node) && node.catchClause) {
        return [node.catchClause, node.finallyBlock].some((block) => block && visit(block));
      }
      const isCall = ts.isCallExpression(node) || ts.isNewExpression(node);
      const called = isCall && depth > 0 ? this.#calledBy(node) : undefined;
      if (called && this.#isThrowing(called, depth - 1, within)) return true;
      return ts.forEachChild(node, (child) => visit(child) || undefined) ?? false;
    };
    return visit(body);
  }

  /** The function that a call reaches; none for an assertion, which fails by a mistake of ours alone. */
  #calledBy(call) {
    const declaration = this.#checker.getResolvedSignature(call)?.declaration;
    if (!declaration || !this.#isOwn(declaration) || declaration.type?.assertsModifier) return;
    return [declaration, ...(declaration.symbol?.declarations ?? [])].find(({ body }) => body);
  }

  #membersOf(symbol) {
    return this.#checker.getPropertiesOfType(this.#checker.getDeclaredTypeOfSymbol(symbol));
  }

  #declarationOf(symbol) {
    return symbol.declarations?.find((node) => this.#isOwn(node));
  }

  #isOwn(node) {
    const { fileName } = node.getSourceFile();
    return fileName.startsWith(this.#root) && !fileName.includes("/node_modules/");
  }

  /** Its docstring without the examples. */
  #textOf(symbol) {
    const tags = symbol.getJsDocTags(this.#checker).filter(({ name }) => name !== "example");
    const texts = tags.map(({ name, text }) => `@${name} ${ts.displayPartsToString(text)}`);
    const text = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker));
    return [text, ...texts].join("\n").trim();
  }

  #examplesOf(symbol) {
    const tags = symbol.getJsDocTags(this.#checker).filter(({ name }) => name === "example");
    return tags.map(({ text }) => ts.displayPartsToString(text)).join("\n");
  }

  #tagsOf(symbol) {
    return new Set(symbol.getJsDocTags(this.#checker).map(({ name }) => name));
  }

  #note(node, title, what) {
    const file = node.getSourceFile();
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    this.#lacks.push(`${relative(this.#root, file.fileName)}:${line + 1} ${title}: ${what}`);
  }
}

/** Whether it is a number, or a number among others. */
function isNumeric(type) {
  return type.isUnion() ? type.types.some(isNumeric) : (type.flags & ts.TypeFlags.Number) !== 0;
}

function isHidden(node) {
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return (ts.getCombinedModifierFlags(node) & hidden) !== 0;
}
