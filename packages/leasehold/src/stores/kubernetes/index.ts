/**
 * Leases as Lease objects of a Kubernetes cluster, the ones that its own controllers use for leader
 * election.
 */

import type { Env } from "../../env/index.js";
import { checkObject, checkOptional, InvalidOptionError } from "../../lease/index.js";
import { expectedHttp, openServer } from "../../store-kit/opening-server.js";
import {
  anyText,
  filePath,
  type ParameterTable,
  readParameters,
} from "../../store-kit/url-parameters.js";
import type { LeaseStores, StoreSource } from "../source.js";
import { DEFAULT_BUDGET_MS, KubernetesApi } from "./connection.js";
import type { Cluster } from "./connection-access.js";
import { findCluster } from "./connection-cluster.js";
import { KubernetesLeaseStore } from "./store.js";

/** Options of {@link kubernetes}. */
export interface KubernetesOptions {
  /**
   * The Kubernetes namespace of the Lease objects. Default: the namespace of the kubeconfig's context
   * or of the pod's service account, else `default`.
   */
  readonly namespace?: string | undefined;
  /**
   * Path of a kubeconfig. Default: the files in KUBECONFIG, else the cluster of this pod, else
   * ~/.kube/config.
   */
  readonly kubeconfig?: string | undefined;
  /** Context of the kubeconfig. Default: its current context. */
  readonly context?: string | undefined;
}

/**
 * Leases in a Kubernetes cluster. Opening checks the permissions with requests that write nothing.
 * @param options or a URL: `kubernetes:NAMESPACE`, optionally with `?context=` and `?kubeconfig=`
 * @throws InvalidOptionError for an invalid URL or namespace. On opening: STORE_UNAVAILABLE,
 *   STORE_MISCONFIGURED
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { kubernetes } from "leasehold/stores/kubernetes";
 *
 * const leasehold = await connect(kubernetes({ namespace: "jobs" }));
 * await leasehold.close();
 * ```
 */
export function kubernetes(options: KubernetesOptions | { url: string }): StoreSource<LeaseStores> {
  checkObject("options", options);
  const { namespace, kubeconfig, context } = "url" in options ? parse(options.url) : options;
  checkOptional("string", { namespace, kubeconfig, context }, [
    "namespace",
    "kubeconfig",
    "context",
  ]);
  if (namespace !== undefined && !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(namespace)) {
    throw new InvalidOptionError("namespace", "must be the name of a Kubernetes namespace");
  }
  return {
    async open(env: Env, timeoutMs?: number): Promise<LeaseStores> {
      const cluster = await findCluster({ kubeconfig, context }, env.clock);
      const place = namespace ?? cluster.namespace ?? "default";
      const givenUp = new AbortController();
      const opening = openCluster(cluster, place, env, timeoutMs, givenUp.signal);
      const expected = expectedHttp([cluster.server]);
      const close = (late: LeaseStores) => late.close();
      return openServer(expected, env, opening, close, () => givenUp.abort());
    },
  };
}

/** @internal */
export async function openCluster(
  cluster: Cluster,
  namespace: string,
  env: Env,
  timeoutMs = DEFAULT_BUDGET_MS,
  givenUp?: AbortSignal,
): Promise<LeaseStores> {
  const api = new KubernetesApi(cluster, namespace, env);
  const leases = new KubernetesLeaseStore(api, env);
  givenUp?.addEventListener("abort", () => void leases.close(), { once: true });
  try {
    await checkRights(api, env.clock.monotonic() + timeoutMs);
  } catch (error) {
    await leases.close();
    throw error;
  }
  return { leases, close: () => leases.close() };
}

/** Reports a missing permission on opening rather than at the first lease. */
async function checkRights(api: KubernetesApi, deadlineMs: number): Promise<void> {
  const name = "leasehold-right-to-write";
  const dry = { query: { dryRun: "All" }, body: { metadata: { name } }, deadlineMs };
  await Promise.all([
    api.send({ verb: "get", name, deadlineMs }),
    api.send({ verb: "list", query: { limit: "1" }, deadlineMs }),
    api.send({ verb: "create", ...dry }),
    api.send({ verb: "update", name, ...dry }),
  ]);
}

const PARAMETERS: ParameterTable = { context: anyText, kubeconfig: filePath };

function parse(url: string): KubernetesOptions {
  const [, place = "", query = ""] = /^kubernetes:([^?]*)\??(.*)$/is.exec(url) ?? [];
  // The namespace would look like a host.
  if (place.startsWith("//")) {
    throw new InvalidOptionError("url", "must be kubernetes:NAMESPACE, without //");
  }
  const parameters = readParameters("kubernetes:", query, PARAMETERS);
  const options: Record<string, string> = Object.fromEntries(parameters);
  return place === "" ? options : { ...options, namespace: place };
}
