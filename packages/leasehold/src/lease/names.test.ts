import { expect, test } from "vitest";
import { connect, defineTask } from "../index.js";
import { memory } from "../stores/memory/index.js";
import { checkName, checkNewName, isPlainName } from "./names.js";

const INVISIBLE = [
  ["a zero-width space", "a\u200bb", "U+200B"],
  ["a zero-width joiner", "a\u200d", "U+200D"],
  ["a soft hyphen", "a\u00adb", "U+00AD"],
  ["a byte order mark", "\ufeffa", "U+FEFF"],
  ["a change of direction", "a\u202eb", "U+202E"],
  ["a line separator", "a\u2028b", "U+2028"],
  ["a tag", "a\u{e0041}", "U+E0041"],
  ["a line feed", "a\nb", "U+000A"],
  ["an escape", "\u001b[31m", "U+001B"],
  ["a control character of Latin-1", "a\u0085", "U+0085"],
] as const;

test.each(INVISIBLE)("a new name must not contain %s, an old one may", (_, name, code) => {
  const message = expect.stringContaining(code);
  const refusal = expect.objectContaining({ code: "INVALID_OPTION", path: "holder", message });
  expect(() => checkNewName("holder", name)).toThrow(refusal);
  expect(() => checkName("holder", name)).not.toThrow();
});

test.each(["deploy/web", "a b", "caf\u00e9", "cafe\u0301", "\u6771\u4eac", "\u{1f511}", "\u00a0"])(
  "a new name may be %j",
  (name) => {
    expect(() => checkNewName("holder", name)).not.toThrow();
  },
);

test.each([[["a"]], [7], [null], [undefined]])("a name is a string, not %j", (name) => {
  const refusal = expect.objectContaining({
    path: "holder",
    message: expect.stringContaining("must be a string"),
  });
  expect(() => checkName("holder", name)).toThrow(refusal);
  expect(() => checkNewName("holder", name)).toThrow(refusal);
  expect(isPlainName(name)).toBe(false);
});

test("a client refuses invisible characters where it creates, not where it reads or revokes", async () => {
  const name = "a\u200bb";
  const refused = (path: string) => expect.objectContaining({ code: "INVALID_OPTION", path });
  await using client = await connect(memory({ name: "names" }), { holder: "h" });
  await expect(client.acquire(name)).rejects.toThrow(refused("resource"));
  await expect(client.tryAcquire(name)).rejects.toThrow(refused("resource"));
  await expect(client.acquireAll(["ok", name])).rejects.toThrow(refused("resource"));
  await expect(client.run(name, () => {})).rejects.toThrow(refused("resource"));
  expect(() => client.reusableLease(name)).toThrow(refused("resource"));
  const leading = (async () => client.elector(name).lead(() => {}))();
  await expect(leading).rejects.toThrow(refused("resource"));
  await expect(client.tasks.enqueue(defineTask(name), 1)).rejects.toThrow(refused("kind"));
  const queued = client.tasks.enqueue(defineTask("k"), 1, { queue: name });
  await expect(queued).rejects.toThrow(refused("queue"));
  expect(await client.get(name)).toBeNull();
  expect(await client.revoke(name)).toMatchObject({ status: "notHeld" });

  await using other = await connect(memory({ name: "names" }), { holder: name });
  await expect(other.acquire("r")).rejects.toThrow(refused("holder"));
  expect(() => other.tasks.work([defineTask("k").handle(() => {})])).toThrow(refused("holder"));
  expect((await other.list()).items).toEqual([]);
});
