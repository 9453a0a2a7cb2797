/** Why a request over HTTP failed, by the errors of fetch and of Node. */
import { isError, propertyOf, reasonOf } from "../env/index.js";

/** Codes of a request that never left. Browsers give no code, so there the request may have left. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
/** Codes of a server without TLS, or of another version of it. */
const NO_TLS = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;
const UNTRUSTED =
  /CERT|SELF_SIGNED|SIGNATURE|ALTNAME|INVALID_(PURPOSE|CA$)|PATH_LENGTH|^UNABLE_TO_|^UNSPECIFIED$/;
/** What OpenSSL says, among codes and files of its own. */
const OPENSSL = /SSL routines:[^:]*:([^:]+)/;
/** The same as a server says it of the client. */
const REFUSED_CERTIFICATE = /_ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA)/;

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
  client:
    "name one by ?cert= and ?key= of the URL, which is valid now, for clients, and of an authority that the server trusts",
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
    "its certificate has expired, or that of its authority",
    "renew it (?cacert= of the URL names the authority), or correct the clock of this machine",
  ],
  [
    /CERT_NOT_YET_VALID|certificate is not yet valid/,
    "its certificate is not valid yet, or that of its authority",
    "correct the clock of this machine",
  ],
  [
    /INVALID_PURPOSE|unsuitable certificate purpose/,
    "its certificate is not one of a server, or that of an authority may not sign such",
    "give the server a certificate for serverAuth, of authorities that may sign it (CA:TRUE), those of ?cacert= too",
  ],
  [
    /INVALID_CA$|invalid CA|PATH_LENGTH|path length/,
    "the certificate of an authority may not sign others",
    "let the server send authorities that may sign (CA:TRUE, pathlen)",
  ],
];

/** Where the authority may be named, and the chain of certificates has a gap. */
const GAPS: readonly (readonly [RegExp, remedy: string])[] = [
  [
    /UNABLE_TO_VERIFY_LEAF_SIGNATURE|unable to verify the first certificate/,
    "if its authority is named, let the server send the certificates of intermediate authorities after its own",
  ],
  [
    /UNABLE_TO_GET_ISSUER_CERT$|unable to get issuer certificate$/,
    "the file needs the authority at the root: an intermediate one alone is not enough",
  ],
];

/**
 * What is wrong with the certificate of a server, and what to do.
 * @param code of Node, or the text of an error
 * @param authority what to do if its authority is not trusted
 */
function untrusted(code: string, authority: string): string {
  const found = CERTIFICATE_REMEDIES.find(([pattern]) => pattern.test(code));
  if (found) return `${found[1]} (${code}); ${found[2]}`;
  const gap = GAPS.find(([pattern]) => pattern.test(code))?.[1];
  const remedies = gap === undefined ? authority : `${authority}; ${gap}`;
  return `its certificate is not trusted (${code}); ${remedies}`;
}

/** The end of a certificate in PEM, as a person would recognize it, and as OpenSSL does. */
const LAST_LINE = /-*END [A-Z0-9 ]*CERTIFICATE-*/;
const STRICT_END = /^-----END (?:X509 |TRUSTED )?CERTIFICATE-----$/;
/** OpenSSL ignores a first line that has anything before it or behind it. */
const STRICT_BEGIN = /^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[ \t\r]*$/m;

/**
 * The number, from 1, of the first certificate of a text in PEM that cannot be read; null if all of them can. Node leaves
 * out such an authority, and says nothing.
 * @param X509Certificate of Node, which is not everywhere
 */
export function damagedCertificate(
  text: string,
  X509Certificate: new (pem: string) => object,
): number | null {
  let rest = text;
  for (let at = 1; ; at += 1) {
    const end = LAST_LINE.exec(rest);
    // What follows the last one may be a key or a comment.
    if (!end) return /BEGIN [A-Z0-9 ]*CERTIFICATE/.test(rest) ? at : null;
    const begin = STRICT_BEGIN.exec(rest)?.index ?? Number.POSITIVE_INFINITY;
    const isWhole = begin < end.index && STRICT_END.test(end[0]) && rest[end.index - 1] === "\n";
    const through = end.index + end[0].length;
    if (!isWhole || !isReadable(rest.slice(begin, through), X509Certificate)) return at;
    rest = rest.slice(through);
  }
}

function isReadable(pem: string, X509Certificate: new (pem: string) => object): boolean {
  try {
    return Boolean(new X509Certificate(pem));
  } catch {
    return false;
  }
}

/** Where the address leads to another kind of server, by a code of Node or a text of OpenSSL. */
const OTHER_SERVERS: readonly (readonly [RegExp, problem: string, remedy: string])[] = [
  [
    /UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION|NO_PROTOCOLS_AVAILABLE/,
    "it has no version of TLS that Node accepts",
    "enable TLS 1.2 or 1.3 at the server",
  ],
  [
    /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNKNOWN_PROTOCOL/,
    "it answers without TLS",
    "name its port for TLS, or use a URL without TLS",
  ],
  [
    /^HPE_INVALID_(CONSTANT|VERSION)$|\(EXPECTED_HTTP\//,
    "it does not answer as HTTP does",
    "check the host and the port of the URL",
  ],
];

/**
 * What is wrong with the server that an address leads to, until it is corrected: its certificate, that of the
 * client, its TLS, or its protocol. Null if something else is wrong.
 */
export function serverProblem(
  error: unknown,
  remedies: CertificateRemedies = TLS_REMEDIES,
): string | null {
  const inner = isError(error) ? (error.cause ?? error) : undefined;
  if (!isError(inner)) return null;
  const code = codeOf(inner);
  // Node makes this one of several codes of OpenSSL, and leaves the text. The parser of newer fetches has no code.
  const isText = code === "EPROTO" || (code === "" && inner.name === "HTTPParserError");
  return serverProblemOf(isText ? reasonOf(inner) : code, remedies);
}

/** As {@link serverProblem}, by the code of Node or the text of OpenSSL. */
export function serverProblemOf(
  text: string,
  { authority, client }: CertificateRemedies = TLS_REMEDIES,
): string | null {
  const said = OPENSSL.exec(text)?.[1] ?? text;
  const code = said.replaceAll(" ", "_").toUpperCase();
  if (REFUSED_CERTIFICATE.test(code)) {
    const refused = `it asks for a certificate of the client that it trusts (${said})`;
    return client === undefined ? refused : `${refused}; ${client}`;
  }
  if (/ALERT_HANDSHAKE_FAILURE/.test(code)) {
    const asked =
      client === undefined ? "" : `; if it asks for a certificate of the client, ${client}`;
    return `it refuses the handshake of TLS (${said}); allow the ciphers of TLS 1.2 or 1.3 at the server${asked}`;
  }
  const other = OTHER_SERVERS.find(([pattern]) => pattern.test(code));
  if (other) return `${other[1]} (${said}); ${other[2]}`;
  return UNTRUSTED.test(code) ? untrusted(said, authority) : null;
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
