/** Finds the API server and the credentials: in a pod, or from a kubeconfig. */
import { access, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import type { Clock } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { type Cluster, type Credentials, CurrentAccess, Reread } from "./connection-access.js";
import { openKubeconfig } from "./connection-kubeconfig.js";

/** A pod's view of its cluster: the address in the environment, the rest as files. */
export interface ServiceAccount {
  readonly host: string;
  readonly port: string;
  /** The directory with `token`, `ca.crt` and `namespace`. */
  readonly directory: string;
}

const DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Returns the cluster of this process: from the kubeconfig in KUBECONFIG, from the pod it runs in, or
 * from ~/.kube/config, in this order.
 * @throws STORE_MISCONFIGURED if none of these exists
 */
export async function findCluster(
  options: { kubeconfig?: string | undefined; context?: string | undefined },
  clock: Clock,
): Promise<Cluster> {
  const { kubeconfig, context } = options;
  const { KUBECONFIG, KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  if (kubeconfig !== undefined) return openKubeconfig([kubeconfig], context, clock);
  if (KUBECONFIG) return openKubeconfig(KUBECONFIG.split(delimiter), context, clock);
  if (host && port && (await exists(join(DIRECTORY, "token")))) {
    return inCluster({ host, port, directory: DIRECTORY }, clock);
  }
  const own = join(homedir(), ".kube", "config");
  if (await exists(own)) return openKubeconfig([own], context, clock);
  throw new StoreMisconfiguredError(
    "no Kubernetes cluster was found: set KUBECONFIG to a kubeconfig, or run in a pod with a service account",
  );
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** @throws STORE_MISCONFIGURED if a file cannot be read @internal */
export async function inCluster(
  { host, port, directory }: ServiceAccount,
  clock: Clock,
): Promise<Cluster> {
  const read = async (name: string): Promise<string> => {
    const path = join(directory, name);
    try {
      return (await readFile(path, "utf8")).trim();
    } catch (error) {
      throw new StoreMisconfiguredError(
        `the service account's ${path} is not readable: mount it (automountServiceAccountToken), or set KUBECONFIG`,
        error,
      );
    }
  };
  const account = new Reread<Credentials>(clock, async () => {
    // One after the other, so that the error is always about the first that is missing.
    const ca = await read("ca.crt");
    const token = await read("token");
    return { tls: { ca }, headers: { authorization: `Bearer ${token}` } };
  });
  const current = new CurrentAccess(async (again) => [await account.get(again)]);
  await account.get();
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    namespace: await read("namespace"),
    access: (refused) => current.get(refused),
    close: () => current.close(),
  };
}
