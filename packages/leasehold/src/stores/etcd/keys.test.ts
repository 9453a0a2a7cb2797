import fc from "fast-check";
import { expect, it } from "vitest";
import {
  below,
  endOfPrefix,
  keyOfRecord,
  locksRange,
  ownerOfBell,
  Place,
  recordFolder,
  resourceOfLock,
} from "./keys.js";

const name = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }),
  fc.string({
    unit: fc.constantFrom("%", "/", "l", "0", "2", "5", "F"),
    minLength: 1,
    maxLength: 8,
  }),
);
const key = fc.record({ namespace: fc.oneof(fc.constant("default"), name), resource: name });
const prefix = fc.constantFrom("", "apps/a/");

it("keeps the keys of different resources in separate folders", () => {
  fc.assert(
    fc.property(prefix, key, key, (path, one, other) => {
      fc.pre(one.namespace !== other.namespace || one.resource !== other.resource);
      const [mine, theirs] = [new Place(path, one), new Place(path, other)];
      expect(theirs.locks.startsWith(mine.locks)).toBe(false);
      expect(theirs.record).not.toBe(mine.record);
      // Otherwise they would look like locks that no client releases.
      for (const { record, queueFolder, bells } of [mine, theirs]) {
        for (const key of [record, queueFolder, bells])
          expect(key.startsWith(mine.locks)).toBe(false);
      }
      expect(theirs.queueFolder.startsWith(mine.queueFolder)).toBe(false);
      expect(theirs.bells.startsWith(mine.bells)).toBe(false);
    }),
  );
});

it("decodes names from keys", () => {
  fc.assert(
    fc.property(prefix, key, (path, one) => {
      const { record, locks, bells } = new Place(path, one);
      expect(keyOfRecord(path, record)).toEqual(one);
      expect(record.startsWith(recordFolder(path, one.namespace))).toBe(true);
      const lock = `${locks}694d7d2c8e1b5a2f`;
      expect(resourceOfLock(path, one.namespace, lock)).toBe(one.resource);
      const { namespace, resource } = one;
      const bell = `${bells}0123456789abcdef`;
      expect(ownerOfBell(path, namespace, bell)).toEqual({ resource, leaseId: "0123456789abcdef" });
      expect(ownerOfBell(path, namespace, lock)).toBe(null);
      expect(resourceOfLock(path, namespace, bell)).toBe(null);
      // One watch covers both.
      const { start, end } = locksRange(path, namespace);
      for (const key of [lock, bell])
        expect(start === "\0" || (key > start && key < end)).toBe(true);
    }),
  );
});

it("writes plain names as etcdctl does, and accepts no other key as a lock", () => {
  expect(new Place("", { namespace: "default", resource: "job" }).locks).toBe("job/");
  for (const text of ["job", "job/", "job/x/1", "job/XYZ", "%leasehold/record/default/1", "a%/1"]) {
    expect(resourceOfLock("", "default", text), text).toBe(null);
  }
  expect(below("")).toEqual({ start: "\0", end: "\0" });
});

it("ends the range of a prefix just after the last key that begins with it", () => {
  const edge = fc.constantFrom("a", "\u{7f}", "\ud7ff", "\ue000", "\uffff", "\u{10ffff}");
  const text = fc.string({
    unit: fc.oneof(edge, fc.string({ unit: "binary", minLength: 1, maxLength: 1 })),
  });
  const isBefore = (one: string, other: string) =>
    Buffer.compare(Buffer.from(one), Buffer.from(other)) < 0;
  fc.assert(
    fc.property(text, text, (folder, key) => {
      const prefix = `/${folder}`;
      const end = endOfPrefix(prefix);
      expect(isBefore(`/${key}`, prefix) || !isBefore(`/${key}`, end)).toBe(
        !`/${key}`.startsWith(prefix),
      );
      expect(isBefore(prefix + key, end)).toBe(true);
    }),
  );
});
