/** A checksum that finds mistyped text. It protects against no attacker. */

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** 62 to the power of 6 is more than 2 to the power of 32. */
const LENGTH = 6;

/** CRC-32 of ASCII, as zlib has it. */
function crc32(text: string): number {
  let crc = 0xffff_ffff;
  for (let at = 0; at < text.length; at += 1) {
    crc ^= text.charCodeAt(at);
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb8_8320 : 0);
  }
  return ~crc >>> 0;
}

/** CRC-32 in six digits of base 62: `0-9A-Za-z`. */
export function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = "";
  while (digits.length < LENGTH) {
    digits = `${DIGITS[rest % 62]}${digits}`;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
