/** Leases in ZooKeeper, in the layout of Curator's lock recipes. */
import type { Env } from "../../env/index.js";
import { checkObject } from "../../lease/index.js";
import { type ExpectedServer, openServer } from "../../store-kit/opening-server.js";
import { openTls } from "../../store-kit/tls-connections.js";
import type { LeaseStores, StoreSource } from "../source.js";
import {
  checkOptions,
  DEFAULT_SESSION_TIMEOUT_MS,
  hostAndPort,
  optionsOf,
  type ZooKeeperAddress,
  type ZooKeeperOptions,
} from "./connection-address.js";
import { loadZooKeeper } from "./connection-driver.js";
import { Session } from "./connection-session.js";
import { storeError } from "./failures.js";
import { Paths } from "./keys.js";
import { ZooKeeperLeaseStore } from "./store.js";
import { aclsOf, Talk } from "./transactions.js";
import { Watches } from "./watch.js";

export type { TlsOptions } from "../../store-kit/tls.js";
export type { ZooKeeperOptions } from "./connection-address.js";

const DEFAULT_OPEN_TIMEOUT_MS = 5_000;
/** Reports the reason of a failed opening, not only the failure. */
const OPEN_SHARE = 0.9;

/**
 * Leases in a ZooKeeper ensemble. Each lease is bound to the session of the client that acquired it,
 * and ends with that client's process. Opening creates the chroot if it is missing.
 * @param options or a URL: `zookeeper://user:password@a:2181,b,c/chroot?sessionTimeoutMs=15000`; `zookeepers://` for
 *   TLS, where `?cacert=` is the path of a PEM file with the authority (default: those of Node), and `?cert=` and
 *   `?key=` are the client's certificate
 * @throws STORE_MISCONFIGURED for an invalid URL, INVALID_OPTION for options out of range. On opening:
 *   STORE_UNAVAILABLE, STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { zookeeper } from "leasehold/stores/zookeeper";
 *
 * const leasehold = await connect(zookeeper({ servers: ["a", "b", "c"], chroot: "/locks" }));
 * await leasehold.close();
 * ```
 */
export function zookeeper(options: ZooKeeperOptions | { url: string }): StoreSource<LeaseStores> {
  checkObject("options", options);
  const given: ZooKeeperAddress = "url" in options ? optionsOf(options.url) : options;
  checkOptions(given);
  return {
    open(env, timeoutMs) {
      const limitMs = timeoutMs ?? DEFAULT_OPEN_TIMEOUT_MS;
      const givenUp = new AbortController();
      const opening = openZooKeeper(given, env, limitMs, givenUp.signal);
      const close = (late: LeaseStores) => late.close();
      return openServer(expectedOf(given), env, opening, close, () => givenUp.abort());
    },
  };
}

function expectedOf({ servers, tls, files }: ZooKeeperAddress): ExpectedServer {
  const addresses = servers.map(hostAndPort);
  if (tls ?? files) {
    const remedies = { ZooKeeper: "it has no TLS, so write zookeeper://" };
    return { addresses, protocol: "TLS", remedies };
  }
  return { addresses, protocol: "ZooKeeper", remedies: { TLS: "write zookeepers:// for TLS" } };
}

async function openZooKeeper(
  address: ZooKeeperAddress,
  env: Env,
  timeoutMs: number,
  givenUp: AbortSignal,
): Promise<LeaseStores> {
  const { servers, chroot = "", auth, tls, files } = address;
  const { sessionTimeoutMs = DEFAULT_SESSION_TIMEOUT_MS } = address;
  const driver = await loadZooKeeper();
  const certificates = (tls ?? files) && {
    secureContext: await openTls(tls, files ?? null, "ZooKeeper"),
  };
  const deadlineMs = env.clock.monotonic() + timeoutMs * OPEN_SHARE;
  const watches = new Watches();
  let store: ZooKeeperLeaseStore | undefined;
  const onLink = () => {
    watches.renewed();
    store?.onLink();
  };
  const options = { driver, servers, sessionTimeoutMs, auth, tls: certificates, givenUp };
  const session = await Session.open(options, env, timeoutMs * OPEN_SHARE, onLink);
  try {
    const paths = new Paths(chroot);
    const acls = aclsOf(driver, auth);
    const link = await session.link(deadlineMs);
    // Checks the permissions to read and write on opening rather than at the first lease.
    await new Talk(link, deadlineMs, paths, acls).sync();
    const { sessionTimeoutMs: grantedMs } = link;
    const leases = new ZooKeeperLeaseStore(session, grantedMs, paths, acls, env, watches);
    store = leases;
    return { leases, close: () => leases.close() };
  } catch (error) {
    await session.close();
    throw storeError(error, false);
  }
}
