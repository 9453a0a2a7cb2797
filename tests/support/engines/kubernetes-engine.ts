/**
 * The API server that the tests of the Kubernetes store talk to: their own (kube-api.ts, which is not the
 * real one), or, with KUBECONFIG set, that of a real cluster, where they make a namespace of their own and
 * delete it in the end.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parse } from "yaml";
import {
  newLeaseId,
  systemClock,
  systemRandom,
} from "../../../packages/leasehold/src/env/index.js";
import type { Cluster } from "../../../packages/leasehold/src/stores/kubernetes/connection-access.js";
import { openKubeconfig } from "../../../packages/leasehold/src/stores/kubernetes/connection-kubeconfig.js";
import { type StoredLease, startKubeApi } from "./kube-api.js";

export interface KubernetesEngine {
  /** For people. */
  readonly name: string;
  /** What the URL of a store says. */
  readonly url: string;
  /** Of the API server. */
  readonly port: number;
  readonly namespace: string;
  /** The URL of a store that goes another way, such as through a proxy. */
  through(port: number): Promise<string>;
  /** As an administrator or another client would. */
  ask(method: string, name: string, body?: object): Promise<{ status: number; body: StoredLease }>;
  close(): Promise<void>;
}

export const REAL_CLUSTER = process.env["KUBECONFIG"];

export function startKubernetes(): Promise<KubernetesEngine> {
  return REAL_CLUSTER ? openReal(REAL_CLUSTER) : openOwn();
}

async function openOwn(): Promise<KubernetesEngine> {
  const api = await startKubeApi();
  const engine = await engineAt(ownKubeconfig(api.port), "leases", "the tests' own API server");
  return {
    ...engine,
    async close() {
      await engine.close();
      await api.close();
    },
  };
}

export interface Kubeconfig {
  readonly clusters: readonly {
    readonly name: string;
    readonly cluster: { readonly server: string };
  }[];
  readonly users: readonly { readonly name: string; readonly user: object }[];
  readonly contexts: readonly { readonly name: string; readonly context: object }[];
  readonly "current-context": string;
}

/** For {@link startKubeApi}, by default as its administrator. */
export function ownKubeconfig(port: number, token = "admin"): Kubeconfig {
  return {
    clusters: [{ name: "own", cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: "tests", user: { token } }],
    contexts: [{ name: "own", context: { cluster: "own", user: "tests" } }],
    "current-context": "own",
  };
}

async function openReal(path: string): Promise<KubernetesEngine> {
  const namespace = `leasehold-${newLeaseId(systemRandom).slice(0, 8)}`;
  const engine = await engineAt(await readKubeconfig(path), namespace, "Kubernetes");
  const version = (await engine.send("GET", "/version")).body as unknown as { gitVersion: string };
  const metadata = { name: namespace };
  const body = { apiVersion: "v1", kind: "Namespace", metadata };
  const made = await engine.send("POST", "/api/v1/namespaces", body);
  if (made.status !== 201) throw new Error(`no namespace: ${JSON.stringify(made.body)}`);
  return {
    ...engine,
    name: `Kubernetes ${version.gitVersion}`,
    async close() {
      await engine.send("DELETE", `/api/v1/namespaces/${namespace}`);
      await engine.close();
    },
  };
}

async function engineAt(config: Kubeconfig, namespace: string, name: string) {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-kubernetes-"));
  const path = await writeKubeconfig(config, folder);
  const cluster = await openKubeconfig([path], undefined, systemClock);
  const send = (method: string, to: string, body?: object) => ask(cluster, method, to, body);
  const urlOf = (kubeconfig: string) =>
    `kubernetes:${namespace}?${new URLSearchParams({ kubeconfig })}`;
  return {
    name,
    namespace,
    send,
    url: urlOf(path),
    port: Number(new URL(cluster.server).port),
    async through(port: number) {
      const clusters = config.clusters.map(({ name, cluster }) => {
        const url = new URL(cluster.server);
        url.port = String(port);
        return { name, cluster: { ...cluster, server: url.href } };
      });
      const other = { ...config, clusters };
      return urlOf(await writeKubeconfig(other, folder));
    },
    ask(method: string, object: string, body?: object) {
      const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
      return send(method, object === "" ? leases : `${leases}/${object}`, body);
    },
    async close() {
      cluster.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** Of a cluster's own file, whose paths must not be relative. */
async function readKubeconfig(path: string): Promise<Kubeconfig> {
  return parse(await readFile(path, "utf8")) as Kubeconfig;
}

export async function writeKubeconfig(config: Kubeconfig, folder: string): Promise<string> {
  const path = join(folder, `kubeconfig-${newLeaseId(systemRandom).slice(0, 8)}`);
  await writeFile(path, JSON.stringify(config));
  return path;
}

async function ask(cluster: Cluster, method: string, path: string, body?: object) {
  const { headers, agent } = await cluster.access();
  const url = cluster.server + path;
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const make = url.startsWith("https:") ? httpsRequest : httpRequest;
    const type = { "content-type": "application/json" };
    const request = make(url, { method, headers: { ...headers, ...type }, agent });
    request.once("response", resolve);
    request.once("error", reject);
    request.end(body && JSON.stringify(body));
  });
  const answer = JSON.parse(await text(response)) as StoredLease;
  return { status: response.statusCode ?? 0, body: answer };
}
