/**
 * Compares an answer with the one that a document prints. The document has names for values that differ
 * from run to run (ids, secrets, tokens). The first answer with a name binds the actual value to it. From
 * then on, names in requests become their values, and answers must have the values of their names.
 */

/** Members whose text the server chooses. */
const CHOSEN = new Set([
  "id",
  "key",
  "leaseId",
  "grantId",
  "replacedGrantId",
  "requestId",
  "x-request-id",
]);
/** Members that hold fencing tokens. */
const TOKENS = new Set(["fencingToken", "token"]);
/** Members with a random value, which no later request needs. */
const RANDOM = new Set(["retryInMs"]);
/** Matches any value; as a member, any further members. */
const ANYTHING = "…";

export class Names {
  readonly #texts = new Map<string, string>();
  readonly #tokens = new Map<number, number>();
  #sent = "";

  /** What is sent for a printed text. */
  toActual(printed: string): string {
    let text = printed;
    for (const [name, value] of this.#named()) text = text.replaceAll(name, value);
    text = text.replaceAll(
      /("(?:fencingToken|token|expectedToken)": ?)(\d+)/g,
      (_, member: string, token: string) => `${member}${this.#tokens.get(Number(token)) ?? token}`,
    );
    this.#sent += `\n${text}`;
    return text;
  }

  /** Remembers what has a name; says where the rest differs: one line each, none if it is the same. */
  compare(printed: unknown, actual: unknown, key = "", path = ""): string[] {
    const at = path === "" ? "the answer" : path;
    const differs = [`${at} is ${show(actual)}, printed is ${show(printed)}`];
    if (printed === ANYTHING) return actual === undefined ? differs : [];
    if (Array.isArray(printed)) {
      if (!Array.isArray(actual) || printed.length !== actual.length) return differs;
      return printed.flatMap((each, index) =>
        this.compare(each, actual[index], key, `${path}[${index}]`),
      );
    }
    if (isObject(printed)) {
      if (!isObject(actual)) return differs;
      const open = ANYTHING in printed;
      const keys = new Set([...Object.keys(printed), ...(open ? [] : Object.keys(actual))]);
      keys.delete(ANYTHING);
      return [...keys].flatMap((name) =>
        this.compare(printed[name], actual[name], name, `${path}.${name}`),
      );
    }
    if (typeof printed === "string" && typeof actual === "string") {
      return this.#sameText(printed, actual, key) ? [] : differs;
    }
    if (typeof printed === "number" && typeof actual === "number") {
      return this.#sameNumber(printed, actual, key) ? [] : differs;
    }
    return printed === actual ? [] : differs;
  }

  #sameText(printed: string, actual: string, key: string): boolean {
    if (key === "nextCursor") {
      this.#texts.set(printed, actual);
      return true;
    }
    const known = this.#texts.has(printed) || this.#sent.includes(printed);
    if (!CHOSEN.has(key) || known) {
      let expected = printed;
      for (const [name, value] of this.#named()) expected = expected.replaceAll(name, value);
      return expected === actual;
    }
    // Not the same, but of the same form; and two names are not of one thing.
    if (shape(printed) !== shape(actual) || [...this.#texts.values()].includes(actual))
      return false;
    this.#texts.set(printed, actual);
    return true;
  }

  /** A name may have another one in it, as a key has its id. */
  #named(): [name: string, value: string][] {
    return [...this.#texts].sort(([a], [b]) => b.length - a.length);
  }

  #sameNumber(printed: number, actual: number, key: string): boolean {
    if (RANDOM.has(key)) return true;
    if (!TOKENS.has(key)) return printed === actual;
    const known = this.#tokens.get(printed);
    if (known === undefined) this.#tokens.set(printed, actual);
    return known === undefined || known === actual;
  }
}

/** The digits of ids in hex are random, and so is the checksum of a key. The rest of them is not. */
function shape(text: string): string {
  const [, body = text] = /^(lh_[0-9a-f]+_[0-9a-f]{32})[0-9A-Za-z]{6}$/.exec(text) ?? [];
  return body.replaceAll(/[0-9a-f]/g, "0");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function show(value: unknown): string {
  return value === undefined ? "missing" : JSON.stringify(value);
}
