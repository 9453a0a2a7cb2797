import { expect, test } from "vitest";
import { notesOn } from "./name-notes.js";

test.each([
  [
    "p\u0430yment",
    'note: "p\\u{430}yment" mixes Latin and Cyrillic letters, some of which look alike',
  ],
  [
    "jobs/\u03bfrder",
    'note: "jobs/\\u{3bf}rder" mixes Latin and Greek letters, some of which look alike',
  ],
  [
    "cafe\u0301",
    'note: "cafe\\u{301}" is not in Unicode\'s form NFC: another name may look the same',
  ],
  ["a\u200bb", 'note: "a\\u{200b}b" has characters that are not shown'],
  ["\u202egnp", 'note: "\\u{202e}gnp" has characters that are not shown'],
])("%j gets a note", (name, note) => {
  expect(notesOn([name, "plain", name])).toEqual([note]);
});

test.each([
  "deploy/web",
  "caf\u00e9",
  "\u043e\u0442\u0447\u0451\u0442/web",
  "\u6771\u4eac-tokyo",
  "\u6771\u4eacABC\u30c6\u30b9\u30c8",
  "\u{1f511}",
])("%j gets none", (name) => {
  expect(notesOn([name])).toEqual([]);
});
