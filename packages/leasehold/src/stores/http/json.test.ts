import { expect, test } from "vitest";
import { readJson } from "../../tasks/json-text.js";
import { jsonOf } from "./json.js";

test.each([
  2 ** 53,
  -(2 ** 60),
  { a: [1e20, 123456789012345680000, 1e21, 0.1, 5e-324, 1.7976931348623157e308] },
  { '"1152921504606846976\\': '\\"1152921504606846976"', b: "9007199254740993", c: [2 ** 64] },
  { token: 1764421029000000, leaseId: "99999999999999999999999999" },
  "1152921504606846976",
])("a server reads %j as it was", (value) => {
  const json = jsonOf(value);
  expect(readJson(json)).toEqual(value);
  expect(JSON.parse(json)).toEqual(value);
});

test("other values are written as JSON.stringify writes them", () => {
  for (const value of [null, [1, "a", { b: 9007199254740991 }], 1e300, Math.PI]) {
    expect(jsonOf(value)).toBe(JSON.stringify(value));
  }
});
