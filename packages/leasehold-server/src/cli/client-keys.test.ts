import { expect, it } from "vitest";
import { keyIn, parseClientKeys } from "./client-keys.js";

const FINGERPRINT = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const LIST = `
# the workers
dns:Worker-1.example                      0123456789ab
subject:CN=worker 2,O=Example             0123456789ac
  uri:spiffe://example/worker/3\t0123456789ad\r
email:ops@example.org 0123456789ae
sha256:${(FINGERPRINT.match(/../g) ?? []).join(":").toUpperCase()} 0123456789af
`;
const certificate = (...identities: string[]) => ({ identities, validToMs: 0 });

it.each([
  ["dns:worker-1.example", "0123456789ab"],
  ["subject:CN=worker 2,O=Example", "0123456789ac"],
  ["uri:spiffe://example/worker/3", "0123456789ad"],
  ["email:ops@example.org", "0123456789ae"],
  [`sha256:${FINGERPRINT}`, "0123456789af"],
  ["dns:worker-2.example", null],
  ["uri:spiffe://example/worker", null],
  ["subject:CN=worker 2", null],
])("assigns a key to %s: %s", (name, id) => {
  expect(keyIn(parseClientKeys(LIST, "list"), certificate("subject:CN=x", name))).toBe(id);
});

it("assigns none to a certificate whose names have different keys", () => {
  const keys = parseClientKeys(
    "dns:a 0123456789ab\ndns:b 0123456789ac\ndns:c 0123456789ab",
    "list",
  );
  expect(keyIn(keys, certificate("dns:a", "dns:b"))).toBe(null);
  expect(keyIn(keys, certificate("dns:a", "dns:c"))).toBe("0123456789ab");
});

it.each([
  ["dns:a", "list, line 1: must be the name of a certificate and the id of a key"],
  ["dns:a 0123", "line 1: must be the name"],
  ["\ncn:a 0123456789ab", "line 2: the name of a certificate must begin with sha256:, subject:"],
  ["sha256:12 0123456789ab", "line 1: the name of a certificate must begin with"],
  ["dns:a 0123456789ab\ndns:A 0123456789ac", "line 2: dns:A is listed twice"],
])("refuses %j", (text, message) => {
  expect(() => parseClientKeys(text, "list")).toThrow(message);
});
