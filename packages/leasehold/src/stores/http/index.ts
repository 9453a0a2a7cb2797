import type { StoreSource, Stores } from "../source.js";
import { type HttpOptions, httpSource } from "./opening.js";

export type { TlsOptions } from "../../store-kit/tls.js";
export type { HttpOptions } from "./opening.js";

/**
 * Leases and tasks on a Leasehold server, in any runtime that has fetch. Opening asks the server for
 * the capabilities of its stores.
 * @throws InvalidOptionError for an invalid URL or key. On opening: STORE_UNAVAILABLE,
 *   STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { http } from "leasehold/stores/http";
 *
 * const apiKey = process.env.LEASEHOLD_KEY ?? "";
 * const leasehold = await connect(http({ url: "https://leases.example", apiKey }));
 * await leasehold.close();
 * ```
 */
export function http(options: HttpOptions): StoreSource<Stores> {
  return httpSource(options);
}
