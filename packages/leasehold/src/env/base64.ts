/** Base64 of text in UTF-8, in any runtime. */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function toBase64(text: string): string {
  // Fast path for ASCII, where characters equal bytes.
  if (/^\p{ASCII}*$/u.test(text)) return btoa(text);
  return btoa(Array.from(encoder.encode(text), (byte) => String.fromCharCode(byte)).join(""));
}

export function fromBase64(text: string): string {
  return decoder.decode(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
}
