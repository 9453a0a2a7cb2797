/**
 * Callers by the certificates with which they have opened their connections:
 *
 *   certificate ─┬─ none ──────────────▶ required: 401, otherwise as without TLS
 *                ├─ has expired since ─▶ 401
 *                ├─ no list of keys ───▶ as without TLS: the request needs a key
 *                └─ list ─┬─ names a key for it ──▶ that key's caller, unless the request has a key
 *                         └─ names none, or two ──▶ 401, with a key in the request too
 */
import type { Clock } from "leasehold";
import { unauthenticated } from "../problems.js";
import { checkOrigin } from "./keyless.js";

/** A certificate of a client that one of the server's authorities has signed. */
export interface ClientCertificate {
  /**
   * What a list may name it by: `sha256:` and its fingerprint in hex, `subject:` and its subject as RFC 4514 writes it,
   * and `dns:`, `uri:` or `email:` and each such alternative name.
   */
  readonly identities: readonly string[];
  /** The end of its validity, in milliseconds since 1970. */
  readonly validToMs: number;
}

/** What certificates of clients allow: the option `clientCertificates` of `createApp`. */
export interface ClientCertificates {
  /** Whether requests need a certificate, except those that are public. Default: they do. */
  readonly required?: boolean;
  /**
   * Returns the id of the key whose rights a certificate has; null: it has no access. Default: certificates have no rights,
   * and each request needs a key.
   */
  readonly keyOf?: ((certificate: ClientCertificate) => string | null) | undefined;
}

/**
 * The id of the key whose caller sent the request; null: its Authorization header decides.
 * @throws UNAUTHENTICATED; FORBIDDEN for a web page of another origin, whose browser presents the certificate unasked
 */
export function keyByCertificate(
  { required = true, keyOf }: ClientCertificates,
  certificate: ClientCertificate | undefined,
  request: Request,
  clock: Clock,
): string | null {
  if (!certificate) {
    if (!required) return null;
    throw unauthenticated("this server requires a client certificate, and the connection has none");
  }
  // A connection may outlive the certificate that opened it.
  if (certificate.validToMs <= clock.wall()) {
    throw unauthenticated("the client certificate of this connection has expired");
  }
  if (!keyOf) return null;
  const keyId = keyOf(certificate);
  if (keyId === null) throw unauthenticated("no API key is assigned to this client certificate");
  if (request.headers.has("authorization")) return null;
  checkOrigin(request);
  return keyId;
}
