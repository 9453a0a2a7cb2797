/** The judge of answers, fed by hand: an answer that is wrong in one way, and one that nearly is. */
import { describe, expect, it } from "vitest";
import type { OpenApi, Operation } from "../../tests/support/server/openapi.js";
import { withoutExample } from "../support/complaints.js";
import { type FuzzAnswer, Judge } from "./judge.js";

const SECRET = "0123456789abcdef0123456789abcdef";
const OPERATION = { method: "GET", template: "/" } as Operation;

interface Asked {
  /** What the document says of the answer, and of a problem. */
  readonly against?: readonly string[];
  readonly problems?: readonly string[];
  readonly operation?: Operation | undefined;
  readonly isHead?: boolean;
}

function faults(answer: Partial<FuzzAnswer>, asked: Asked = {}): string[] {
  const { against = [], problems = [], operation = OPERATION, isHead = false } = asked;
  const openapi = { checkAnswer: () => [...against], checkProblem: () => [...problems] };
  const judge = new Judge(openapi as unknown as OpenApi, [`lh_0123456789ab_${SECRET}`]);
  const whole = { status: 200, mediaType: "application/json", text: "{}", ...answer };
  return judge.faults(whole, "operation" in asked ? asked.operation : operation, isHead);
}

const problem = (more: object = {}, answer: Partial<FuzzAnswer> = {}): Partial<FuzzAnswer> => {
  const type = "urn:leasehold:problem:invalid-request";
  const text = JSON.stringify({ code: "INVALID_REQUEST", type, detail: "no", ...more });
  return { status: 422, mediaType: "application/problem+json", text, ...answer };
};
const down = { code: "CLOSING", type: "urn:leasehold:problem:closing" };

type Case = readonly [answer: Partial<FuzzAnswer>, asked?: Asked];
const CASES: Readonly<Record<string, readonly [wrong: Case, fault: string, right: Case]>> = {
  "an internal error": [
    [{ status: 500, mediaType: "text/plain", text: "oh" }],
    "answered 500: oh",
    [{ status: 503, mediaType: "text/plain", text: "oh" }],
  ],
  "a status that is none": [
    [{ status: 199 }, { operation: undefined }],
    "status 199",
    [{ status: 200 }, { operation: undefined }],
  ],
  "a key": [
    [{ text: JSON.stringify(SECRET) }],
    "a key is in the answer",
    [{ text: JSON.stringify(SECRET.slice(1)) }],
  ],
  "a body for HEAD": [
    [{ text: "{}" }, { isHead: true }],
    "an answer to HEAD has a body",
    [{ text: "" }, { isHead: true }],
  ],
  "what is no JSON": [[{ text: "<html>" }], "no JSON: <html>", [{ text: "" }]],
  "what is no JSON, and no text": [
    [{ text: "a b" }],
    "no JSON: a b",
    [{ text: "a b", mediaType: "text/plain" }],
  ],
  "what the document does not have": [
    [{}, { against: ["more"] }],
    "not as documented: more",
    [{}, { against: ["more"], operation: undefined }],
  ],
  "a problem that is none": [
    [problem({}, { mediaType: "text/html" })],
    "422 as text/html",
    [problem()],
  ],
  "a problem without a type": [[problem({}, { mediaType: "" })], "422 as nothing", [problem()]],
  "a problem with another shape": [
    [problem(), { problems: ["no title"] }],
    "problem: no title",
    [problem()],
  ],
  "a problem with another status": [
    [problem({}, { status: 409 })],
    "INVALID_REQUEST with status 409",
    [problem(down, { status: 503 })],
  ],
  "a problem of another type": [
    [problem({ type: down.type })],
    "INVALID_REQUEST of type urn:leasehold:problem:closing",
    [problem()],
  ],
  "a problem that shows its stack": [
    [problem({ detail: "Error\n    at f" })],
    `tells of its insides: ${problem({ detail: "Error\n    at f" }).text}`,
    [problem({ detail: "Error at f" })],
  ],
};

describe("an answer with", () => {
  it.each(Object.entries(CASES))("%s is found out", (_, [wrong, fault, right]) => {
    expect(faults(...wrong)).toEqual([fault]);
    expect(faults(...right)).toEqual([]);
  });

  it("each fault of the source has an example", () => {
    const found = Object.values(CASES).map(([, fault]) => fault);
    expect(withoutExample(new URL("judge.ts", import.meta.url), found)).toEqual([]);
  });
});
