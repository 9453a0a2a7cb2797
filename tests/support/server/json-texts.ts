/** Texts of users and the verdict on each, which is the same wherever they are written. */

export const ACCEPTED_JSON: readonly string[] = [
  "9007199254740991",
  "-9007199254740991",
  "[0.1,1e21,1.5E+300,5e-324,-0.0,1.10000000000000000000]",
  "[0.30000000000000004,3.1415926535897931,9.9999999999999992e+22,1.1920928955078125e-7]",
  '{"12345678901234567890":"a \\" 12345678901234567890, 1e400"}',
  '"hello"',
  "null",
  ' \n{"é": "\\u0001"}\t',
  '[{"a":{"a":[{"a":1,"b:":":"},{"a":2}]},"A":3},{"a":4}]',
];

const REMEDY = "send another number, or a string where strings are allowed";
const NOT_INTEGER = `beyond 9007199254740991, where numbers are rounded: ${REMEDY}`;
const NOT_DIGITS = `and would be rounded to 17 significant digits: ${REMEDY}`;
const NOT_DOUBLE = `beyond the range of a double: ${REMEDY}`;

/** The text, the path of the number that would be changed, and the reason. */
export const CHANGED_JSON: readonly (readonly [string, string, string])[] = [
  ['{"id":1970670598291982290}', "id", `is 1970670598291982290, ${NOT_INTEGER}`],
  ['{"a":[1,{"b":-9007199254740993}]}', "a.1.b", `is -9007199254740993, ${NOT_INTEGER}`],
  ["12345678901234567890", "", `is 12345678901234567890, ${NOT_INTEGER}`],
  ["9007199254740992", "", `is 9007199254740992, ${NOT_INTEGER}`],
  ["[9007199254740993.0]", "0", `is 9007199254740993.0, ${NOT_INTEGER}`],
  ["[9007199254740993e0]", "0", `is 9007199254740993e0, ${NOT_INTEGER}`],
  ['{"pi":3.14159265358979323846}', "pi", `is 3.14159265358979323846, ${NOT_DIGITS}`],
  ["[0,12345678901234567890.5]", "1", `is 12345678901234567890.5, ${NOT_DIGITS}`],
  ["[1e400]", "0", `is 1e400, ${NOT_DOUBLE}`],
  ["[-1e400]", "0", `is -1e400, ${NOT_DOUBLE}`],
  ["[1e-400]", "0", `is 1e-400, ${NOT_DOUBLE}`],
];

/** The text, the path of a name that its object has twice, and where it is again. */
export const REPEATED_JSON: readonly (readonly [string, string, string])[] = [
  ['{"id":1,"id":2}', "id", "column 9"],
  ['[0,{"a":{"b":[1],"c":{"b":2},"b":null}}]', "1.a.b", "column 30"],
  ['{"\\u0061":{"x":":"},"b":1,"a":{}}', "a", "column 27"],
  ['{"__proto__":1,"__proto__":2}', "__proto__", "column 16"],
].map(([text = "", path = "", place]) => [
  text,
  path,
  `occurs twice in its object, again at line 1, ${place}: remove one`,
]);

/** The text, and where it stops being JSON. */
export const BROKEN_JSON: readonly (readonly [string, string])[] = [
  ["{'id': 5}", 'line 1, column 2: expected a name in double quotes or "}", found "\'"'],
  [`'{"id": 5}'`, 'line 1, column 1: expected a value, found "\'"; names and texts need double'],
  ["{id: 5}", 'column 2: expected a name in double quotes or "}", found "i"'],
  ['["a" "b"]', 'line 1, column 6: expected "," or the end of the array or object'],
  ["hello", 'line 1, column 1: expected a value, found "h"; names and texts need double quotes'],
  ['{"a":1,}', "line 1, column 8: expected a name in double quotes"],
  ["[1,\n\t007]", "line 2, column 3: expected"],
  ["NaN", "line 1, column 1: expected a value"],
  ["\ufeff1", "it begins with a byte order mark: save it as UTF-8 without one"],
  ["", "it is empty"],
  [" ", "it is empty"],
];
