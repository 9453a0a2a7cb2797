/**
 * The one reader of JSON that people and programs write: arguments, files and lines of the command line, bodies of
 * requests. `JSON.parse` alone would round numbers and drop members silently, and its messages differ between runtimes.
 */
import type { Json } from "./port.js";

/** Why a text is refused. Its message is the predicate of a sentence about the text: `is not JSON: it is empty`. */
export class JsonTextError extends Error {
  override readonly name = "JsonTextError";

  constructor(
    /** Of what would be changed, such as `items.3.id`; empty: the whole text. Null: the text is not JSON. */
    readonly path: string | null,
    readonly problem: string,
  ) {
    super(path ? `would be changed: ${path} ${problem}` : problem);
  }
}

/**
 * Parses JSON whose objects have no name twice, and whose numbers a double represents: no integers beyond 2^53, no more
 * than 17 significant digits, and none beyond a double's range.
 * @param firstLine the number of the text's first line in what the user wrote
 * @throws JsonTextError that says where the text stops being JSON, or what would be changed
 */
export function readJson(text: string, firstLine = 1): Json {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw notJson(whyNotJson(text, firstLine));
  }
  const names = checkNumbers(text);
  if (names > 1 && names !== countNames(value)) checkNames(text, firstLine);
  return value;
}

/**
 * Decodes what must be JSON. A byte order mark stays, for {@link readJson}.
 * @throws JsonTextError unless it is UTF-8
 */
export function decodeJson(bytes: ArrayBuffer | Uint8Array): string {
  try {
    return STRICT_UTF_8.decode(bytes);
  } catch {
    const begin = new Uint8Array(bytes as Uint8Array).slice(0, 2).join();
    const isUtf16 = /^(255,254|254,255|0,\d+|\d+,0)$/.test(begin);
    throw notJson(isUtf16 ? UTF_16 : "it is not UTF-8, as JSON must be");
  }
}

const STRICT_UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function notJson(why: string): JsonTextError {
  return new JsonTextError(null, `is not JSON: ${why}`);
}

const UTF_16 = "it is UTF-16, and must be UTF-8";

function whyNotJson(text: string, firstLine: number): string {
  if (text.startsWith("\ufeff")) {
    return "it begins with a byte order mark: save it as UTF-8 without one";
  }
  if (text[0] === "\0" || text[1] === "\0") return UTF_16;
  if (text.trim() === "") return "it is empty";
  const scan = new Scan(text);
  while (scan.next());
  const { at, expected } = scan;
  const found = shown(text.codePointAt(at));
  const advice = QUOTABLE.test(found) ? "; names and texts need double quotes" : "";
  return `${placeOf(text, at, firstLine)}: expected ${expected}, found ${found}${advice}`;
}

function placeOf(text: string, at: number, firstLine: number): string {
  const lines = text.slice(0, at).split(/\r\n|\r|\n/);
  const column = (lines.at(-1) ?? "").length + 1;
  return `line ${firstLine + lines.length - 1}, column ${column}`;
}

/** What is found where a user forgot double quotes, or used others. */
const QUOTABLE = /^"['`’“\p{L}]"$/u;

function shown(code: number | undefined): string {
  if (code === undefined) return "the end";
  const character = String.fromCodePoint(code);
  if (/[\p{L}\p{N}\p{P}\p{S}]/u.test(character)) return `"${character}"`;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * In one pass over the characters, because most texts have no such number and may be large.
 * @param json must be valid
 * @returns how many names its objects have
 * @throws JsonTextError
 */
function checkNumbers(json: string): number {
  let names = 0;
  for (let at = 0; at < json.length; at += 1) {
    const mark = json.charCodeAt(at);
    if (mark === QUOTE) at = endOfString(json, at + 1);
    else if (mark >= ZERO && mark <= NINE) at = checkNumber(json, at);
    else if (mark === COLON) names += 1;
  }
  return names;
}

/** Those that have survived: of a name that an object has twice, `JSON.parse` keeps the last value. */
function countNames(value: Json): number {
  let names = 0;
  // Not recursive, because texts may nest deeper than the stack.
  const open: unknown[] = [value];
  for (let each = open.pop(); each !== undefined; each = open.pop()) {
    if (Array.isArray(each)) {
      for (const item of each as readonly unknown[]) if (hasItems(item)) open.push(item);
      continue;
    }
    const object = each as Readonly<Record<string, unknown>>;
    for (const name in object) {
      names += 1;
      const item = object[name];
      if (hasItems(item)) open.push(item);
    }
  }
  return names;
}

function hasItems(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** @throws JsonTextError for the first name that its object has already */
function checkNames(json: string, firstLine: number): void {
  const scan = new Scan(json);
  const seen: Set<unknown>[] = [];
  while (scan.next()) {
    const depth = scan.path.length;
    if (scan.token === "{") seen[depth] = new Set();
    if (!scan.isName) continue;
    const [names, name] = [seen[depth], scan.path.at(-1)];
    if (names?.has(name)) {
      const problem = `occurs twice in its object, again at ${placeOf(json, scan.at, firstLine)}: remove one`;
      throw new JsonTextError(scan.path.join("."), problem);
    }
    names?.add(name);
  }
}

const [QUOTE, BACKSLASH, COLON] = [code('"'), code("\\"), code(":")];
const [ZERO, NINE] = [code("0"), code("9")];
const [POINT, SPACE, COMMA, BRACKET, BRACE] = [
  code("."),
  code(" "),
  code(","),
  code("]"),
  code("}"),
];

function code(mark: string): number {
  return mark.charCodeAt(0);
}

/**
 * @returns the index after the number
 * @throws JsonTextError
 */
function checkNumber(json: string, start: number): number {
  let end = start + 1;
  // A double keeps a number of so many characters.
  let mostKept = 15;
  for (; end < json.length; end += 1) {
    const mark = json.charCodeAt(end);
    if (mark <= SPACE || mark === COMMA || mark === BRACKET || mark === BRACE) break;
    if (mark === POINT) mostKept = json.charCodeAt(start) === ZERO ? 19 : 17;
    // Of the marks in a number, only e is after the digits.
    else if (mark > NINE) mostKept = 0;
  }
  if (end - start <= mostKept) return end;
  const isNegative = json[start - 1] === "-";
  const problem = problemOf(json.slice(isNegative ? start - 1 : start, end));
  if (problem === undefined) return end;
  const scan = new Scan(json);
  while (scan.next() && scan.at + scan.token.length <= start);
  throw new JsonTextError(scan.path.join("."), problem);
}

/** The index of the quote that ends a string of JSON, or the length of the text. */
export function endOfString(json: string, start: number): number {
  for (let at = start; ; at += 1) {
    at = json.indexOf('"', at);
    if (at === -1) return json.length;
    let before = at - 1;
    while (json.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((at - before) % 2 === 1) return at;
  }
}

/** What a double would change of a number, as it is written in JSON. */
function problemOf(token: string): string | undefined {
  const value = Number(token);
  const isBeyond = Math.abs(value) > Number.MAX_SAFE_INTEGER;
  const isTiny = Math.abs(value) < SMALLEST_WHOLE;
  // One character is the point.
  if (token.length <= MOST_DIGITS + 1 && !isBeyond && !isTiny) return undefined;
  const digits = digitsOf(token);
  const shown = token.length > 40 ? `${token.slice(0, 40)}…` : token;
  const isLost = value === 0 ? digits !== "" : isTiny && isRounded(value, digits);
  if (!Number.isFinite(value) || isLost) {
    return `is ${shown}, beyond the range of a double: ${REMEDY}`;
  }
  if (isBeyond && (/^-?\d+$/.test(token) || isRounded(value, digits))) {
    return `is ${shown}, beyond ${Number.MAX_SAFE_INTEGER}, where numbers are rounded: ${REMEDY}`;
  }
  if (digits.length <= MOST_DIGITS) return undefined;
  return `is ${shown}, and would be rounded to ${MOST_DIGITS} significant digits: ${REMEDY}`;
}

/** For any field: strings are allowed where JSON is that of users. */
const REMEDY = "send another number, or a string where strings are allowed";

/** Doubles that are closer to zero have fewer digits. */
const SMALLEST_WHOLE = 2 ** -1022;

/** As many as programs need to write any double. */
const MOST_DIGITS = 17;

/** Programs write large doubles with an exponent, which is fine unless a digit would be another. */
function isRounded(value: number, digits: string): boolean {
  if (digits.length > MOST_DIGITS) return false;
  return digitsOf(value.toExponential(digits.length - 1)) !== digits;
}

/** The significant digits, without the zeros that only place the point. */
function digitsOf(number: string): string {
  const [mantissa = ""] = number.split(/e/i, 1);
  const digits = mantissa.replace("-", "").replace(".", "");
  let [start, end] = [0, digits.length];
  while (digits[start] === "0") start += 1;
  // By a pattern, the time would grow with the square of a long run of zeros.
  while (end > start && digits[end - 1] === "0") end -= 1;
  return digits.slice(start, end);
}

type State = keyof typeof EXPECTED;

/** What may come next. */
const EXPECTED = {
  value: "a value",
  firstItem: 'a value or "]"',
  name: "a name in double quotes",
  firstName: 'a name in double quotes or "}"',
  colon: '":"',
  more: '"," or the end of the array or object',
  end: "the end",
} as const;

const STARTS_VALUE: ReadonlySet<State> = new Set(["value", "firstItem"]);
const SPACES = /[ \t\n\r]*/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
/** Without control characters, quotes and other backslashes. */
const CHARACTERS = /[ !#-[\]-\uffff]+|\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;

/** Walks over the tokens of a text until it ends, or stops being JSON. */
class Scan {
  /** Where the token begins; after the last one, where the text ends or stops being JSON. */
  at = 0;
  /** What would have been JSON there. */
  expected: string = EXPECTED.value;
  token = "";
  /** Of the token: names and indexes. */
  readonly path: (string | number)[] = [];
  readonly #text: string;
  /** The marks that end what is open. */
  readonly #open: string[] = [];
  #state: State = "value";

  constructor(text: string) {
    this.#text = text;
  }

  /** Whether the token is a name of an object. */
  get isName(): boolean {
    return this.#state === "colon";
  }

  /** Goes to the next token; false: there is none. */
  next(): boolean {
    this.at += this.token.length;
    this.at += matchAt(SPACES, this.#text, this.at).length;
    this.expected = EXPECTED[this.#state];
    const token = this.#tokenAt(this.at);
    const state = token === "" ? undefined : this.#after(token);
    if (state === undefined) return false;
    this.token = token;
    this.#state = state;
    return true;
  }

  #tokenAt(at: number): string {
    const mark = this.#text[at] ?? "";
    if ("{}[],:".includes(mark)) return mark;
    return mark === '"' ? this.#stringAt(at) : matchAt(SCALAR, this.#text, at);
  }

  /** Of a string that is none, stops within it. */
  #stringAt(start: number): string {
    let at = start + 1;
    for (let length = 1; length > 0; at += length) {
      length = matchAt(CHARACTERS, this.#text, at).length;
    }
    const mark = this.#text[at];
    if (mark === '"') return this.#text.slice(start, at + 1);
    this.at = at;
    if (mark === undefined) this.expected = "a closing double quote";
    else if (mark === "\\") this.expected = "an escape that JSON has";
    else this.expected = "an escape, such as \\n";
    return "";
  }

  /** Undefined: the token is not expected. */
  #after(token: string): State | undefined {
    const [state, inside] = [this.#state, this.#open.at(-1)];
    const isString = token.startsWith('"');
    if (token === inside && ["firstItem", "firstName", "more"].includes(state)) {
      this.#open.pop();
      this.path.pop();
    } else if (state === "more" && token === ",") {
      if (inside === "}") return "name";
      this.path.push((this.path.pop() as number) + 1);
      return "value";
    } else if (isString && (state === "name" || state === "firstName")) {
      this.path[this.path.length - 1] = JSON.parse(token) as string;
      return "colon";
    } else if (state === "colon") {
      return token === ":" ? "value" : undefined;
    } else if (!STARTS_VALUE.has(state) || "}],:".includes(token)) {
      return undefined;
    } else if (token === "{") {
      this.#open.push("}");
      this.path.push("");
      return "firstName";
    } else if (token === "[") {
      this.#open.push("]");
      this.path.push(0);
      return "firstItem";
    }
    return this.#open.length === 0 ? "end" : "more";
  }
}

function matchAt(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}
