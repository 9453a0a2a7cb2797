/**
 * Behaviour outside the conformance suite: names, credentials, permissions, and watches that fall
 * behind.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../tests/support/engines/kube-api.js";
import {
  ownKubeconfig,
  writeKubeconfig,
} from "../../../../../tests/support/engines/kubernetes-engine.js";
import { newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { LeaseWatching } from "../../testing/lease-suite/fixture.js";
import { until } from "../../testing/waiting.js";
import { findCluster } from "./connection-cluster.js";
import { openKubeconfig } from "./connection-kubeconfig.js";
import { kubernetes } from "./index.js";
import { isPlainName, labelOf, objectNameOf } from "./keys.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-kubernetes-"));
});
afterAll(() => rm(folder, { recursive: true }));

const closing: (() => Promise<unknown>)[] = [];
const later = <T extends { close(): Promise<unknown> }>(opened: T): T => {
  closing.unshift(() => opened.close());
  return opened;
};
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function open(api: KubeApi, namespace = "leases", token = "admin") {
  const kubeconfig = await writeKubeconfig(ownKubeconfig(api.port, token), folder);
  return later(await kubernetes({ namespace, kubeconfig }).open(systemEnv));
}
const request = (resource = "r", namespace = "default") => ({
  namespace,
  resource,
  leaseId: newLeaseId(systemRandom),
  holder: "holder",
  ttlMs: 60_000,
});

describe("names", () => {
  const key = (resource: string, namespace = "default") => ({ namespace, resource });
  const digest = /^[0-9a-f]{32}$/;

  it.each(["my-controller", "a", "0", "a.b-c.d", "x".repeat(253)])("%s is its own", (resource) => {
    expect(objectNameOf(key(resource))).toBe(resource);
  });

  it.each([
    [key("Orders/42"), "orders-42--"],
    [key("orders", "shop"), "shop-orders--"],
    [key("-a-"), "a--"],
    [key("日本語"), "lease--"],
    [key("a..b"), "a-b--"],
    [key("x".repeat(254)), `${"x".repeat(219)}--`],
    [key(`a--${"0".repeat(32)}`), `a-${"0".repeat(32)}--`],
  ])("%j becomes %s...", (one, beginning) => {
    const name = objectNameOf(one);
    expect(name.slice(0, -32)).toBe(beginning);
    expect(name.slice(-32)).toMatch(digest);
    expect(name).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
    expect(name.length).toBeLessThanOrEqual(253);
    expect(isPlainName(name)).toBe(false);
    expect(objectNameOf(key(name))).not.toBe(name);
  });

  it("of namespaces are labels, by a digest where they cannot be", () => {
    expect(labelOf("Team_1.a")).toBe("Team_1.a");
    for (const name of ["a/b", "ä", "x".repeat(64), "-a", `n--${"0".repeat(32)}`]) {
      expect(labelOf(name)).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?--[0-9a-f]{32}$/);
      expect(labelOf(name).length).toBeLessThanOrEqual(63);
    }
  });

  it("that belong to another resource are reported, and nothing is written", async () => {
    const api = later(await startKubeApi());
    const { leases } = await open(api);
    await leases.acquire([request("r", "shop")]);
    const [mine] = [request("r", "shop")];
    const stored = api.read("leases", objectNameOf(mine));
    const annotations = { ...stored?.metadata.annotations, "leasehold.dev/resource": "other" };
    const metadata = { ...stored?.metadata, annotations };
    await put(api, { ...stored, metadata });
    const [outcome] = await leases.acquire([mine]);
    expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: false });
    expect(String((outcome as { error: Error }).error.message)).toMatch(
      /carries annotations of the resource "other"/,
    );
  });
});

async function put(api: KubeApi, lease: object): Promise<void> {
  const { name } = (lease as { metadata: { name: string } }).metadata;
  const url = `http://127.0.0.1:${api.port}/apis/coordination.k8s.io/v1/namespaces/leases/leases/${name}`;
  const body = JSON.stringify({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", ...lease });
  const response = await fetch(url, {
    method: "PUT",
    headers: { authorization: "Bearer admin" },
    body,
  });
  expect(await response.json()).toMatchObject({ metadata: { name } });
}

describe("opening", () => {
  const misconfigured = (message: RegExp) => ({
    code: "STORE_MISCONFIGURED",
    retryable: false,
    outcome: "none",
    message: expect.stringMatching(message),
  });

  it("writes nothing", async () => {
    const api = later(await startKubeApi());
    await open(api);
    expect(api.read("leases", "leasehold-right-to-write")).toBeUndefined();
  });

  it("with an unknown token reports the credentials as the cause", async () => {
    const api = later(await startKubeApi());
    await expect(open(api, "leases", "wrong")).rejects.toMatchObject(
      misconfigured(/Unauthorized: the API server at .* rejected the credentials; renew those/),
    );
  });

  it.each(["get", "list", "create", "update"])("without the right to %s names it", async (verb) => {
    const api = later(await startKubeApi());
    const verbs = ["get", "list", "create", "update"].filter((one) => one !== verb);
    api.tokens.set("weak", verbs);
    await expect(open(api, "leases", "weak")).rejects.toMatchObject(
      misconfigured(
        new RegExp(
          `forbidden.*grant this user the verb "${verb}" on leases in the API group coordination.k8s.io in the namespace "leases"`,
        ),
      ),
    );
  });

  it("without the right to watch says so when a watch starts", async () => {
    const api = later(await startKubeApi());
    api.tokens.set("weak", ["get", "list", "create", "update"]);
    const { leases } = await open(api, "leases", "weak");
    const events = leases.watch("default", { signal: new AbortController().signal });
    await expect(events[Symbol.asyncIterator]().next()).rejects.toMatchObject(
      misconfigured(/grant this user the verb "watch"/),
    );
  });

  it("in a missing namespace says how to create it", async () => {
    const api = later(await startKubeApi());
    await expect(open(api, "nowhere")).rejects.toMatchObject(
      misconfigured(
        /namespaces "nowhere" not found; create the namespace \(kubectl create namespace nowhere\)/,
      ),
    );
  });

  it("without a cluster says what to set", async () => {
    for (const name of ["KUBECONFIG", "KUBERNETES_SERVICE_HOST"]) vi.stubEnv(name, "");
    vi.stubEnv("HOME", folder);
    try {
      await expect(findCluster({}, systemEnv.clock)).rejects.toMatchObject(
        misconfigured(/no Kubernetes cluster was found: set KUBECONFIG/),
      );
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("takes the kubeconfig that KUBECONFIG names, and its context's namespace", async () => {
    const config = ownKubeconfig(1);
    const contexts = [
      { name: "own", context: { cluster: "own", user: "tests", namespace: "team" } },
    ];
    vi.stubEnv("KUBECONFIG", await writeKubeconfig({ ...config, contexts }, folder));
    try {
      const cluster = await findCluster({}, systemEnv.clock);
      expect(cluster).toMatchObject({ server: "http://127.0.0.1:1", namespace: "team" });
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("with an invalid kubeconfig or a missing context names it", async () => {
    const { clock } = systemEnv;
    await expect(openKubeconfig([join(folder, "none")], undefined, clock)).rejects.toMatchObject(
      misconfigured(/the kubeconfig is not readable: ENOENT/),
    );
    const path = await writeKubeconfig(ownKubeconfig(1), folder);
    await expect(openKubeconfig([path], "prod", clock)).rejects.toMatchObject(
      misconfigured(/no cluster for the context "prod": choose one of own/),
    );
  });

  it("without a listener fails with a retryable error", async () => {
    const api = await startKubeApi();
    const kubeconfig = await writeKubeconfig(ownKubeconfig(api.port), folder);
    await api.close();
    await expect(kubernetes({ kubeconfig }).open(systemEnv)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
      retryable: true,
      message: expect.stringMatching(/ECONNREFUSED/),
    });
  });

  it.each(["kubernetes:A_b", "kubernetes:a/b", "kubernetes:a?x=1"])("refuses %s", (url) => {
    expect(() => kubernetes({ url })).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  });

  it("names the package that reads kubeconfigs where it cannot be loaded", async () => {
    const path = join(folder, "in-yaml");
    await writeFile(path, "clusters: []");
    vi.doMock("yaml", () => {
      throw new Error("its build is broken");
    });
    try {
      await expect(openKubeconfig([path], undefined, systemEnv.clock)).rejects.toMatchObject(
        misconfigured(/yaml is installed but cannot be loaded/),
      );
    } finally {
      vi.doUnmock("yaml");
    }
  });
});

it("lists from the start again when the version was dropped between two pages", {
  timeout: 60_000,
}, async () => {
  const api = later(await startKubeApi());
  const { leases } = await open(api);
  // More than a page.
  const names = Array.from({ length: 501 }, (_, number) => `r-${String(number).padStart(3, "0")}`);
  for (let at = 0; at < names.length; at += 50) {
    const answers = await leases.acquire(names.slice(at, at + 50).map((name) => request(name)));
    expect(answers.filter(({ status }) => status !== "acquired")).toEqual([]);
  }
  const pages: string[] = [];
  vi.spyOn(api.requests, "push").mockImplementation((asked) => {
    const isList = asked.startsWith("GET") && asked.includes("limit=");
    // Before the second page is answered.
    if (isList && pages.push(asked) === 2) api.forget();
    return 0;
  });
  const { items, nextCursor } = await leases.list({ namespace: "default", limit: 1_000 });
  expect(nextCursor).toBeNull();
  expect(items.map(({ resource }) => resource)).toEqual(names);
  expect(pages.length).toBe(4);
});

describe("watching", () => {
  it("lists again after the version was dropped, and sends a resync", async () => {
    const api = later(await startKubeApi());
    const { leases } = await open(api);
    const watching = new LeaseWatching(leases, "default");
    const resyncs = () => watching.events.filter(({ type }) => type === "resync").length;
    await until(expect, "the subscription", () => resyncs() === 1);
    // The end of a stream is no gap, nor is history dropped before a bookmark.
    api.forget();
    api.endWatches({ bookmark: true });
    await leases.acquire([request()]);
    await leases.revoke([{ namespace: "default", resource: "r", free: "now" }]);
    await until(expect, "the notification", () => watching.changed.length === 1);
    expect(resyncs()).toBe(1);
    api.forget();
    api.endWatches({ bookmark: false });
    await until(expect, "the relisting", () => resyncs() === 2);
    await leases.acquire([request()]);
    await leases.revoke([{ namespace: "default", resource: "r", free: "now" }]);
    await until(expect, "another notification", () => watching.changed.length === 2);
    await watching.stop();
  });

  it("notifies no waiter of renewals, and learns from them since when others hold", async () => {
    const api = later(await startKubeApi());
    const [holder, env] = [await open(api), manualEnv()];
    const kubeconfig = await writeKubeconfig(ownKubeconfig(api.port), folder);
    const { leases } = later(await kubernetes({ namespace: "leases", kubeconfig }).open(env));
    const watching = new LeaseWatching(leases, "default");
    await until(expect, "the subscription", () => watching.events.length > 0);
    const held = { ...request(), ttlMs: 10_000 };
    await holder.leases.acquire([held]);
    await holder.leases.renew([held]);
    await holder.leases.acquire([request("mark")]);
    await holder.leases.revoke([{ namespace: "default", resource: "mark", free: "now" }]);
    await until(expect, "the notification after all that", () => watching.changed.length > 0);
    expect(watching.changed).toEqual([{ type: "changed", namespace: "default", resource: "mark" }]);
    await env.clock.advance(10_000);
    // This contender never polled, but its watch saw the record ten seconds ago.
    expect(await leases.acquire([request()])).toMatchObject([{ status: "acquired" }]);
    await watching.stop();
  });
});
