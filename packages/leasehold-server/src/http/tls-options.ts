/** The option `tls` of `listen`, in a file without types of Node, which users may not have. */

/** Certificates and keys in PEM. */
export interface ServerTls {
  /** The server's certificate, followed by those of intermediate authorities. */
  readonly cert: string;
  /** The private key of `cert`. */
  readonly key: string;
  /**
   * The authorities that sign certificates of clients. The server asks clients for a certificate, and cuts off those
   * whose certificate is not signed by one of these. Default: it asks for none.
   */
  readonly clientCa?: string | undefined;
}
