import { expect, it } from "vitest";
import { quoted } from "./shell.js";

it.each([
  ["after:deploy/web-1", "after:deploy/web-1"],
  ["a b", "'a b'"],
  ["it's", "'it'\\''s'"],
  ["=ls", "'=ls'"],
  ["", "''"],
])("quotes %j for the shell", (text, word) => expect(quoted(text)).toBe(word));
