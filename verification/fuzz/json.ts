/** JSON that may be wrong in ways that no object can be: keys twice, numbers beyond any, no JSON at all. */
import type { Chance } from "./chance.js";

/** Text that stands as it is where a value should. */
export class Raw {
  constructor(readonly text: string) {}
}
/** An object, member by member. */
export class Members {
  constructor(readonly list: [key: string, value: Node][]) {}
}
export type Node = Raw | Members | Node[] | string | number | boolean | null;

export function write(node: Node): string {
  if (node instanceof Raw) return node.text;
  if (node instanceof Members) {
    return `{${node.list.map(([key, value]) => `${JSON.stringify(key)}:${write(value)}`).join(",")}}`;
  }
  if (Array.isArray(node)) return `[${node.map(write).join(",")}]`;
  return JSON.stringify(node);
}

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

/** Texts that programs stumble over, as they are. */
export const ODD_TEXTS: readonly string[] = [
  "",
  " ",
  "\0",
  "a\0b",
  "\ud800",
  "\udfff\ud800",
  "\ufeff",
  "\ufeffx",
  "é",
  "é".repeat(128),
  "é".repeat(129),
  "e\u0301",
  "\u202eabc",
  "😀",
  "\u2028",
  "x".repeat(256),
  "x".repeat(257),
  "x".repeat(5_000),
  "__proto__",
  "constructor",
  "toString",
  "null",
  "undefined",
  "NaN",
  "../../etc/passwd",
  "%00",
  "%ZZ",
  "'; drop table leasehold.lease; --",
  "\\",
  '"',
  "\r\nx: y",
  "{{7*7}}",
  "<script>alert(1)</script>",
  "0",
  "-0",
  "1e3",
  "default",
  "task:",
  "task:x",
  "2020-01-01T00:00:00Z",
  "9999-12-31T23:59:59Z",
  "2020-02-30T00:00:00Z",
  "+275760-09-13",
  "0".repeat(48),
  "F".repeat(48),
  `cg.${"0".repeat(48)}`,
  `cg==.${"0".repeat(48)}`,
  "00000000-0000-0000-0000-000000000000",
  "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

/** ... and values, as they are written. */
const ODD_VALUES: readonly string[] = [
  "0",
  "-0",
  "1",
  "-1",
  "1.5",
  "0.1",
  "99",
  "100",
  "1e3",
  "1e999",
  "-1e999",
  "1e-400",
  "2147483647",
  "2147483648",
  "4294967296",
  "9007199254740991",
  "9007199254740992",
  "9007199254740993",
  "1".repeat(400),
  "1e308",
  "3600000",
  "3600001",
  "999",
  "65536",
  "null",
  "true",
  "false",
  "[]",
  "{}",
  "[null]",
  '[""]',
  "[[]]",
  '{"":null}',
  '""',
  '{"__proto__":{"admin":true}}',
  '{"constructor":{"prototype":{"x":1}}}',
  '{"toJSON":1}',
  '"\\ud800"',
  '"\\u0000"',
  '"\\/"',
  deep(50),
  deep(1_001),
  deep(20_000),
  '{"a":'.repeat(300) + "1" + "}".repeat(300),
  `[${Array(1_001).fill("1").join(",")}]`,
];

/** Texts in place of a value with which the whole is no JSON any more. */
const NO_VALUES: readonly string[] = [
  "undefined",
  "NaN",
  "Infinity",
  "'a'",
  "01",
  "+1",
  "1.",
  ".5",
  "0x10",
  "[1,]",
  "{,}",
  "",
  '"\n"',
  '"\t"',
  '"\\x41"',
  '"\\u12"',
  '"',
  "{",
  "]",
  "// a",
  "/* a */ 1",
  "1 2",
  "\u00a01",
];

const ODD_KEYS: readonly string[] = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "length",
  "",
  "\0",
  "x".repeat(300),
  "id",
  "namespace",
  "role",
  "leaseId",
  "ttlMs",
  "resource",
  "\ud800",
  "hasOwnProperty",
];

function oddValue(chance: Chance): Raw {
  if (chance.often(8)) return new Raw(chance.pick(NO_VALUES));
  if (chance.often(1)) return new Raw(JSON.stringify("x".repeat(chance.pick([70_000, 1_100_000]))));
  return chance.often(50)
    ? new Raw(chance.pick(ODD_VALUES))
    : new Raw(JSON.stringify(chance.pick(ODD_TEXTS)));
}

/** Spoils one place of a value: replaces it, or leaves out, adds, repeats or renames a member. */
export function spoil(node: Node, chance: Chance): Node {
  if (node instanceof Members && node.list.length > 0 && chance.often(85)) {
    const at = chance.below(node.list.length);
    const [key, value] = node.list[at]!;
    const list = [...node.list];
    const how = chance.below(10);
    if (how < 5) list[at] = [key, spoil(value, chance)];
    else if (how === 5) list.splice(at, 1);
    else if (how === 6) list.push([chance.pick(ODD_KEYS), oddValue(chance)]);
    else if (how === 7) list.push([key, chance.often(50) ? value : oddValue(chance)]);
    else if (how === 8) list[at] = [key.toUpperCase(), value];
    else list[at] = [key, oddValue(chance)];
    return new Members(list);
  }
  if (Array.isArray(node) && node.length > 0 && chance.often(75)) {
    const at = chance.below(node.length);
    if (chance.often(15)) return [...node, node[at]!];
    if (chance.often(5)) return Array<Node>(chance.pick([1_000, 1_001])).fill(node[at]!);
    return node.map((item, index) => (index === at ? spoil(item, chance) : item));
  }
  return oddValue(chance);
}
