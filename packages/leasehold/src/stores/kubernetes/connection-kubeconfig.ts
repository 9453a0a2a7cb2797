/**
 * Kubeconfigs: clusters, users and contexts in one or several files, as kubectl reads them.
 *
 *   files ──▶ merged, the first to name something counts ──▶ context ──▶ cluster and user ──▶ credentials
 *
 * The files are read again while the store is open (connection-access.ts); the server stays the first one. No error
 * quotes a file, which has secrets.
 */
import { readFile } from "node:fs/promises";
import { Agent as HttpAgent, type OutgoingHttpHeaders } from "node:http";
import { type AgentOptions, Agent as HttpsAgent } from "node:https";
import { dirname, resolve } from "node:path";
import type { Clock } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { driverError } from "../../store-kit/driver.js";
import { type Cluster, type Credentials, CurrentAccess, Reread } from "./connection-access.js";
import { type ExecConfig, ExecPlugin } from "./connection-exec.js";
import { proxyAgent } from "./connection-proxy.js";

interface ClusterEntry {
  readonly server?: string;
  readonly "certificate-authority"?: string;
  readonly "certificate-authority-data"?: string;
  readonly "insecure-skip-tls-verify"?: boolean;
  readonly "tls-server-name"?: string;
  readonly "proxy-url"?: string;
  readonly extensions?: readonly { readonly name: string; readonly extension: unknown }[];
}
interface UserEntry {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly username?: string;
  readonly password?: string;
  readonly "client-certificate"?: string;
  readonly "client-certificate-data"?: string;
  readonly "client-key"?: string;
  readonly "client-key-data"?: string;
  readonly as?: string;
  readonly "as-uid"?: string;
  readonly "as-groups"?: readonly string[];
  readonly exec?: ExecConfig;
  readonly "auth-provider"?: { readonly name?: string };
}
interface ContextEntry {
  readonly cluster?: string;
  readonly user?: string;
  readonly namespace?: string;
}
type Kind = "cluster" | "user" | "context";
type Named<Of extends Kind, Entry> = { readonly name: string } & { readonly [kind in Of]?: Entry };
interface Kubeconfig {
  readonly clusters?: readonly Named<"cluster", ClusterEntry>[] | null;
  readonly users?: readonly Named<"user", UserEntry>[] | null;
  readonly contexts?: readonly Named<"context", ContextEntry>[] | null;
  readonly "current-context"?: string;
}

/** An entry, and the file that its paths are relative to. */
interface Found<Entry> {
  readonly entry: Entry;
  readonly path: string;
}

/** What a context names. */
interface Chosen {
  readonly cluster: Found<ClusterEntry & { readonly server: string }>;
  readonly user: Found<UserEntry> | undefined;
  readonly namespace: string | undefined;
}

/** The plugin's name for what kubectl passes on to it. */
const EXEC_EXTENSION = "client.authentication.k8s.io/exec";

/**
 * @param paths of a file, or of several, of which some may be missing
 * @param name of the context; default: the current one
 * @throws STORE_MISCONFIGURED if a file cannot be read or the context names no cluster
 */
export async function openKubeconfig(
  paths: readonly string[],
  name: string | undefined,
  clock: Clock,
): Promise<Cluster> {
  const { cluster, user, namespace } = await choose(paths, name);
  const { entry } = cluster;
  const server = entry.server.replace(/\/+$/, "");
  const files = new Reread<Credentials>(clock, async () =>
    credentialsOf(await choose(paths, name)),
  );
  const config = user?.entry.exec;
  const plugin =
    user &&
    config &&
    new ExecPlugin({ config, path: user.path, cluster: await infoOf(cluster) }, clock);
  const current = new CurrentAccess(
    async (again) => {
      const read = await files.get(again);
      return plugin ? [read, await plugin.credentials(again)] : [read];
    },
    (tls) => agentOf(entry, tls),
  );
  await files.get();
  // An unusable proxy is reported now.
  agentOf(entry, {}).destroy();
  return {
    server,
    namespace,
    access: (refused) => current.get(refused),
    close() {
      plugin?.close();
      current.close();
    },
  };
}

function agentOf({ server = "", "proxy-url": proxy }: ClusterEntry, tls: AgentOptions): HttpAgent {
  const isSecure = server.startsWith("https:");
  if (proxy) return proxyAgent(proxy, isSecure, tls);
  return isSecure ? new HttpsAgent(tls) : new HttpAgent({ keepAlive: true });
}

async function choose(paths: readonly string[], name: string | undefined): Promise<Chosen> {
  const files: { readonly path: string; readonly config: Kubeconfig }[] = [];
  for (const path of paths.filter((each) => each !== "")) {
    const config = await parse(path, paths.length > 1);
    if (config) files.push({ path, config });
  }
  const find = <Of extends Kind, Entry>(
    kind: Of,
    wanted: string | undefined,
    list: (config: Kubeconfig) => readonly Named<Of, Entry>[] | null | undefined,
  ): Found<Entry> | undefined => {
    for (const { path, config } of files) {
      const entry = list(config)?.find((each) => each.name === wanted)?.[kind];
      if (entry) return { entry, path };
    }
    return undefined;
  };
  const current = files.map(({ config }) => config["current-context"]).find(Boolean);
  const context = find("context", name ?? current, ({ contexts }) => contexts)?.entry;
  const cluster = find("cluster", context?.cluster, ({ clusters }) => clusters);
  const server = cluster?.entry.server;
  if (!context || !cluster || !server) {
    const known = files.flatMap(({ config }) => (config.contexts ?? []).map((each) => each.name));
    throw new StoreMisconfiguredError(
      `the kubeconfig has no cluster for the context "${name ?? current ?? ""}": choose one of ${known.join(", ") || "none"} (kubernetes:NAMESPACE?context=NAME)`,
    );
  }
  if (!/^https?:\/\//.test(server)) {
    throw new StoreMisconfiguredError(
      `the kubeconfig's server ${server} must begin with https:// or http://`,
    );
  }
  const user = find("user", context.user, ({ users }) => users);
  if (context.user && !user) {
    throw new StoreMisconfiguredError(
      `the kubeconfig has no user "${context.user}", whom its context names`,
    );
  }
  const { entry, path } = cluster;
  return { cluster: { entry: { ...entry, server }, path }, user, namespace: context.namespace };
}

/** @param mayBeMissing as in a list of files */
async function parse(path: string, mayBeMissing: boolean): Promise<Kubeconfig | null> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    if (mayBeMissing && code === "ENOENT") return null;
    throw new StoreMisconfiguredError(`the kubeconfig is not readable: ${code}: ${path}`, error);
  }
  // JSON needs no package.
  const isJson = text.trimStart().startsWith("{");
  const read = isJson ? (JSON.parse as (text: string) => unknown) : await yamlReader();
  try {
    return (read(text) as Kubeconfig | null) ?? {};
  } catch {
    throw new StoreMisconfiguredError(`the kubeconfig is not ${isJson ? "JSON" : "YAML"}: ${path}`);
  }
}

async function yamlReader(): Promise<(text: string) => unknown> {
  const yaml = await importYaml();
  // A warning would quote the file.
  return (text) => yaml.parse(text, { logLevel: "error" }) as unknown;
}

async function importYaml() {
  try {
    return await import("yaml");
  } catch (error) {
    throw driverError("yaml", error);
  }
}

async function credentialsOf({ cluster, user }: Chosen): Promise<Credentials> {
  const { entry } = cluster;
  const ca = await contentOf(cluster, "certificate-authority", "certificate-authority-data");
  const isUnchecked = entry["insecure-skip-tls-verify"] === true;
  const name = entry["tls-server-name"];
  const server: AgentOptions = {
    ...(ca && { ca }),
    ...(isUnchecked && { rejectUnauthorized: false }),
    ...(name && { servername: name }),
  };
  if (!user) return { headers: {}, tls: server };
  const provider = user.entry["auth-provider"]?.name;
  if (provider) {
    throw new StoreMisconfiguredError(
      `the kubeconfig's user has the auth-provider ${provider}, which is not supported: use an exec plugin in its place`,
    );
  }
  const [cert, key] = await Promise.all([
    contentOf(user, "client-certificate", "client-certificate-data"),
    contentOf(user, "client-key", "client-key-data"),
  ]);
  return {
    headers: await headersOf(user),
    tls: { ...server, ...(cert && { cert }), ...(key && { key }) },
  };
}

async function headersOf(user: Found<UserEntry>): Promise<OutgoingHttpHeaders> {
  const { token, username, password = "", as, "as-uid": uid, "as-groups": groups } = user.entry;
  const bearer = (await contentOf(user, "tokenFile"))?.trim() ?? token;
  const basic = username && Buffer.from(`${username}:${password}`).toString("base64");
  return {
    ...(basic && { authorization: `Basic ${basic}` }),
    ...(bearer && { authorization: `Bearer ${bearer}` }),
    ...(as && { "impersonate-user": as }),
    ...(uid && { "impersonate-uid": uid }),
    ...(groups && { "impersonate-group": [...groups] }),
  };
}

/** What a field says itself, in base64, or by the path of a file. */
async function contentOf<Entry extends object>(
  { entry, path }: Found<Entry>,
  fileField: keyof Entry & string,
  dataField?: keyof Entry & string,
): Promise<string | undefined> {
  const data = dataField && entry[dataField];
  if (data) return Buffer.from(String(data), "base64").toString("utf8");
  const file = entry[fileField];
  if (!file) return undefined;
  const from = resolve(dirname(path), String(file));
  try {
    return await readFile(from, "utf8");
  } catch (error) {
    throw new StoreMisconfiguredError(
      `the kubeconfig's ${fileField} ${from} is not readable`,
      error,
    );
  }
}

/** The cluster, as a plugin gets it. */
async function infoOf(cluster: Found<ClusterEntry>): Promise<object> {
  const { entry } = cluster;
  const ca = await contentOf(cluster, "certificate-authority", "certificate-authority-data");
  const config = entry.extensions?.find(({ name }) => name === EXEC_EXTENSION)?.extension;
  return {
    server: entry.server,
    "tls-server-name": entry["tls-server-name"],
    "insecure-skip-tls-verify": entry["insecure-skip-tls-verify"],
    "certificate-authority-data": ca && Buffer.from(ca).toString("base64"),
    "proxy-url": entry["proxy-url"],
    config,
  };
}
