/** In a pod: the files of the service account, which the kubelet replaces. */
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { startKubeApi } from "../../../../../tests/support/engines/kube-api.js";
import { endAll, temporaryFolder } from "../../../../../tests/support/processes/processes.js";
import { newAuthority } from "../../../../../tests/support/server/certificates.js";
import { newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { until } from "../../testing/waiting.js";
import { inCluster } from "./connection-cluster.js";
import { openCluster } from "./index.js";

let folder: string;
beforeAll(async () => {
  folder = await temporaryFolder();
});
afterAll(() => endAll());

const closing: (() => Promise<unknown>)[] = [];
const later = <T extends { close(): Promise<unknown> }>(opened: T): T => {
  closing.unshift(() => opened.close());
  return opened;
};
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const request = (resource = "r") => ({
  namespace: "default",
  resource,
  leaseId: newLeaseId(systemRandom),
  holder: "holder",
  ttlMs: 60_000,
});

describe("in a pod", () => {
  async function startPod() {
    const directory = await mkdtemp(join(folder, "pod-"));
    const path = (name: string) => join(directory, name);
    const authority = await newAuthority();
    const server = await authority.sign("server", ["127.0.0.1"]);
    await copyFile(authority.certificate, path("ca.crt"));
    const tls = {
      key: await readFile(server.key, "utf8"),
      cert: await readFile(server.certificate, "utf8"),
    };
    const api = later(await startKubeApi({ tls }));
    await writeFile(path("token"), "admin\n");
    await writeFile(path("namespace"), "leases");
    return { api, directory, account: { host: "127.0.0.1", port: String(api.port), directory } };
  }

  it("uses the service account, and reads a token that was rotated", async () => {
    const { api, directory, account } = await startPod();
    const env = manualEnv();
    const cluster = await inCluster(account, env.clock);
    expect(cluster.namespace).toBe("leases");
    const { leases } = later(await openCluster(cluster, "leases", env));
    const held = request();
    expect(await leases.acquire([held])).toMatchObject([{ status: "acquired" }]);

    // The old token has expired: the server's 401 makes the client reread the file.
    api.tokens.set("second", ["*"]);
    api.tokens.delete("admin");
    await writeFile(join(directory, "token"), "second");
    expect(await leases.renew([held])).toMatchObject([{ status: "renewed" }]);

    // The token still works; the client rereads the file once a minute.
    api.tokens.set("third", ["*"]);
    await writeFile(join(directory, "token"), "third");
    await env.clock.advance(60_000);
    const other = request("other");
    expect(await leases.acquire([other])).toMatchObject([{ status: "acquired" }]);
    api.tokens.delete("second");
    api.requests.length = 0;
    expect(await leases.renew([other])).toMatchObject([{ status: "renewed" }]);
    expect(api.requests).toHaveLength(1);

    // This one expires after the list that precedes a watch.
    api.tokens.set("fourth", ["*"]);
    await writeFile(join(directory, "token"), "fourth");
    const expiring = vi.spyOn(api.requests, "push").mockImplementation((asked) => {
      if (asked.includes("watch=1")) api.tokens.delete("third");
      return 0;
    });
    const controller = new AbortController();
    const events = leases.watch("default", { signal: controller.signal })[Symbol.asyncIterator]();
    expect(await events.next()).toEqual({ done: false, value: { type: "resync" } });
    expiring.mockRestore();
    controller.abort();
    await events.next();
  });

  it("keeps the last token while the file cannot be read", async () => {
    const { directory, account } = await startPod();
    const env = manualEnv();
    const { leases } = later(await openCluster(await inCluster(account, env.clock), "leases", env));
    const held = { ...request(), ttlMs: 900_000 };
    await leases.acquire([held]);
    await rm(join(directory, "token"));
    await env.clock.advance(60_000);
    expect(await leases.renew([held])).toMatchObject([{ status: "renewed" }]);
  });

  it("trusts the authority that the cluster has changed to, and loses no lease", async () => {
    const { api, directory, account } = await startPod();
    const env = manualEnv();
    const cluster = await inCluster(account, env.clock);
    const { leases } = later(await openCluster(cluster, "leases", env));
    const held = { ...request(), ttlMs: 900_000 };
    await leases.acquire([held]);
    const next = await newAuthority();
    const server = await next.sign("server", ["127.0.0.1"]);
    api.changeCertificate({
      key: await readFile(server.key, "utf8"),
      cert: await readFile(server.certificate, "utf8"),
    });
    // The connection that ends may take a renewal with it.
    await until(expect, "a refusal of the certificate", async () => {
      const [outcome] = await leases.renew([held]);
      return outcome?.status === "failed" && outcome.error.code === "STORE_MISCONFIGURED";
    });
    await copyFile(next.certificate, join(directory, "ca.crt"));
    await env.clock.advance(60_000);
    expect(await leases.renew([held])).toMatchObject([{ status: "renewed" }]);
  });

  it("trusts the cluster's certificate authority only", async () => {
    const [{ account }, other] = [await startPod(), await startPod()];
    const cluster = await inCluster({ ...account, directory: other.directory }, systemEnv.clock);
    await expect(openCluster(cluster, "leases", systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/its certificate is not trusted .* certificate authority/),
    });
  });

  it("without a service account's files says which one is missing", async () => {
    await expect(
      inCluster({ host: "127.0.0.1", port: "1", directory: folder }, systemEnv.clock),
    ).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/ca\.crt is not readable: mount it/),
    });
  });
});
