import fc from "fast-check";
import { expect, test } from "vitest";
import {
  ACCEPTED_JSON,
  BROKEN_JSON,
  CHANGED_JSON,
  REPEATED_JSON,
} from "../../../../tests/support/server/json-texts.js";
import { decodeJson, JsonTextError, readJson } from "./json-text.js";

function refusal(read: () => unknown): JsonTextError {
  try {
    read();
  } catch (error) {
    if (error instanceof JsonTextError) return error;
    throw error;
  }
  throw new Error("it was taken");
}

test.each(ACCEPTED_JSON)("takes %s", (text) => {
  expect(readJson(text)).toEqual(JSON.parse(text));
});

test.each(CHANGED_JSON)("refuses %s: of %j a double would be another number", (text, path, why) => {
  expect(refusal(() => readJson(text))).toMatchObject({ path, problem: why });
});

test.each(REPEATED_JSON)("refuses %s, whose %j would lose a value", (text, path, problem) => {
  expect(refusal(() => readJson(text))).toMatchObject({ path, problem });
});

test("names the line of a name that occurs again, and takes deep nests", () => {
  const text = '{"a":\n1,\n "a":2}';
  expect(refusal(() => readJson(text, 3)).problem).toContain("line 5, column 2");
  const deep = `${'{"a":['.repeat(20_000)}0${"]}".repeat(20_000)}`;
  expect(readJson(deep)).toHaveProperty("a.0.a");
});

test.each(BROKEN_JSON)("refuses %s, which is not JSON", (text, why) => {
  const error = refusal(() => readJson(text));
  expect(error.path).toBe(null);
  expect(error.message).toContain(why);
});

test.each([
  ["1970670598291982290", ""],
  ['{"id":1970670598291982290}', "id"],
  ['[{"id":1},{"a":"x","b":[true,{"c d":[0,1e400]}],"z":9007199254740993}]', "1.b.1.c d.1"],
  ['{"1e400":"1970670598291982290","\\u0061\\"":-9007199254740993}', 'a"'],
])("names the path of the number in %s", (text, path) => {
  expect(refusal(() => readJson(text)).path).toBe(path);
});

test.each([
  ["[1,\n 2,]", "line 2, column 4: expected a value, found"],
  ['{\r\n"a": 1\r\n"b": 2}', 'line 3, column 1: expected ","'],
  ['{"a": 1} {"b": 2}', "line 1, column 10: expected the end"],
  ['{"a": "b', "line 1, column 9: expected a closing double quote, found the end"],
  ['["a\tb"]', "line 1, column 4: expected an escape, such as \\n, found U+0009"],
  ['["a\\x"]', "line 1, column 4: expected an escape that JSON has"],
  ["{id: 5}", "line 1, column 2: expected a name in double quotes"],
  ["[01]", 'line 1, column 3: expected ","'],
])("says where %s stops being JSON", (text, where) => {
  expect(refusal(() => readJson(text)).message).toContain(`is not JSON: ${where}`);
});

test("counts lines from that of the text", () => {
  expect(refusal(() => readJson("x", 7)).message).toContain("line 7, column 1");
});

test.each([
  [Buffer.from("\ufeff1", "utf16le"), "UTF-16"],
  [Buffer.from("\ufeff1", "utf16le").swap16(), "UTF-16"],
  [Buffer.from('{"é":1}', "utf16le"), "UTF-16"],
  [Buffer.from('{"é":1}', "latin1"), "not UTF-8"],
  [Buffer.from('{"a":1}', "utf16le"), "UTF-16"],
  [Buffer.from("\ufeff1"), "byte order mark"],
])("refuses the bytes %j", (bytes, why) => {
  expect(refusal(() => readJson(decodeJson(bytes))).message).toContain(why);
});

test.each(["3e-324", "-3e-324", "1.234567e-320", "0.3e-323", "4.94065645841246e-324"])(
  "refuses %s, of which a double keeps fewer digits than it has",
  (text) => {
    const shown = `a.0 is ${text}, beyond the range of a double`;
    expect(refusal(() => readJson(`{"a":[${text}]}`)).message).toContain(shown);
  },
);

test("takes the smallest doubles as programs write them", () => {
  for (const text of ["5e-324", "4.9406564584124654e-324", "2.2250738585072014e-308", "0e-400"]) {
    expect(readJson(text)).toBe(Number(text));
  }
});

test("takes what programs write for doubles, and returns it unchanged", () => {
  const written = fc.double({ noNaN: true, noDefaultInfinity: true }).chain((value) =>
    fc.constantFrom(
      // C and many others; JavaScript, except for the integers that it writes as digits.
      value.toExponential(16),
      /[.e]/.test(`${value}`) ? `${value}` : value.toExponential(),
    ),
  );
  fc.assert(
    fc.property(written, (text) => {
      expect(readJson(`{"a":[${text}]}`)).toEqual({ a: [Number(text)] });
    }),
  );
});

test("refuses exactly the texts that JSON.parse refuses, however they are broken", () => {
  const marks = ["", '"', "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "'", "\n", "u"];
  const broken = fc
    .tuple(fc.json(), fc.nat(), fc.nat({ max: 2 }), fc.constantFrom(...marks))
    .map(([json, at, length, mark]) => {
      const start = at % (json.length + 1);
      return json.slice(0, start) + mark + json.slice(start + length);
    });
  fc.assert(
    fc.property(broken, (text) => {
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        isJson = false;
      }
      let error: unknown;
      try {
        readJson(text);
      } catch (thrown) {
        error = thrown;
      }
      if (error === undefined) return isJson;
      const { path, message } = error as JsonTextError;
      // Of JSON, only what would be changed is refused. Otherwise, the text stops before its end or at it, not for an unknown reason.
      return isJson
        ? path !== null
        : path === null && !message.includes("expected the end, found the end");
    }),
    { numRuns: 3_000 },
  );
});
