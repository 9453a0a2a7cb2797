/**
 * Checks of requests without a key, where none is required. Such callers may do everything, so the server must
 * know that they are programs of this machine, and no web page in one of its browsers:
 *
 *   from a page of another origin? ──▶ 403     also if any host may call
 *   another host name? ──────────────▶ 403     a web page, by DNS rebinding
 *   forwarded by a proxy? ───────────▶ 403     the caller can be anywhere
 *   from another machine, or unknown? ▶ 403
 */
import { isLoopback } from "../../protocol/index.js";
import { ProblemError } from "../problems.js";

/** Host names that requests without a key must use; `any`: other machines may call too. */
export type TrustedHosts = readonly string[] | "any";

/** Headers with which proxies name the client for which they send a request. */
const FORWARDING =
  /^(forwarded|via|x-forwarded(-.+)?|x-original-.+|x-real-ip|x-envoy-.+|(.+-)?(client|connecting)-ip)$/;
const REMEDY = "create a key with leasehold keys create, and send it";

/**
 * @param remoteAddress of the connection; undefined if the host of the app does not tell
 * @throws FORBIDDEN
 */
export function checkKeyless(
  request: Request,
  hosts: TrustedHosts,
  remoteAddress: string | undefined,
): void {
  checkOrigin(request);
  if (hosts === "any") return;
  checkHost(request.url, hosts);
  checkNotForwarded(request);
  if (remoteAddress !== undefined && isLoopback(remoteAddress)) return;
  // The operator trusts names of a network.
  if (!hosts.every(isLoopback)) return;
  if (remoteAddress === undefined) {
    throw new ProblemError(
      "FORBIDDEN",
      `without a key, only this machine has access, and the host of this app does not say where a request is from: ${REMEDY}, or pass { remoteAddress } to app.fetch`,
    );
  }
  throw new ProblemError(
    "FORBIDDEN",
    `without a key, only this machine has access, not ${remoteAddress}: ${REMEDY}`,
  );
}

/**
 * Refuses web pages of other origins, those of other ports of this machine too. Browsers do not let a page choose
 * these headers.
 */
export function checkOrigin({ url, headers }: Request): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  // By the browser's own word. Behind a proxy for TLS the origin is another one than this server sees.
  if (site === "same-origin") return;
  // A value that no browser sends is one that a program on the way has changed.
  const isForeign = site !== null && site !== "none";
  if (!isForeign && (origin === null || origin === new URL(url).origin)) return;
  const page = origin === null ? "a web page of another origin" : `a web page of ${origin}`;
  throw new ProblemError("FORBIDDEN", `${page} sent this request without a key: ${REMEDY}`);
}

/** @throws FORBIDDEN unless a URL, or the origin of a page, has one of these host names */
export function checkHost(url: string, hosts: readonly string[]): void {
  const host = URL.canParse(url) ? new URL(url).hostname : url;
  if (hosts.includes(host)) return;
  const known = hosts.join(", ");
  throw new ProblemError("FORBIDDEN", `without a key, requests must use ${known}, not ${host}`);
}

function checkNotForwarded({ headers }: Request): void {
  for (const name of headers.keys()) {
    if (!FORWARDING.test(name)) continue;
    throw new ProblemError(
      "FORBIDDEN",
      `a proxy sent this request (header ${name}), so its caller may be on another machine: ${REMEDY}`,
    );
  }
}
