/** Ports to which fetch never connects, in browsers as in Node: https://fetch.spec.whatwg.org/#port-blocking. */
import { InvalidOptionError } from "../lease/index.js";

const BLOCKED: ReadonlySet<number> = new Set([
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
  6669, 6679, 6697, 10_080,
]);

/**
 * Why no server of HTTP should listen on the port; undefined if it may.
 * @param usual port of such a server
 */
export function blockedPort(port: number, usual = 4040): string | undefined {
  if (!BLOCKED.has(port)) return undefined;
  return `port ${port} is blocked by fetch, in browsers as in Node, because another protocol uses it: choose another port, such as ${usual}`;
}

/**
 * Checks URLs that fetch is to connect to: its own error names no port, and looks like an outage.
 * @throws InvalidOptionError
 */
export function checkFetchPorts(path: string, baseUrls: readonly string[], usual?: number): void {
  for (const baseUrl of baseUrls) {
    const problem = blockedPort(Number(new URL(baseUrl).port), usual);
    if (problem) throw new InvalidOptionError(path, `cannot be reached: ${problem}`);
  }
}
