/**
 * The docstrings of all public names, of which the reference is made: each name has one, functions and methods have
 * examples and say what they throw, numbers have units, and options defaults. tests/docs/docstrings.test.ts runs the examples.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lacksOf } from "../../scripts/support/reference.js";
import { entriesOf } from "../docs/public-names.js";

const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

it("has docstrings that lack nothing", () => {
  const entries = ["leasehold", "leasehold-server"].flatMap(entriesOf);
  expect(entries.length).toBeGreaterThan(10);
  expect(lacksOf(entries, root)).toEqual([]);
});

describe("finds", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "leasehold-reference-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** What a module lacks that other files of the folder help. */
  const judge = (text: string, others: Readonly<Record<string, string>> = {}) => {
    for (const [name, other] of Object.entries(others)) writeFileSync(join(folder, name), other);
    const source = join(folder, "entry.ts");
    writeFileSync(source, text);
    return lacksOf([{ specifier: "it", source }], folder).map((line) => line.replace(/^\S+ /, ""));
  };
  const EXAMPLE = "@example\n * ```ts\n * f();\n * ```\n";

  it.each([
    ["type", "export type T = string;", "T"],
    ["interface", "export interface I { a: string }", "I"],
    ["constant", "export const C = 1;", "C"],
  ])("a %s without a docstring", (_, text, name) => {
    expect(judge(text)).toEqual([`it: ${name}: no docstring`]);
    expect(judge(`/** Says what it is. */\n${text}`)).toEqual([]);
  });

  it("a name that another module declares", () => {
    const others = { "other.ts": "export interface Other {}" };
    expect(judge('export * from "./other.js";', others)).toEqual(["it: Other: no docstring"]);
    expect(judge('export { type Other as O } from "./other.js";', others)).toEqual([
      "it: O: no docstring",
    ]);
  });

  it("nothing of what is internal", () => {
    expect(judge("/** @internal */\nexport function f(): void { throw new Error(); }")).toEqual([]);
  });

  it("a function without an example", () => {
    expect(judge("/** Does it. */\nexport function f(): void {}")).toEqual(["it: f: no @example"]);
    expect(judge(`/** Does it.\n * ${EXAMPLE} */\nexport function f(): void {}`)).toEqual([]);
  });

  it("a method without an example, unless that of its class calls it", () => {
    const of = (example: string) =>
      `/** A class.\n * @example\n * ${example} */\nexport class C {\n  /** Does it. */\n  m(): void {}\n  #own(): void {}\n}`;
    expect(judge(of("new C();"))).toEqual(["it: C.m: no @example"]);
    expect(judge(of("new C().m();"))).toEqual([]);
  });

  it("a number without a unit, among options and parameters", () => {
    const option = (text: string, name = "wait", type = "number") =>
      `/** Options. */\nexport interface WaitOptions {\n/** ${text} Default 5. */ ${name}?: ${type} }`;
    expect(judge(option("How long."))).toEqual(["it: WaitOptions.wait: a number without a unit"]);
    expect(judge(option("How long.", "wait", "number | null"))).toEqual([
      "it: WaitOptions.wait: a number without a unit",
    ]);
    expect(judge(option("How long, in milliseconds."))).toEqual([]);
    expect(judge(option("How long.", "waitMs"))).toEqual([]);
    expect(judge(option("How.", "wait", "string"))).toEqual([]);
    const parameter = (text: string) =>
      `/** Waits.\n * @param wait ${text}\n * ${EXAMPLE} */\nexport function f(wait: number): void {}`;
    expect(judge(parameter("how long"))).toEqual(["it: f(wait): a number without a unit"]);
    expect(judge(parameter("in seconds"))).toEqual([]);
  });

  it("an option without a docstring or a default, those of its base included", () => {
    const options = (text: string) =>
      `interface Base {\n${text} name?: string }\n/** Options. */\nexport interface AnyOptions extends Base {}`;
    const name = "it: AnyOptions.name";
    expect(judge(options(""))).toEqual([
      `${name}: an option without a default`,
      `${name}: no docstring`,
    ]);
    expect(judge(options("/** Its name. */"))).toEqual([`${name}: an option without a default`]);
    expect(judge(options("/** Its name. Default: none. */"))).toEqual([]);
    expect(judge(options("/** Its name. Required without a number. */"))).toEqual([]);
  });

  it("a function that throws, by itself or by what it calls, and does not say so", () => {
    const of = (body: string, text = "Does it.") =>
      `/** ${text}\n * ${EXAMPLE} */\nexport async function f(): Promise<void> { ${body} }\n` +
      "function check(): void { inner(); }\n" +
      "const inner = (): void => { throw new Error(); };\n" +
      "function invariant(is: boolean): asserts is { if (!is) throw new Error(); }";
    const lacks = ["it: f: throws, and does not say so"];
    expect(judge(of("throw new Error();"))).toEqual(lacks);
    expect(judge(of("check();"))).toEqual(lacks);
    expect(judge(of("try { check(); } catch (error) { throw error; }"))).toEqual(lacks);
    expect(judge(of("check();", "Does it.\n * @throws Error always"))).toEqual([]);
    expect(judge(of("check();", "Rejects if it cannot."))).toEqual([]);
    expect(judge(of("try { check(); } catch {}"))).toEqual([]);
    expect(judge(of("setTimeout(() => check());"))).toEqual([]);
    expect(judge(of("invariant(true);"))).toEqual([]);
  });
});
