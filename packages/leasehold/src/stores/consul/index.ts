/** Leases in Consul (1.7 or later), by its HTTP API and fetch alone. */

import type { Env } from "../../env/index.js";
import { checkObject, checkUrl, LEASE_RETRIES, Retrying, withRetries } from "../../lease/index.js";
import { checkFetchPorts } from "../../store-kit/blocked-ports.js";
import { checkServer, expectedHttp, openServer } from "../../store-kit/opening-server.js";
import { checkTls, type TlsOptions } from "../../store-kit/tls.js";
import { fetchOver, openTls } from "../../store-kit/tls-connections.js";
import type { LeaseStores, StoreSource } from "../source.js";
import { ConsulClient } from "./connection.js";
import { addressOf } from "./connection-address.js";
import { diagnoseConsul } from "./diagnose.js";
import { withStoreErrors } from "./failures.js";
import { ConsulLeaseStore } from "./store.js";

export type { TlsOptions } from "../../store-kit/tls.js";

const DEFAULT_OPEN_TIMEOUT_MS = 5_000;

/** Options of {@link consul}. */
export interface ConsulOptions {
  /**
   * `consul://host:8500,host2:8500/prefix`: agents of one datacenter, and the prefix of all keys (default:
   * `leasehold`). `consuls://` or `?tls` for TLS. `?dc=` names another datacenter than that of the agent, `?token=`
   * an ACL token (default: the environment's CONSUL_HTTP_TOKEN). `?sessionTtlMs=` is how long, in milliseconds, a
   * client keeps its leases without an answer of Consul, at least 10,000; default 20,000. A lease lasts at most three
   * quarters of it. `?format=consul-lock` is the default: the keys of `consul lock`. With TLS, `?cacert=` is the path
   * of a PEM file with the authority (default: those of Node), `?cert=` and `?key=` are the client's certificate.
   */
  readonly url: string | URL;
  /** The certificates themselves, in place of `?cacert=`, `?cert=` and `?key=`. Default: those of the URL. */
  readonly tls?: TlsOptions;
  /** Your own can add a proxy. Default: that of Node. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Leases in Consul. Each lease is bound to the session of the client that acquired it, and ends with that client's
 * process. Opening makes a session, which checks the permissions.
 * @throws InvalidOptionError for an invalid URL. On opening: STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { consul } from "leasehold/stores/consul";
 *
 * const leasehold = await connect(consul({ url: "consul://localhost:8500/locks" }));
 * await leasehold.close();
 * ```
 */
export function consul(options: ConsulOptions): StoreSource {
  checkObject("options", options);
  checkUrl(options.url);
  const { files, ...address } = addressOf(String(options.url));
  checkTls(options, files, "consuls");
  const isDirect = options.fetch === undefined;
  return {
    async open(env: Env, timeoutMs = DEFAULT_OPEN_TIMEOUT_MS): Promise<LeaseStores> {
      const secureContext = await openTls(options.tls, files, "Consul");
      const own = secureContext && fetchOver(secureContext);
      if (isDirect && !own) checkFetchPorts("url", address.agents, 8500);
      const fetch = own?.fetch ?? options.fetch ?? globalThis.fetch;
      const client = new ConsulClient({ ...address, fetch, env });
      const store = new ConsulLeaseStore(client);
      const retrying = new Retrying(env);
      const expected = expectedHttp(address.agents);
      try {
        // Another fetch may reach its agents by other ways.
        if (isDirect) await checkServer(expected);
        const opening = retrying.call((leftMs) => withStoreErrors(() => store.open(leftMs)), {
          timeoutMs,
        });
        await (isDirect ? openServer(expected, env, opening, async () => {}) : opening);
      } catch (error) {
        await store.close();
        own?.close();
        throw error;
      }
      const leases = withRetries(store, LEASE_RETRIES, new Retrying(env));
      const diagnose = () => retrying.call(() => withStoreErrors(() => diagnoseConsul(client)));
      const close = async () => {
        await leases.close();
        own?.close();
      };
      return { leases, diagnose, close };
    },
  };
}
