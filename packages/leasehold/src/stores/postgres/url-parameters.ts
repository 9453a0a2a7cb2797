/** The parameters that a `postgres://` URL may have, with their values, and which of them contradict each other. */
import { InvalidOptionError } from "../../lease/index.js";
import {
  anyText,
  filePath,
  oneOf,
  type ParameterTable,
  wholeNumber,
} from "../../store-kit/url-parameters.js";

/** Read here, and not passed on. */
export const OWN_PARAMETERS: ParameterTable = { schema: anyText, watch: oneOf("poll") };

const bit = oneOf("0", "1");
const milliseconds = wholeNumber(0, 2 ** 31 - 1);

/** Returns a check that refuses every value: ignored, it would change which server is reached, or how safely. */
function refused(remedy: string) {
  return () => `has no effect in the driver pg: ${remedy}`;
}
const remove = refused("remove it");

/** Of libpq 18, as its manual lists them, and of pg. */
export const DRIVER_PARAMETERS: ParameterTable = {
  application_name: anyText,
  client_encoding: oneOf("UTF8", "utf8", "utf-8", "UTF-8", "auto"),
  fallback_application_name: anyText,
  host: anyText,
  idle_in_transaction_session_timeout: milliseconds,
  lock_timeout: milliseconds,
  options: anyText,
  password: anyText,
  port: (value) => (/^\d+(,\d+)*$/.test(value) ? null : "must be a port in digits"),
  query_timeout: milliseconds,
  ssl: oneOf("true", "false", "1", "0", "no-verify"),
  sslcert: filePath,
  sslkey: filePath,
  sslmode: oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full", "no-verify"),
  sslnegotiation: oneOf("postgres", "direct"),
  sslrootcert: filePath,
  statement_timeout: milliseconds,
  target_session_attrs: oneOf("read-write", "primary", "any"),
  uselibpqcompat: oneOf("true", "false"),
  user: anyText,
  // Without an effect in pg, and harmless. Providers write some of them into the URLs that they hand out.
  channel_binding: oneOf("disable", "prefer", "require"),
  connect_timeout: wholeNumber(0),
  gssencmode: oneOf("disable", "prefer"),
  keepalives: bit,
  keepalives_count: wholeNumber(0),
  keepalives_idle: wholeNumber(0),
  keepalives_interval: wholeNumber(0),
  load_balance_hosts: oneOf("disable", "random"),
  sslcompression: bit,
  sslsni: bit,
  tcp_user_timeout: wholeNumber(0),
  // Refused.
  binary: () => "is not supported: remove it",
  database: refused("write the database into the path of the URL"),
  dbname: refused("write the database into the path of the URL"),
  hostaddr: refused("write the address in place of the host"),
  max_protocol_version: remove,
  min_protocol_version: remove,
  passfile: refused("set PGPASSFILE"),
  replication: () => "is not supported: remove it",
  require_auth: remove,
  requirepeer: remove,
  requiressl: refused("write ?sslmode=verify-full"),
  service: refused("write host, port, user and database into the URL"),
  servicefile: refused("write host, port, user and database into the URL"),
  ssl_max_protocol_version: refused("start Node with --tls-max-v1.3 or the like"),
  ssl_min_protocol_version: refused("start Node with --tls-min-v1.3 or the like"),
  sslcertmode: remove,
  sslcrl: remove,
  sslcrldir: remove,
  sslkeylogfile: remove,
  sslpassword: refused("store the key of ?sslkey without a passphrase"),
};

const OFF: readonly (string | null)[] = ["disable", "false", "0"];
const UNVERIFIED: readonly (string | null)[] = ["no-verify"];
const FILES = ["sslrootcert", "sslcert", "sslkey"] as const;

/** Zero means no limit, as of the other times. pg would take the text for one. */
export function settleTimes(parameters: URLSearchParams): void {
  if (Number(parameters.get("query_timeout")) === 0) parameters.delete("query_timeout");
}

/**
 * Replaces what pg would read in another way than it is meant.
 *
 *   sslmode=allow, prefer, require, verify-ca   pg 8 treats them as verify-full, and warns at length; pg 9 will not
 *   sslrootcert=system                          pg would look for a file of that name
 *   ssl=false                                   pg would fail
 *
 * @param parameters whose values are allowed; changed
 * @throws InvalidOptionError for a contradiction
 */
export function settleTls(parameters: URLSearchParams): void {
  const value = (name: string) => parameters.get(name);
  const [ssl, mode] = [value("ssl"), value("sslmode")];
  const isCompatible = value("uselibpqcompat") === "true";
  const isOff = OFF.includes(ssl) || OFF.includes(mode);
  const isVerified = mode !== null && !OFF.includes(mode) && !UNVERIFIED.includes(mode);
  if (ssl !== null && mode !== null && OFF.includes(ssl) !== OFF.includes(mode)) {
    throw contradiction("ssl", "sslmode");
  }
  if (ssl === "no-verify" && isVerified) throw contradiction("ssl", "sslmode");
  if (isOff && value("sslnegotiation") === "direct") {
    throw contradiction("sslnegotiation", mode === null ? "ssl" : "sslmode");
  }
  const named = FILES.find((name) => value(name) !== null);
  if (named && isOff) throw contradiction(named, mode === null ? "ssl" : "sslmode");
  const isUnverified = UNVERIFIED.includes(ssl) || UNVERIFIED.includes(mode);
  if (value("sslrootcert") !== null && isUnverified) {
    throw contradiction("sslrootcert", mode === null ? "ssl" : "sslmode");
  }
  if ((value("sslcert") === null) !== (value("sslkey") === null)) {
    throw new InvalidOptionError("url", "must name both ?sslcert= and ?sslkey=, or neither");
  }
  if (value("sslrootcert") === "system") {
    if (mode !== null && mode !== "verify-full")
      throw contradiction("sslrootcert=system", "sslmode");
    parameters.delete("sslrootcert");
    parameters.set("sslmode", "verify-full");
  }
  if (isCompatible && mode === "verify-ca" && value("sslrootcert") === null) {
    throw new InvalidOptionError(
      "url: ?sslmode=verify-ca",
      "needs ?sslrootcert= with ?uselibpqcompat",
    );
  }
  if (isOff) {
    parameters.set("sslmode", "disable");
    parameters.delete("ssl");
  } else if (isVerified && !isCompatible) parameters.set("sslmode", "verify-full");
  // pg takes the first for verify-full. The second differs in what is tried first.
  else if (mode === "allow") parameters.set("sslmode", "prefer");
}

function contradiction(one: string, other: string): InvalidOptionError {
  return new InvalidOptionError(`url: ?${one}`, `contradicts ?${other}: remove one of them`);
}
