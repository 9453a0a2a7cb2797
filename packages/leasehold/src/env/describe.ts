/**
 * Describes any value as text, above all what code has thrown. Code can throw anything: an Error whose message cannot be
 * read, a revoked proxy, a symbol. Nothing here throws, so that a description never fails what it is made for.
 *
 * This module imports nothing, because the command line needs it before it loads the rest of the library.
 */

/** Far more than a person reads, and far less than the limit of any store. */
const LONGEST_TEXT = 64 * 1024;
/** How many causes and members of one error are described. */
const MOST_ERRORS = 20;
/** How many items and properties of one value are shown. */
const MOST_VALUES = 200;
const LONGEST_STRING = 1_000;
const LONGEST_STACK = 16 * 1024;
const UNREADABLE = "[a value that cannot be read]";

/**
 * What was thrown, in one line: the message, and those of its causes, down to the deepest. For the messages of other errors, and
 * wherever a stack says too much.
 */
export function reasonOf(thrown: unknown): string {
  return storable(reason(thrown, new Set()));
}

/** What was thrown, with its stack, its causes, and the members of an AggregateError or a SuppressedError. For records, which outlive the log. */
export function describe(thrown: unknown): string {
  return storable(whole(thrown, new Set()));
}

/** Any value in the manner of JSON, as far as it can be read, with a bounded number of its parts. */
export function shown(value: unknown): string {
  return storable(show(value, new Set(), { left: MOST_VALUES }));
}

/** Whether it is an Error, of another realm too, as in Jest. */
export function isError(value: unknown): value is Error {
  return isInstance(value, Error) || tagOf(value) === "Error";
}

/** What kind of built-in object it says it is, of another realm too; empty if that cannot be read. */
function tagOf(value: unknown): string {
  return read(() => Object.prototype.toString.call(value).slice("[object ".length, -1), "");
}

/** As `instanceof`, which throws for a revoked proxy. */
export function isInstance<T>(
  value: unknown,
  type: abstract new (...args: never) => T,
): value is T {
  return read(() => Function.prototype[Symbol.hasInstance].call(type, value), false);
}

/** A property of any value; undefined if it has none, or it cannot be read. */
export function propertyOf(value: unknown, name: PropertyKey): unknown {
  return read(
    () => (value as Readonly<Record<PropertyKey, unknown>> | null | undefined)?.[name],
    undefined,
  );
}

/** The properties of any value, with a text for one that cannot be read; none if it is no object. */
export function entriesOf(value: unknown): readonly (readonly [name: string, value: unknown])[] {
  if (typeof value !== "object" || value === null) return [];
  const names = read(() => Object.keys(value), []);
  return names.map((name) => [
    name,
    read(() => (value as Readonly<Record<string, unknown>>)[name], UNREADABLE),
  ]);
}

/** The text as every store can keep it: of bounded length, without NUL and without half of a surrogate pair. */
export function storable(text: string): string {
  return text.slice(0, LONGEST_TEXT).replace(/\0|\p{Surrogate}/gu, "\u{fffd}");
}

function read<T>(reading: () => T, otherwise: T): T {
  try {
    return reading();
  } catch {
    return otherwise;
  }
}

function reason(thrown: unknown, seen: Set<unknown>): string {
  if (!isError(thrown)) return textOf(thrown);
  if (isDone(thrown, seen)) return "";
  const members = membersOf(thrown).map((member) => reason(member, seen));
  const cause = causeOf(thrown);
  const parts = [
    withCode(messageOf(thrown), thrown),
    [...new Set(members)].filter(Boolean).join("; "),
    cause === undefined ? "" : reason(cause, seen),
  ];
  const text = parts.reduce(joined);
  return text || nodeCodeOf(thrown) || classOf(thrown);
}

/** Many errors repeat the message of their cause. */
function joined(text: string, part: string): string {
  if (text.includes(part)) return text;
  return part.startsWith(text) ? part : `${text}: ${part}`;
}

function whole(thrown: unknown, seen: Set<unknown>): string {
  if (!isError(thrown)) return textOf(thrown);
  if (isDone(thrown, seen)) return "[already described]";
  const cause = causeOf(thrown);
  return [
    stackOf(thrown).slice(0, LONGEST_STACK),
    ...membersOf(thrown).map((member) => `one of its errors: ${whole(member, seen)}`),
    ...(cause === undefined ? [] : [`caused by: ${whole(cause, seen)}`]),
  ].join("\n");
}

/** Notes that the error is described. Chains of causes can be endless. */
function isDone(error: Error, seen: Set<unknown>): boolean {
  if (seen.has(error) || seen.size >= MOST_ERRORS) return true;
  seen.add(error);
  return false;
}

/** The stack, headed by class and message: in some engines it lacks the message, which may also have changed since. */
function stackOf(error: Error): string {
  const [name, message, stack] = [classOf(error), messageOf(error), propertyOf(error, "stack")];
  const head = withCode(message === "" ? name : `${name}: ${message}`, error);
  if (typeof stack !== "string" || stack === "") return head;
  // The second is of an error that was made without a stack.
  if (stack.includes(head) || stack === message) return stack;
  const frames = stack.indexOf("\n    at ");
  return frames === -1 ? `${head}\n${stack}` : `${head}${stack.slice(frames)}`;
}

function messageOf(error: Error): string {
  const message = read((): unknown => error.message, UNREADABLE);
  const text = typeof message === "string" ? message : message === undefined ? "" : shown(message);
  return text.slice(0, LONGEST_STACK);
}

/** Its name, or that of its class if it sets none. */
export function classOf(error: Error): string {
  const names = [propertyOf(error, "name"), propertyOf(propertyOf(error, "constructor"), "name")];
  const isTelling = (name: unknown) => typeof name === "string" && name !== "" && name !== "Error";
  return (names.find(isTelling) as string | undefined) ?? "Error";
}

/** What Node says beside the message, such as ECONNRESET of "socket hang up"; empty if nothing. */
function nodeCodeOf(error: Error): string {
  const code = propertyOf(error, "code");
  return typeof code === "string" && /^(E|UND_)[A-Z0-9_]+$/.test(code) ? code : "";
}

function withCode(text: string, error: Error): string {
  const code = nodeCodeOf(error);
  return text === "" || text.includes(code) ? text : `${text} (${code})`;
}

/** Returns the errors of an AggregateError, or what a disposal threw and what was thrown before it: a SuppressedError. */
function membersOf(error: Error): readonly unknown[] {
  if (classOf(error) === "SuppressedError") {
    return [propertyOf(error, "error"), propertyOf(error, "suppressed")];
  }
  const members = propertyOf(error, "errors");
  const slice = (): readonly unknown[] =>
    Array.isArray(members) ? (members as unknown[]).slice(0, MOST_ERRORS) : [];
  return read(slice, []);
}

function causeOf(error: Error): unknown {
  return propertyOf(error, "cause") ?? undefined;
}

/** Describes a value that is no error. */
function textOf(value: unknown): string {
  if (value === "") return "an empty string";
  if (typeof value === "string") return value;
  const own = read(() => (hasText(value) ? String(value) : ""), "");
  if (own !== "" && !own.startsWith("[object ")) return own;
  const isPlain = read(() => Object.getPrototypeOf(value) === Object.prototype, false);
  // The event of a failed WebSocket has one, for example.
  const message = propertyOf(value, "message");
  return !isPlain && typeof message === "string" && message !== "" ? message : shown(value);
}

/** Functions are their source, and arrays a list without its brackets. */
function hasText(value: unknown): boolean {
  return typeof value !== "function" && !Array.isArray(value);
}

function show(value: unknown, above: Set<unknown>, budget: { left: number }): string {
  if (budget.left <= 0) return "…";
  budget.left -= 1;
  if (typeof value === "string") return JSON.stringify(value.slice(0, LONGEST_STRING));
  if (typeof value === "bigint") return `${value}n`;
  // A class that was thrown without `new` has nothing else to tell.
  if (typeof value === "function") return `[${["function", nameOf(value)].join(" ").trimEnd()}]`;
  if (typeof value !== "object" || value === null) return String(value);
  if (above.has(value)) return "[circular]";
  above.add(value);
  const text = read(() => showObject(value, above, budget), UNREADABLE);
  above.delete(value);
  return text;
}

function nameOf(value: unknown): string {
  const name = propertyOf(value, "name");
  return typeof name === "string" ? name.slice(0, LONGEST_STRING) : "";
}

function showObject(value: object, above: Set<unknown>, budget: { left: number }): string {
  if (isError(value)) return JSON.stringify(reasonOf(value).slice(0, LONGEST_STRING));
  if (Array.isArray(value)) {
    const items = value.slice(0, budget.left).map((item) => show(item, above, budget));
    return `[${items.join(",")}${value.length > items.length ? ",…" : ""}]`;
  }
  const content = read(() => contentOf(value, above, budget), undefined);
  if (content !== undefined) return content;
  const toJson = propertyOf(value, "toJSON");
  if (typeof toJson === "function") return show(toJson.call(value, ""), above, budget);
  const names = Object.keys(value);
  const properties = names.slice(0, budget.left).map((name) => {
    const item = read(
      () => show((value as Record<string, unknown>)[name], above, budget),
      UNREADABLE,
    );
    return `${JSON.stringify(name)}:${item}`;
  });
  if (names.length > properties.length) properties.push("…");
  // The content of a Promise is not in its properties.
  const kind = propertyOf(propertyOf(value, "constructor"), "name");
  const isNamed =
    names.length === 0 && typeof kind === "string" && kind !== "Object" && kind !== "";
  return isNamed ? `[${kind}]` : `{${properties.join(",")}}`;
}

/** Describes an object whose content is not in its properties; undefined for any other. */
function contentOf(
  value: object,
  above: Set<unknown>,
  budget: { left: number },
): string | undefined {
  const kind = tagOf(value);
  if (kind === "RegExp") return RegExp.prototype.toString.call(value).slice(0, LONGEST_STRING);
  if (kind === "Response") {
    const { status, statusText } = value as { status?: unknown; statusText?: unknown };
    return [kind, status, statusText].filter(Boolean).join(" ").slice(0, LONGEST_STRING);
  }
  if (kind !== "Map" && kind !== "Set") return undefined;
  const items: string[] = [];
  // Methods of a subclass could do anything.
  const entries: Iterable<unknown> =
    kind === "Map" ? Map.prototype.entries.call(value) : Set.prototype.values.call(value);
  for (const entry of entries) {
    if (budget.left <= 0) {
      items.push("…");
      break;
    }
    const parts = kind === "Map" ? (entry as readonly unknown[]) : [entry];
    items.push(parts.map((part) => show(part, above, budget)).join(" => "));
  }
  return `${kind} {${items.join(",")}}`;
}
