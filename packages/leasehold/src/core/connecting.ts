/** Why a request over HTTP failed, by the errors of fetch and of Node. */
import { isError, propertyOf, reasonOf } from "../env/index.js";

/** Codes of a request that never left. Browsers give no code, so there the request may have left. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
/** Codes of a server without TLS, or of another version of it. */
const NO_TLS = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;
const UNTRUSTED = /CERT|SELF_SIGNED|SIGNATURE|ALTNAME|INVALID_PURPOSE|^UNABLE_TO_/;
/** The same as a server says it of the client. */
const REFUSED_CERTIFICATE = /_ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA)$/;

/**
 * Whether the connection failed before the request was sent, so that it has had no effect.
 * Other codes, such as EHOSTUNREACH, can also end a connection after the request was sent.
 */
export function wasNotSent(error: unknown): boolean {
  const inner = isError(error) ? (error.cause ?? error) : undefined;
  if (!isError(inner)) return false;
  const code = codeOf(inner);
  if (NOT_SENT.has(code) || NO_TLS.test(code) || UNTRUSTED.test(code)) return true;
  // Of several addresses, none could be connected to.
  if (inner instanceof AggregateError) return inner.errors.every(isOfConnect);
  if (/before secure TLS connection|^bad port$/.test(reasonOf(inner))) return true;
  return isOfConnect(inner);
}

/** What to do about a certificate that is not trusted. */
interface CertificateRemedies {
  readonly authority: string;
  /** About that of the client. */
  readonly client?: string;
}

/** The remedies for a store that is named by a URL. */
export const TLS_REMEDIES = {
  authority:
    "name the file of its authority by ?cacert= of the URL (a file that is named is of another one), or set NODE_EXTRA_CA_CERTS to it, which counts without ?cacert= alone",
  client: "name one by ?cert= and ?key= of the URL",
};

/** Where another authority would not help, by a code of Node or a text of OpenSSL. */
const CERTIFICATE_REMEDIES: readonly (readonly [RegExp, problem: string, remedy: string])[] = [
  [
    /ALTNAME|altnames/,
    "its certificate is not for the host that the URL names",
    "name a host of the certificate, or give the server a certificate for this one",
  ],
  [
    /CERT_HAS_EXPIRED|certificate has expired/,
    "its certificate has expired",
    "renew it, or correct the clock of this machine",
  ],
  [
    /CERT_NOT_YET_VALID|certificate is not yet valid/,
    "its certificate is not valid yet",
    "correct the clock of this machine",
  ],
  [
    /INVALID_PURPOSE|unsuitable certificate purpose/,
    "its certificate is not one of a server",
    "give the server a certificate whose extended key usage has serverAuth",
  ],
];

/**
 * What is wrong with the certificate of a server, and what to do.
 * @param code of Node, or the text of an error
 * @param authority what to do if its authority is not trusted
 */
export function untrusted(code: string, authority: string): string {
  const found = CERTIFICATE_REMEDIES.find(([pattern]) => pattern.test(code));
  const [, problem, remedy] = found ?? [null, "its certificate is not trusted", authority];
  return `${problem} (${code}); ${remedy}`;
}

/** What is wrong with the certificate of the server, or of the client; null if something else is. */
export function certificateProblem(
  error: unknown,
  { authority, client }: CertificateRemedies = TLS_REMEDIES,
): string | null {
  const inner = isError(error) ? (error.cause ?? error) : undefined;
  const code = isError(inner) ? codeOf(inner) : "";
  if (REFUSED_CERTIFICATE.test(code)) {
    const refused = `it asks for a certificate of the client that it trusts (${code})`;
    return client === undefined ? refused : `${refused}; ${client}`;
  }
  return UNTRUSTED.test(code) ? untrusted(code, authority) : null;
}

/**
 * Why a request failed. A server that asks for a certificate of the client ends the connection of one that has none,
 * before it has sent anything; fetch does not say why.
 */
export function connectionReason(origin: string, error: unknown): string {
  const reason = `${origin}: ${reasonOf(error)}`;
  const inner = isError(error) ? (error.cause ?? error) : undefined;
  const isSilent = propertyOf(propertyOf(inner, "socket"), "bytesRead") === 0;
  if (!isSilent || !origin.startsWith("https:")) return reason;
  return `${reason}; if it asks for a certificate of the client, ${TLS_REMEDIES.client}`;
}

function isOfConnect(error: unknown): boolean {
  return propertyOf(error, "syscall") === "connect";
}

function codeOf(error: Error): string {
  const code = propertyOf(error, "code");
  return typeof code === "string" ? code : "";
}
