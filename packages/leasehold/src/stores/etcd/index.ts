/** Leases in etcd (3.4 or later), by gRPC. */

import type { Env } from "../../env/index.js";
import {
  checkObject,
  checkUrl,
  InvalidOptionError,
  LEASE_RETRIES,
  Retrying,
  withRetries,
} from "../../lease/index.js";
import { checkServer, expectedHttp, openServer } from "../../store-kit/opening-server.js";
import {
  asksForTls,
  checkTls,
  TLS_PARAMETERS,
  TLS_SWITCH,
  type TlsFiles,
  type TlsOptions,
  tlsFilesOf,
} from "../../store-kit/tls.js";
import { openTls } from "../../store-kit/tls-connections.js";
import { originOf, readParameters } from "../../store-kit/url-parameters.js";
import type { LeaseStores, StoreSource } from "../source.js";
import { type Connection, DEFAULT_TIMEOUT_MS, EtcdClient } from "./connection.js";
import { COMPARE } from "./connection-api.js";
import { diagnoseEtcd } from "./diagnose.js";
import { EngineLeases } from "./engine-leases.js";
import { withStoreErrors } from "./failures.js";
import { openGrpc } from "./grpc-transport.js";
import { recordFolder } from "./keys.js";
import { EtcdLeaseStore } from "./store.js";

export type { TlsOptions } from "../../store-kit/tls.js";

/** Options of {@link etcd}. */
export interface EtcdOptions {
  /**
   * `etcd://user:password@host:2379,host2:2379/path`: the members of one cluster, and the prefix of all
   * keys (default: none). `etcds://` or `?tls` for TLS. User and password are optional; they and the
   * path are percent-encoded. With TLS, `?cacert=` is the path of a PEM file with the authority (default:
   * those of Node), `?cert=` and `?key=` are the client's certificate.
   */
  readonly url: string | URL;
  /** The certificates themselves, in place of `?cacert=`, `?cert=` and `?key=`. Default: those of the URL. */
  readonly tls?: TlsOptions;
}

/**
 * Leases in an etcd cluster, by gRPC: the packages `@grpc/grpc-js` and `protobufjs` must be installed. Opening reads
 * the cluster's shortest TTL and checks the permission to write.
 * @throws InvalidOptionError for an invalid URL. On opening: STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { etcd } from "leasehold/stores/etcd";
 *
 * const leasehold = await connect(etcd({ url: "etcd://localhost:2379/locks" }));
 * await leasehold.close();
 * ```
 */
export function etcd(options: EtcdOptions): StoreSource {
  checkObject("options", options);
  checkUrl(options.url);
  const { tls } = options;
  const { prefix, files, ...place } = placeOf(String(options.url));
  checkTls({ tls }, files, "etcds");
  return {
    async open(env: Env, timeoutMs = DEFAULT_TIMEOUT_MS): Promise<LeaseStores> {
      const deadlineMs = env.clock.monotonic() + timeoutMs;
      const secureContext = await openTls(tls, files, "etcd");
      const transport = await openGrpc(secureContext);
      const connection: Connection = { ...place, transport, env };
      const client = new EtcdClient(connection);
      const leases = new EngineLeases(client);
      const retrying = new Retrying(env);
      const probe = async (leftMs: number) => {
        const { minMs } = await leases.probe(leftMs);
        await checkRights(client, prefix, leftMs);
        return minMs;
      };
      const expected = expectedHttp(place.endpoints);
      try {
        await checkServer(expected);
        const probing = retrying.call((leftMs) => withStoreErrors(() => probe(leftMs)), {
          // Loading gRPC takes its time. The caller of `connect` waits no longer, and would not learn why it failed.
          timeoutMs: deadlineMs - env.clock.monotonic(),
        });
        const minMs = await openServer(expected, env, probing, async () => {});
        const store = withRetries(
          new EtcdLeaseStore({ client, leases, prefix, minMs }),
          // A repeated acquire may meet another client's lock: see transactions.ts.
          { ...LEASE_RETRIES, acquire: "batchOnce" },
          new Retrying(env),
        );
        const diagnose = () =>
          retrying.call(() => withStoreErrors(() => diagnoseEtcd(client, prefix)));
        return { leases: store, diagnose, close: () => store.close() };
      } catch (error) {
        client.close();
        throw error;
      }
    },
  };
}

/** A transaction whose condition is never true, to check the permission to write. */
async function checkRights(client: EtcdClient, prefix: string, timeoutMs: number): Promise<void> {
  const key = recordFolder(prefix);
  await client.call({
    method: "Txn",
    body: {
      compare: [{ key, target: COMPARE.CREATE, result: COMPARE.LESS, create_revision: 0 }],
      success: [{ request_put: { key, value: "" } }],
      failure: [{ request_range: { key } }],
    },
    repeatable: true,
    deadlineMs: client.connection.env.clock.monotonic() + timeoutMs,
  });
}

const URL_SHAPE = /^(etcds?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/i;

interface Place extends Pick<Connection, "endpoints" | "user"> {
  readonly prefix: string;
  /** Null without TLS. */
  readonly files: TlsFiles | null;
}

/** `new URL` does not support lists of hosts. No message contains the password. */
function placeOf(url: string): Place {
  const [, scheme = "", login, hosts = "", path = "", query = ""] = URL_SHAPE.exec(url) ?? [];
  if (scheme === "") {
    throw new InvalidOptionError("url", "must be like etcd://host:2379,host2:2379/path");
  }
  const isTls = asksForTls(url, "etcds", query);
  const web = isTls ? "https" : "http";
  const endpoints = hosts.split(",").map((host) => originOf(host, web, 2_379));
  const parameters = readParameters("etcd:", query, {
    ...TLS_SWITCH,
    ...(isTls && TLS_PARAMETERS),
  });
  const folder = decoded(path).replace(/\/+$/, "");
  return {
    endpoints,
    user: userOf(login),
    files: isTls ? tlsFilesOf(parameters) : null,
    prefix: folder === "" ? "" : `${folder}/`,
  };
}

function userOf(login: string | undefined): Connection["user"] {
  if (login === undefined || login === "") return null;
  const colon = login.indexOf(":");
  if (colon < 1) throw new InvalidOptionError("url", "must name a user as user:password@");
  return { name: decoded(login.slice(0, colon)), password: decoded(login.slice(colon + 1)) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidOptionError("url", "must have its user and path percent-encoded");
  }
}
