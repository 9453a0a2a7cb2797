/** What an answer must be, whatever was asked. */
import { PROBLEMS, type ProblemCode, problemType } from "leasehold/internal/wire";
import type { OpenApi, Operation } from "../../tests/support/server/openapi.js";

export interface FuzzAnswer {
  readonly status: number;
  /** Without its parameters; empty: none. */
  readonly mediaType: string;
  readonly text: string;
}

/** Answers that say what this server has not, or cannot now; any other 5xx is a fault. */
const NOT_NOW: readonly number[] = [501, 503];
/** In JSON a new line is two characters. */
const INSIDES = /(\n|\\n)\s+at \S|node_modules|node:internal|\w\.[cm]?[jt]s:\d+|\bdigest\b/;
/** A key in full; answers that make one are meant to have it. */
const KEY = /lh_[0-9a-f]{12}_([0-9a-f]{32})/;

export class Judge {
  readonly #openapi: OpenApi;
  readonly #secrets: readonly string[];

  /** @param keys which no answer may hold */
  constructor(openapi: OpenApi, keys: readonly string[]) {
    this.#openapi = openapi;
    this.#secrets = keys.flatMap((key) => KEY.exec(key)?.[1] ?? []);
  }

  /** @param operation what was asked for, where that is known */
  faults(answer: FuzzAnswer, operation: Operation | undefined, isHead = false): string[] {
    const { status, mediaType, text } = answer;
    const faults: string[] = [];
    if (status >= 500 && !NOT_NOW.includes(status))
      faults.push(`answered ${status}: ${text.slice(0, 300)}`);
    if (status < 200 || status > 599) faults.push(`status ${status}`);
    if (this.#secrets.some((secret) => text.includes(secret)))
      faults.push("a key is in the answer");
    if (isHead) return text === "" ? faults : [...faults, "an answer to HEAD has a body"];
    if (mediaType === "text/event-stream" || mediaType === "text/plain") return faults;
    let body: unknown;
    try {
      body = text === "" ? undefined : JSON.parse(text);
    } catch {
      return [...faults, `no JSON: ${text.slice(0, 200)}`];
    }
    if (status >= 400) faults.push(...this.#problemFaults(answer, body));
    if (!operation || status === 405) return faults;
    const against = this.#openapi.checkAnswer(operation, status, mediaType, body);
    return [...faults, ...against.map((each) => `not as documented: ${each}`)];
  }

  #problemFaults({ status, mediaType, text }: FuzzAnswer, body: unknown): string[] {
    if (mediaType !== "application/problem+json") return [`${status} as ${mediaType || "nothing"}`];
    const faults = this.#openapi.checkProblem(body).map((each) => `problem: ${each}`);
    const { code, type } = body as { code: ProblemCode; type: string };
    if (PROBLEMS[code]?.status !== status) faults.push(`${code} with status ${status}`);
    else if (type !== problemType(code)) faults.push(`${code} of type ${type}`);
    if (INSIDES.test(text)) faults.push(`tells of its insides: ${text.slice(0, 300)}`);
    return faults;
  }
}
