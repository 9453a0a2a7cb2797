/** Finds the API server and the credentials: in a pod, or from a kubeconfig. */
import { access, readFile } from "node:fs/promises";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent, type RequestOptions } from "node:https";
import { homedir } from "node:os";
import { join } from "node:path";
import { loadDriver, StoreMisconfiguredError, StoreUnavailableError } from "../../core/index.js";
import type { Clock } from "../../env/index.js";

export interface Cluster {
  /** URL of the API server, without a trailing slash. */
  readonly server: string;
  /** The namespace of the kubeconfig's context or of the service account. */
  readonly namespace: string | undefined;
  /**
   * Returns the credentials of a request.
   * @param refresh true if the server rejected the previous credentials
   */
  access(refresh: boolean): Promise<Access>;
  /** Closes the connections. */
  close(): void;
}

export interface Access {
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: HttpAgent;
}

/** A pod's view of its cluster: the address in the environment, the rest as files. */
export interface ServiceAccount {
  readonly host: string;
  readonly port: string;
  /** The directory with `token`, `ca.crt` and `namespace`. */
  readonly directory: string;
}

const DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";
/** The kubelet replaces a token long before it expires. client-go rereads it at the same interval. */
const REREAD_MS = 60_000;

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
  if (kubeconfig !== undefined) return openKubeconfig(kubeconfig, context);
  if (KUBECONFIG) return openKubeconfig(undefined, context);
  if (host && port && (await exists(join(DIRECTORY, "token")))) {
    return inCluster({ host, port, directory: DIRECTORY }, clock);
  }
  const own = join(homedir(), ".kube", "config");
  if (await exists(own)) return openKubeconfig(own, context);
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
  const agent = new HttpsAgent({ ca: await read("ca.crt"), keepAlive: true });
  let token = await read("token");
  let readMs = clock.monotonic();
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    namespace: await read("namespace"),
    async access(refresh) {
      if (refresh || clock.monotonic() - readMs >= REREAD_MS) {
        token = await read("token");
        readMs = clock.monotonic();
      }
      return { headers: { authorization: `Bearer ${token}` }, agent };
    },
    close: () => agent.destroy(),
  };
}

/**
 * @param path default: the files in KUBECONFIG, merged
 * @throws STORE_MISCONFIGURED if the client package is missing or the kubeconfig names no cluster
 * @internal
 */
export async function openKubeconfig(
  path: string | undefined,
  context: string | undefined,
): Promise<Cluster> {
  const KubeConfig = await loadDriver(
    "@kubernetes/client-node",
    () => import("@kubernetes/client-node"),
    ({ KubeConfig }) => KubeConfig,
  );
  const load = () => {
    const config = new KubeConfig();
    try {
      if (path === undefined) config.loadFromDefault();
      else config.loadFromFile(path);
    } catch (error) {
      const { message } = error as Error;
      throw new StoreMisconfiguredError(`the kubeconfig is not readable: ${message}`, error);
    }
    if (context !== undefined) config.setCurrentContext(context);
    return config;
  };
  let config = load();
  const cluster = config.getCurrentCluster();
  if (!cluster) {
    const known = config.getContexts().map(({ name }) => name);
    throw new StoreMisconfiguredError(
      `the kubeconfig has no cluster for the context "${config.getCurrentContext()}": choose one of ${known.join(", ") || "none"} (kubernetes:NAMESPACE?context=NAME)`,
    );
  }
  let agent: HttpAgent | undefined;
  const agents: HttpAgent[] = [];
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: config.getContextObject(config.getCurrentContext())?.namespace,
    async access(refresh) {
      if (refresh) {
        config = load();
        // Closing the old agent aborts the requests on its connections.
        agent = undefined;
      }
      const options: RequestOptions = {};
      try {
        // The client package renews a plugin's token here once it has expired.
        await config.applyToHTTPSOptions(options);
      } catch (error) {
        const { message } = error as Error;
        throw new StoreUnavailableError(`the kubeconfig yields no credentials: ${message}`, {
          outcome: "none",
          cause: error,
        });
      }
      if (!agent) {
        // The package's own agent opens a connection per request.
        const made = options.agent instanceof HttpAgent ? options.agent : new HttpAgent();
        agent = Object.assign(made, { keepAlive: true });
        agents.push(agent);
      }
      const headers: Record<string, string> = {};
      for (const [name, value] of Object.entries(options.headers ?? {})) {
        headers[name] = String(value);
      }
      if (options.auth) {
        headers["Authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
      }
      return { headers, agent };
    },
    close() {
      for (const each of agents) each.destroy();
    },
  };
}
