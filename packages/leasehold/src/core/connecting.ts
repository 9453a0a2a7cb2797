/** Why a request over HTTP failed, by the errors of fetch and of Node. */

/** Codes of a request that never left. Browsers give no code, so there the request may have left. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
/** Codes of a server without TLS, or of another version of it. */
const NO_TLS = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;
const UNTRUSTED = /CERT|SELF_SIGNED|SIGNATURE|ALTNAME|^UNABLE_TO_/;

/**
 * Whether the connection failed before the request was sent, so that it has had no effect.
 * Other codes, such as EHOSTUNREACH, can also end a connection after the request was sent.
 */
export function wasNotSent(error: unknown): boolean {
  const inner = error instanceof Error ? (error.cause ?? error) : undefined;
  if (!(inner instanceof Error)) return false;
  const code = codeOf(inner);
  if (NOT_SENT.has(code) || NO_TLS.test(code) || UNTRUSTED.test(code)) return true;
  // Of several addresses, none could be connected to.
  if (inner instanceof AggregateError) return inner.errors.every(isOfConnect);
  if (/before secure TLS connection|^bad port$/.test(inner.message)) return true;
  return isOfConnect(inner);
}

/** What is wrong with the server's certificate; null if something else is. */
export function certificateProblem(error: unknown): string | null {
  const inner = error instanceof Error ? (error.cause ?? error) : undefined;
  const code = inner instanceof Error ? codeOf(inner) : "";
  if (!UNTRUSTED.test(code)) return null;
  return `its certificate is not trusted (${code}); set NODE_EXTRA_CA_CERTS to its authority`;
}

function isOfConnect(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && error.syscall === "connect";
}

function codeOf(error: Error): string {
  return "code" in error ? String(error.code) : "";
}
