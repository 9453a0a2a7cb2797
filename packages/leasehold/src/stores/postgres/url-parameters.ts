/** The parameters that a `postgres://` URL may have. */

/** Read here, and not passed on. */
export const OWN_PARAMETERS = ["schema", "watch"] as const;

/** Of pg, beyond those of libpq: pg-connection-string and pg's ConnectionParameters read them. */
const OF_PG = [
  "binary",
  "database",
  "encoding",
  "idle_in_transaction_session_timeout",
  "lock_timeout",
  "query_timeout",
  "ssl",
  "statement_timeout",
  "uselibpqcompat",
] as const;

/**
 * Of libpq 18, as its manual lists them. pg ignores some of them, such as `channel_binding`, and providers write
 * them into the URLs that they hand out.
 */
const OF_LIBPQ = [
  "application_name",
  "channel_binding",
  "client_encoding",
  "connect_timeout",
  "dbname",
  "fallback_application_name",
  "gssdelegation",
  "gssencmode",
  "gsslib",
  "host",
  "hostaddr",
  "keepalives",
  "keepalives_count",
  "keepalives_idle",
  "keepalives_interval",
  "krbsrvname",
  "load_balance_hosts",
  "max_protocol_version",
  "min_protocol_version",
  "oauth_client_id",
  "oauth_client_secret",
  "oauth_issuer",
  "oauth_scope",
  "options",
  "passfile",
  "password",
  "port",
  "replication",
  "require_auth",
  "requirepeer",
  "requiressl",
  "scram_client_key",
  "scram_server_key",
  "service",
  "servicefile",
  "ssl_max_protocol_version",
  "ssl_min_protocol_version",
  "sslcert",
  "sslcertmode",
  "sslcompression",
  "sslcrl",
  "sslcrldir",
  "sslkey",
  "sslkeylogfile",
  "sslmode",
  "sslnegotiation",
  "sslpassword",
  "sslrootcert",
  "sslsni",
  "target_session_attrs",
  "tcp_user_timeout",
  "user",
] as const;

export const DRIVER_PARAMETERS: readonly string[] = [...OF_PG, ...OF_LIBPQ];
