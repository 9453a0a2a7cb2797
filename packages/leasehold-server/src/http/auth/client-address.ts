/**
 * The address of a client, behind proxies too:
 *
 *   X-Forwarded-For: 203.0.113.9, 198.51.100.4        connection from 10.0.0.5
 *                         │             │                          └─ a trusted proxy? no ─▶ it is the client
 *                         │             └─ that 10.0.0.5 has added: a trusted proxy? no ─▶ it is the client
 *                         └─ that 198.51.100.4 has sent: anything
 *
 * Read from the end, because each proxy adds the address of its own peer, and clients may send what they like before it.
 */
/** A set of addresses. `addressList()` makes one on Node. */
export interface AddressList {
  /** @param address IPv4 or IPv6, also IPv4 in IPv6 (`::ffff:192.0.2.7`), which counts as IPv4 */
  has(address: string): boolean;
}

/**
 * @param remoteAddress of the connection; undefined if the host of the app does not tell
 * @returns undefined if it cannot be known: no address, or a trusted proxy that has sent something else than addresses
 */
export function clientAddress(
  headers: Headers,
  remoteAddress: string | undefined,
  trustedProxies: AddressList | undefined,
): string | undefined {
  if (remoteAddress === undefined || !trustedProxies?.has(remoteAddress)) return remoteAddress;
  const forwarded = headers.get("x-forwarded-for");
  // A request of the proxy itself, such as a health check.
  if (forwarded === null) return remoteAddress;
  let client: string | undefined;
  for (const hop of forwarded.split(",").reverse()) {
    client = addressIn(hop.trim());
    if (client === undefined || !trustedProxies.has(client)) return client;
  }
  return client;
}

const IPV4 = /^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/;

/** `192.0.2.7`, `192.0.2.7:1234`, `2001:db8::7`, `[2001:db8::7]:1234`. */
function addressIn(hop: string): string | undefined {
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop;
  const isIPv6 = bare.includes(":") && URL.canParse(`http://[${bare}]`);
  return IPV4.test(bare) || isIPv6 ? plainAddress(bare) : undefined;
}

/** An address as it is compared: IPv4 in IPv6 as IPv4, so `::ffff:192.0.2.7` is `192.0.2.7`, and without a zone. */
export function plainAddress(address: string): string {
  const [plain = ""] = address.split("%");
  const url = `http://[${plain}]`;
  if (!plain.includes(":") || !URL.canParse(url)) return plain;
  const { hostname } = new URL(url);
  const [, high, low] = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/.exec(hostname) ?? [];
  if (high === undefined || low === undefined) return hostname.slice(1, -1);
  const bytes = [high, low].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 255];
  });
  return bytes.join(".");
}
