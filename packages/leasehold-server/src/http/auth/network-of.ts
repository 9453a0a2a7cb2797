/** Which remote addresses count as one. */

/**
 * An IPv4 address as it is, and of an IPv6 address the first 64 bits: `2001:db8:0:1::/64`. Each machine of an IPv6
 * network can choose among all of its addresses.
 */
export function networkOf(address: string): string {
  const [plain = ""] = address.split("%");
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1];
  if (mapped !== undefined) return mapped;
  if (!plain.includes(":")) return plain;
  const [head = "", tail] = plain.split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":"));
  const [first, last] = [groups(head), groups(tail ?? "")];
  // An IPv4 address at the end counts for two groups; they are not among the first four.
  const zeros = 8 - first.length - last.length - (plain.includes(".") ? 1 : 0);
  const all =
    tail === undefined ? first : [...first, ...Array.from({ length: zeros }, () => "0"), ...last];
  const network = all.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/64`;
}
