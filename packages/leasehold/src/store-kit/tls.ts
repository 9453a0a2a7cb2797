/** Certificates of one's own for TLS: PEM files that a store's URL names, or options. */
import { checkObject, checkOptional, InvalidOptionError } from "../lease/index.js";
import { filePath, oneOf, type ParameterTable } from "./url-parameters.js";

/** Certificates for the connections of a store, each as the text of a PEM file. */
export interface TlsOptions {
  /** The authority that signed the certificates of the servers. Default: those that Node trusts. */
  readonly ca?: string | undefined;
  /** The certificate of the client, for servers that ask for one. Needs `key`. Default: none. */
  readonly cert?: string | undefined;
  /** The private key of `cert`, not encrypted. Default: none; required with `cert`. */
  readonly key?: string | undefined;
}

/** Paths of PEM files. */
export interface TlsFiles {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
}

/** The parameters of a URL that name files. */
export const TLS_PARAMETERS: ParameterTable = { cacert: filePath, cert: filePath, key: filePath };

/** The parameter of a URL whose scheme does not ask for TLS. */
export const TLS_SWITCH: ParameterTable = { tls: oneOf("true", "false", "") };

/**
 * Whether a URL asks for TLS: by its scheme, or by `?tls`.
 * @param scheme that asks for TLS, such as `etcds`
 * @throws InvalidOptionError if they contradict each other
 */
export function asksForTls(url: string, scheme: string, query: string): boolean {
  const tls = new URLSearchParams(query).get("tls");
  const isSecure = url.toLowerCase().startsWith(`${scheme}:`);
  if (isSecure && tls === "false") {
    throw new InvalidOptionError("url: ?tls", `contradicts ${scheme}://: remove it`);
  }
  return isSecure || tls === "" || tls === "true";
}

/** @throws InvalidOptionError */
export function tlsFilesOf(parameters: URLSearchParams): TlsFiles {
  const [ca, cert, key] = [parameters.get("cacert"), parameters.get("cert"), parameters.get("key")];
  if ((cert === null) !== (key === null)) {
    throw new InvalidOptionError("url", "must name both ?cert= and ?key=, or neither");
  }
  return { ca, cert, key };
}

/**
 * Checks the options of a store that speak of certificates.
 * @param files of its URL; null if the URL asks for no TLS
 * @param scheme of a URL that asks for TLS
 * @throws InvalidOptionError
 */
export function checkTls(
  { tls, fetch }: { readonly tls?: TlsOptions | undefined; readonly fetch?: unknown },
  files: TlsFiles | null,
  scheme: string,
): void {
  if (fetch !== undefined && (tls !== undefined || hasFiles(files))) {
    throw new InvalidOptionError(
      "fetch",
      "brings certificates of its own: remove it, or the others",
    );
  }
  if (tls === undefined) return;
  checkCertificates(tls);
  if (files === null) throw new InvalidOptionError("tls", `needs a URL with ${scheme}://`);
  if (!hasFiles(files)) return;
  throw new InvalidOptionError("tls", "stands in place of ?cacert=, ?cert= and ?key=: use one");
}

/** @throws InvalidOptionError */
export function checkCertificates(tls: TlsOptions): void {
  checkObject("tls", tls);
  checkOptional("string", tls, ["ca", "cert", "key"]);
  if ((tls.cert === undefined) === (tls.key === undefined)) return;
  throw new InvalidOptionError("tls", "must have both cert and key, or neither");
}

function hasFiles(files: TlsFiles | null): files is TlsFiles {
  return files !== null && Object.values(files).some((path) => path !== null);
}
