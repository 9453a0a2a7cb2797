/** Lists of addresses and networks, by node's own comparison. */
import { BlockList, isIP, isIPv4 } from "node:net";
import { InvalidOptionError } from "leasehold";
import { type AddressList, plainAddress } from "./auth/client-address.js";

/**
 * A list of addresses (`192.0.2.7`, `2001:db8::7`) and networks (`10.0.0.0/8`, `2001:db8::/32`).
 * @throws INVALID_OPTION for text that is neither
 * @example
 * ```ts
 * import { addressList } from "leasehold-server";
 *
 * const office = addressList(["192.0.2.0/24", "2001:db8::/32"]);
 * console.log(office.has("192.0.2.7"), office.has("::ffff:192.0.2.7"), office.has("198.51.100.1"));
 * ```
 */
export function addressList(ranges: readonly string[]): AddressList {
  const list = new BlockList();
  for (const range of ranges) add(list, range);
  return {
    has(address) {
      const plain = plainAddress(address);
      const family = isIP(plain);
      return family !== 0 && list.check(plain, family === 4 ? "ipv4" : "ipv6");
    },
  };
}

function add(list: BlockList, range: string): void {
  const [, address = "", bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(range) ?? [];
  const plain = plainAddress(address);
  // Of IPv4 in IPv6, the bits count from the beginning of the IPv6 address.
  const isMapped = isIPv4(plain) && address.includes(":");
  const most = isIPv4(plain) ? 32 : 128;
  const prefix = bits === undefined ? most : Number(bits) - (isMapped ? 96 : 0);
  if (isIP(plain) === 0 || address.includes("%") || prefix < 0 || prefix > most) {
    const problem = `must be an address or a network, such as 10.0.0.0/8 or 2001:db8::/32, not ${JSON.stringify(range)}`;
    throw new InvalidOptionError("ranges", problem);
  }
  list.addSubnet(plain, prefix, isIPv4(plain) ? "ipv4" : "ipv6");
}
