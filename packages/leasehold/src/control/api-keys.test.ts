import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { digestOf, systemRandom } from "../env/index.js";
import { equalDigests, newApiKeyText, parseApiKeyText } from "./api-keys.js";

describe("the text of a key", () => {
  it("gives its id, and its secret matches the stored digest", () => {
    const { id, text, digest } = newApiKeyText(systemRandom);
    expect(text).toMatch(/^lh_[0-9a-f]{12}_[0-9a-f]{32}[0-9A-Za-z]{6}$/);
    expect(parseApiKeyText(text)).toEqual({ id, digest });
    const secret = text.slice(-38, -6);
    expect(digest).toBe(digestOf(secret));
    expect(digest).not.toContain(secret);
    expect(secret).not.toContain(id);
  });

  it("is another each time, in 128 bits", () => {
    const texts = Array.from({ length: 1_000 }, () => newApiKeyText(systemRandom));
    expect(new Set(texts.map(({ id }) => id)).size).toBe(1_000);
    expect(new Set(texts.map(({ digest }) => digest)).size).toBe(1_000);
  });

  it("has a checksum of what is before it, which programs can compute", () => {
    const body = "lh_0123456789ab_00112233445566778899aabbccddeeff";
    // By zlib's CRC-32, in base 62: 0-9, A-Z, a-z.
    let rest = crc32(body);
    let expected = "";
    for (let digit = 0; digit < 6; digit += 1) {
      const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
      expected = `${digits[rest % 62]}${expected}`;
      rest = Math.floor(rest / 62);
    }
    const id = "0123456789ab";
    const digest = digestOf("00112233445566778899aabbccddeeff");
    expect(parseApiKeyText(`${body}${expected}`)).toEqual({ id, digest });
    expect(parseApiKeyText(`${body}${expected.slice(0, -1)}-`)).toBeNull();
    const other = expected.endsWith("0") ? "1" : "0";
    expect(parseApiKeyText(`${body}${expected.slice(0, -1)}${other}`)).toBeNull();
    expect(parseApiKeyText(`${body.slice(0, -1)}0${expected}`)).toBeNull();
    // Keys of older releases have none.
    expect(parseApiKeyText(body)).toEqual({ id, digest });
  });

  it.each([
    "",
    "lh_",
    "Bearer",
    "lh_0123456789ab",
    `lh_0123456789ab_${"0".repeat(31)}`,
    `lh_0123456789ab_${"0".repeat(33)}`,
    `lh_0123456789AB_${"0".repeat(32)}`,
    `lh_0123456789ab_${"0".repeat(32)}\n`,
    ` lh_0123456789ab_${"0".repeat(32)}`,
    `xx_0123456789ab_${"0".repeat(32)}`,
  ])("is not %j", (text) => expect(parseApiKeyText(text)).toBeNull());
});

it("digests are equal only when all of their digits are", () => {
  const digest = digestOf("secret");
  expect(equalDigests(digest, digestOf("secret"))).toBe(true);
  expect(equalDigests(digest, digestOf("Secret"))).toBe(false);
  for (let at = 0; at < digest.length; at++) {
    const digit = digest[at] === "0" ? "1" : "0";
    expect(equalDigests(digest, digest.slice(0, at) + digit + digest.slice(at + 1))).toBe(false);
  }
  expect(equalDigests(digest, digest.slice(1))).toBe(false);
  expect(equalDigests(digest.slice(0, -1), digest)).toBe(false);
  expect(equalDigests(digest, "")).toBe(false);
  expect(equalDigests("", digest)).toBe(false);
  expect(equalDigests("", "")).toBe(true);
});
