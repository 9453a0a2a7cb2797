/**
 * Checks of requests without a key, where none is required. Such callers may do everything, so the server must
 * know that they are local:
 *
 *   forwarded by a proxy? ──▶ 403: the caller can be anywhere
 *   another host name? ─────▶ 403: a web page, by DNS rebinding
 *   a foreign origin? ──────▶ 403: a web page
 */
import { ProblemError } from "../problems.js";

/** Headers with which proxies name the client for which they send a request. */
const FORWARDING = /^(forwarded|x-forwarded-.+|x-real-ip|via)$/;
const REMEDY = "create a key with leasehold keys create, and send it";

/** @throws FORBIDDEN */
export function checkNotForwarded({ headers }: Request): void {
  for (const name of headers.keys()) {
    if (!FORWARDING.test(name)) continue;
    throw new ProblemError(
      "FORBIDDEN",
      `a proxy sent this request (header ${name}), so its caller may be on another machine: ${REMEDY}`,
    );
  }
}

/**
 * Protects a local server from web pages in a browser on the same machine. Their requests carry the
 * page's origin, or, after DNS rebinding, the page's host name.
 * @throws FORBIDDEN
 */
export function checkHosts({ url, headers }: Request, hosts: readonly string[]): void {
  const origin = headers.get("origin");
  for (const from of origin === null ? [url] : [url, origin]) {
    const host = URL.canParse(from) ? new URL(from).hostname : from;
    if (hosts.includes(host)) continue;
    const known = hosts.join(", ");
    throw new ProblemError("FORBIDDEN", `without a key, requests must use ${known}, not ${host}`);
  }
}
