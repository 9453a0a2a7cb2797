/** What goes in as JSON comes out the same: data, output and progress. */
import type { Json } from "../../tasks/port.js";
import type { Section } from "./fixture.js";

function nested(depth: number): Json {
  let value: Json = "deep";
  for (let level = 0; level < depth; level += 1) value = level % 2 ? [value] : { a: value };
  return value;
}

const VALUES: readonly (readonly [string, Json])[] = [
  ["null", null],
  ["false, zero and the empty string", [false, 0, ""]],
  ["an empty object and an empty array", [{}, []]],
  ["a bare string", "text"],
  ["a string that is JSON itself", '{"a": [1, "}"]}'],
  ["large and small numbers", [2 ** 53, -(2 ** 53), 1e308, 5e-324, 0.1, 1e21, 123456789.123456]],
  ["unicode", "ünïcödé 漢字 🦊 \u200d\u202e \u2028"],
  ["NUL and other control characters", ["\u0000", "a\u0000b", "\u0001\u001f\u007f", "\t\r\n"]],
  ["halves of surrogate pairs", ["\ud83e", "\udd8a", "a\udc00b"]],
  ["quotes and backslashes", ["\\", '"', "'", "\\u0000", "\\\\", "$1", "{a,b}", "{NULL}", "NULL"]],
  [
    "odd keys",
    JSON.parse(
      '{"": 1, " ": 2, "__proto__": {"x": 1}, "constructor": 3, "toString": 4, "0": 5, "a\\u0000b": 6}',
    ) as Json,
  ],
  ["keys in an order that is not the alphabet's", { z: 1, a: 2, m: { y: 1, b: 2 } }],
  ["deep nesting", nested(500)],
  ["many entries", Array.from({ length: 5_000 }, (_, index) => ({ index, text: `${index}` }))],
  ["200 KB of text", "é".repeat(100_000)],
];

export const json: Section = (test, expect) => {
  for (const [name, value] of VALUES) {
    test(`keeps ${name}`, async (fixture) => {
      // As text, which also compares the order of keys and those that objects hide.
      const text = JSON.stringify(value);
      const same = (found: Json | undefined) => expect(JSON.stringify(found) === text).toBe(true);
      const held = await fixture.addAndHold({ data: value });
      same(held.data);
      expect(await fixture.heartbeat(held, { progress: value })).toMatchObject({
        status: "renewed",
      });
      const answer = await fixture.complete(held, value);
      same(answer.status === "completed" ? answer.output : undefined);
      const again = await fixture.complete(held, "another");
      same(again.status === "completed" ? again.output : undefined);
      const view = await fixture.view(held);
      for (const found of [view.data, view.output, view.progress, view.attempts[0]?.progress]) {
        same(found);
      }
      const { items } = await fixture.store.list({ namespace: fixture.namespace });
      // A large one is not in the list.
      if (items[0]?.outputPreview === undefined) same(items[0]?.output);
      expect(Object.getPrototypeOf({}) === Object.prototype && !("x" in {})).toBe(true);
    });
  }

  test("keeps what it was given, not the object that was given", async (fixture) => {
    const data = { list: [1] };
    const held = await fixture.addAndHold({ data });
    data.list.push(2);
    expect(held.data).toEqual({ list: [1] });
    (held.data as { list: number[] }).list.push(3);
    expect((await fixture.view(held)).data).toEqual({ list: [1] });
  });

  test("keeps kinds, queues, keys and holders as they are", async (fixture) => {
    const names = [
      "ünïcödé 🦊",
      "é",
      "e\u0301",
      " a ",
      "A",
      "a",
      "%",
      "_",
      "'",
      '"',
      "\\",
      "{,}",
      "NULL",
      "x".repeat(256),
    ];
    const ids = await fixture.addAll(
      names.map((name) => ({ kind: name, queue: name, dedupeKey: name })),
    );
    for (const [index, name] of names.entries()) {
      const held = await fixture.hold({ queues: [name], kinds: [name], holder: name });
      expect(held).toMatchObject({ id: ids[index], kind: name, queue: name, dedupeKey: name });
      expect(await fixture.view(held)).toMatchObject({ kind: name, queue: name, holder: name });
      const { items } = await fixture.store.list({ namespace: fixture.namespace, queue: name });
      expect(items.map(({ id }) => id)).toEqual([ids[index]]);
    }
  });
};
