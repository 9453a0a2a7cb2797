/** How to reach an API server, and as whom: from within the cluster, or by a kubeconfig. */
import { access, readFile } from "node:fs/promises";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent, type RequestOptions } from "node:https";
import { homedir } from "node:os";
import { join } from "node:path";
import { StoreMisconfiguredError, StoreUnavailableError } from "../../core/index.js";
import type { Clock } from "../../env/index.js";

export interface Cluster {
  /** URL of the API server, without a slash at its end. */
  readonly server: string;
  /** The namespace that the kubeconfig's context or the service account has. */
  readonly namespace: string | undefined;
  /**
   * What each request carries.
   * @param refresh what was carried before was refused
   */
  access(refresh: boolean): Promise<Access>;
  /** Ends the connections. */
  close(): void;
}

export interface Access {
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: HttpAgent;
}

/** What a pod is given: the address in its environment, the rest as files. */
export interface ServiceAccount {
  readonly host: string;
  readonly port: string;
  /** With `token`, `ca.crt` and `namespace`. */
  readonly directory: string;
}

const DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";
/** The kubelet replaces a token long before it ends; client-go looks as often. */
const REREAD_MS = 60_000;

/**
 * The cluster of this process: that of the kubeconfig in KUBECONFIG, the one that it runs in, or that of
 * ~/.kube/config, in this order.
 * @throws STORE_MISCONFIGURED if there is none of these
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
    "there is no Kubernetes cluster to talk to: set KUBECONFIG to a kubeconfig, or run in a pod with a service account",
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
        `the service account's ${path} cannot be read: mount it (automountServiceAccountToken), or set KUBECONFIG`,
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
 * @param path default: those that KUBECONFIG names, merged
 * @throws STORE_MISCONFIGURED if the package that reads it is missing, or it names no cluster
 * @internal
 */
export async function openKubeconfig(
  path: string | undefined,
  context: string | undefined,
): Promise<Cluster> {
  const { KubeConfig } = await import("@kubernetes/client-node").catch((error) => {
    throw new StoreMisconfiguredError(
      "the package @kubernetes/client-node is missing: npm install @kubernetes/client-node",
      error,
    );
  });
  const load = () => {
    const config = new KubeConfig();
    try {
      if (path === undefined) config.loadFromDefault();
      else config.loadFromFile(path);
    } catch (error) {
      const { message } = error as Error;
      throw new StoreMisconfiguredError(`the kubeconfig cannot be read: ${message}`, error);
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
        // What is under way on the connections of the old one ends there.
        agent = undefined;
      }
      const options: RequestOptions = {};
      try {
        // Tokens of plugins are renewed here when their time is over.
        await config.applyToHTTPSOptions(options);
      } catch (error) {
        const { message } = error as Error;
        throw new StoreUnavailableError(`the kubeconfig gives no credentials: ${message}`, {
          outcome: "none",
          cause: error,
        });
      }
      if (!agent) {
        // The one that comes would open a connection for each request.
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
