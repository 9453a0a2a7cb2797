/** Kubeconfigs of all kinds, before an API server with TLS. Plugins are real processes. */
import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../tests/support/engines/kube-api.js";
import { openConnectProxy } from "../../../../../tests/support/faults/connect-proxy.js";
import { endAll, temporaryFolder } from "../../../../../tests/support/processes/processes.js";
import { type Authority, newAuthority } from "../../../../../tests/support/server/certificates.js";
import { type Env, newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { until } from "../../testing/waiting.js";
import { kubernetes } from "./index.js";

/** Nothing that is shown may contain it. */
const SECRET = "secret-4d1f";

let root: string;
let authority: Authority;
let tls: { key: string; cert: string; ca: string };
beforeAll(async () => {
  root = await temporaryFolder();
  authority = await newAuthority();
  const server = await authority.sign("server", ["localhost"]);
  tls = {
    key: await readFile(server.key, "utf8"),
    cert: await readFile(server.certificate, "utf8"),
    ca: await readFile(authority.certificate, "utf8"),
  };
}, 60_000);
afterAll(() => endAll());

let folder: string;
let api: KubeApi;
const closing: (() => Promise<unknown>)[] = [];
const later = <T extends { close(): Promise<unknown> }>(opened: T): T => {
  closing.unshift(() => opened.close());
  return opened;
};
beforeEach(async () => {
  folder = await mkdtemp(join(root, "config-"));
  api = later(await startKubeApi({ tls }));
  api.tokens.set(SECRET, ["*"]);
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await rm(folder, { recursive: true });
});

const base64 = async (path: string) => (await readFile(path)).toString("base64");
const file = async (name: string, text: string) => {
  await writeFile(join(folder, name), text);
  return join(folder, name);
};
/** By default, the authority is beside the file. */
async function kubeconfig(user: object, cluster: object = {}, name = "config"): Promise<string> {
  await copyFile(authority.certificate, join(folder, "ca.crt"));
  const server = `https://localhost:${api.port}/`;
  return file(
    name,
    JSON.stringify({
      clusters: [{ name: "c", cluster: { server, "certificate-authority": "ca.crt", ...cluster } }],
      users: [{ name: "u", user }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u", namespace: "leases" } }],
      "current-context": "x",
    }),
  );
}
async function open(path: string, env: Env = systemEnv) {
  return later(await kubernetes({ kubeconfig: path }).open(env)).leases;
}
const request = (resource = "r") => ({
  namespace: "default",
  resource,
  leaseId: newLeaseId(systemRandom),
  holder: "holder",
  ttlMs: 60_000,
});
const ACQUIRED = [{ status: "acquired" }];
const RENEWED = [{ status: "renewed" }];

/** Rejects, and shows the secret nowhere. */
async function failure(opening: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error = await opening.then(
    () => new Error("opened"),
    (reason: Error) => reason,
  );
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(SECRET);
  return error as Error & { code: string };
}

describe("a user", () => {
  it("has a token, certificates or a password, in the file or beside it", async () => {
    const certified = await authority.sign("certified");
    api.tokens.set("certified", ["*"]);
    await copyFile(certified.key, join(folder, "client.key"));
    await copyFile(certified.certificate, join(folder, "client.crt"));
    await file("token", `${SECRET}\n`);
    for (const user of [
      { token: SECRET },
      { tokenFile: "token", token: "of-old" },
      { "client-certificate": "client.crt", "client-key": "client.key" },
      {
        "client-certificate-data": await base64(certified.certificate),
        "client-key-data": await base64(certified.key),
      },
    ]) {
      const leases = await open(await kubeconfig(user));
      const held = request();
      expect(await leases.acquire([held])).toMatchObject(ACQUIRED);
      await leases.release([held]);
    }
    const ca = { "certificate-authority-data": await base64(authority.certificate) };
    await open(await kubeconfig({ token: SECRET }, { ...ca, "certificate-authority": "none" }));
  });

  it("has a file of a token, which is read again before it is refused, and when it is", async () => {
    const token = (text: string) => file("token", text);
    await token("first");
    api.tokens.set("first", ["*"]);
    const env = manualEnv();
    const leases = await open(await kubeconfig({ tokenFile: "token" }), env);
    const held = { ...request(), ttlMs: 600_000 };
    expect(await leases.acquire([held])).toMatchObject(ACQUIRED);
    api.tokens.set("second", ["*"]);
    await token("second");
    await env.clock.advance(60_000);
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    api.tokens.delete("first");
    api.requests.length = 0;
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    expect(api.requests).toHaveLength(1);
    await token("third");
    api.tokens.set("third", ["*"]);
    api.tokens.delete("second");
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    // It is being replaced: the last one stays.
    await rm(join(folder, "token"));
    await env.clock.advance(60_000);
    expect(await leases.renew([held])).toMatchObject(RENEWED);
  });

  it("of a kind that is not supported is named", async () => {
    const user = { "auth-provider": { name: "oidc", config: { "id-token": SECRET } } };
    expect((await failure(open(await kubeconfig(user)))).message).toMatch(/auth-provider oidc/);
  });
});

describe("contexts and files", () => {
  it("are merged, the first to name something counts, and one is chosen by the URL", async () => {
    const first = await kubeconfig({ token: SECRET }, {}, "first");
    const second = await file(
      "second",
      `current-context: y
clusters: [{ name: c, cluster: { server: https://nowhere.invalid } }]
users:
  - name: u2
    user: { token: other }
contexts:
  - name: y
    context: { cluster: c, user: u2, namespace: default }
`,
    );
    api.tokens.set("other", ["*"]);
    vi.stubEnv("KUBECONFIG", [first, join(folder, "none"), second].join(":"));
    try {
      for (const [url, namespace] of [
        ["kubernetes:", "leases"],
        ["kubernetes:?context=y", "default"],
      ] as const) {
        const { leases } = later(await kubernetes({ url }).open(systemEnv));
        await leases.acquire([request("merged")]);
        expect(api.read(namespace, "merged")).toBeDefined();
      }
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("that cannot be read are reported without what is in them", async () => {
    const warned = vi.spyOn(process, "emitWarning");
    const broken = await file("broken", `users: [ { token: ${SECRET} }\n  *x: ${SECRET}`);
    expect(await failure(open(broken))).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: `the kubeconfig is not YAML: ${broken}`,
    });
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
    const half = await file("half", `{ "users": [{ "token": "${SECRET}" `);
    expect((await failure(open(half))).message).toBe(`the kubeconfig is not JSON: ${half}`);
    const path = await kubeconfig({ "client-certificate": "none", "client-key": "none" });
    expect((await failure(open(path))).message).toMatch(
      /client-certificate .*none is not readable/,
    );
  });
});

describe("a proxy", () => {
  it("leads to the API server", async () => {
    const proxy = later(await openConnectProxy({ login: `user:${SECRET}` }));
    const url = `http://user:${SECRET}@127.0.0.1:${proxy.port}`;
    const leases = await open(await kubeconfig({ token: SECRET }, { "proxy-url": url }));
    expect(await leases.acquire([request()])).toMatchObject(ACQUIRED);
    expect(proxy.opened).toContain(`localhost:${api.port}`);
    proxy.reset();
    await until(expect, "another connection", async () => {
      const [outcome] = await leases.acquire([request("other")]);
      return outcome?.status === "acquired";
    });
  });

  it("that refuses, does not answer or is of another kind is reported without its password", async () => {
    const proxy = later(await openConnectProxy({ login: "user:other" }));
    const at = async (url: string) =>
      failure(open(await kubeconfig({ token: SECRET }, { "proxy-url": url })));
    const refused = await at(`http://user:${SECRET}@127.0.0.1:${proxy.port}`);
    expect(refused.message).toMatch(/the proxy 127\.0\.0\.1:\d+ answers 407 to CONNECT/);
    const dead = await at(`http://user:${SECRET}@127.0.0.1:1`);
    expect(dead).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((await at(`socks5://user:${SECRET}@127.0.0.1:1`)).message).toMatch(
      /socks5.* not supported/,
    );
  });
});

describe("an exec plugin", () => {
  const API_VERSION = "client.authentication.k8s.io/v1";
  const printed = (status: object) =>
    file("answer", JSON.stringify({ kind: "ExecCredential", apiVersion: API_VERSION, status }));
  const runs = async () => (await readFile(join(folder, "runs"), "utf8")).split("\n").length - 1;

  /** A program beside the kubeconfig, which prints the file `answer` and writes down what it is given. */
  async function pluginConfig(more: object = {}, script = 'cat "$FOLDER/answer"'): Promise<string> {
    const path = await file(
      "plugin",
      `#!/bin/sh\nprintf '%s\\n' "$KUBERNETES_EXEC_INFO $*" >> "$FOLDER/runs"\n${script}\n`,
    );
    await chmod(path, 0o755);
    const exec = {
      apiVersion: API_VERSION,
      command: "./plugin",
      args: ["get-token"],
      env: [{ name: "FOLDER", value: folder }],
      interactiveMode: "IfAvailable",
      ...more,
    };
    return kubeconfig({ exec });
  }

  it("is run once for all requests, and gets what the protocol gives it", async () => {
    await printed({ token: SECRET });
    const leases = await open(await pluginConfig({ provideClusterInfo: true }));
    await Promise.all(["a", "b", "c"].map((name) => leases.acquire([request(name)])));
    expect(await runs()).toBe(1);
    const [info = "", args] = (await readFile(join(folder, "runs"), "utf8")).split(
      / (?=get-token)/,
    );
    expect(args).toBe("get-token\n");
    expect(JSON.parse(info)).toEqual({
      kind: "ExecCredential",
      apiVersion: API_VERSION,
      spec: {
        interactive: false,
        cluster: {
          server: `https://localhost:${api.port}/`,
          "certificate-authority-data": await base64(authority.certificate),
        },
      },
    });
  });

  it("is run again before its token expires, and requests do not wait for it", async () => {
    const env = manualEnv();
    const status = (token: string, lastsMs: number) => ({
      token,
      expirationTimestamp: new Date(env.clock.wall() + lastsMs).toISOString(),
    });
    await printed(status(SECRET, 600_000));
    const path = await pluginConfig(
      {},
      `[ -e "$FOLDER/gate" ] && read _ < "$FOLDER/gate"; cat "$FOLDER/answer"`,
    );
    const leases = await open(path, env);
    const held = { ...request(), ttlMs: 900_000 };
    expect(await leases.acquire([held])).toMatchObject(ACQUIRED);
    await env.clock.advance(569_000);
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    expect(await runs()).toBe(1);
    // The plugin waits at a pipe while the renewal is answered.
    execFileSync("mkfifo", [join(folder, "gate")]);
    api.tokens.set("second", ["*"]);
    await printed(status("second", 600_000));
    await env.clock.advance(1_001);
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    await until(expect, "a second run", async () => (await runs()) === 2);
    await writeFile(join(folder, "gate"), "\n");
    await rm(join(folder, "gate"));
    // Its token is used without a refusal of the first.
    const used = vi.spyOn(api.tokens, "get");
    await until(expect, "the second token", async () => {
      await leases.get([held]);
      return used.mock.lastCall?.[0] === "second";
    });
    used.mockRestore();
    expect(await runs()).toBe(2);
    // Once it has expired, requests wait for another one.
    api.tokens.set("third", ["*"]);
    await printed(status("third", 600_000));
    api.tokens.delete("second");
    await env.clock.advance(600_000);
    api.requests.length = 0;
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    expect(api.requests.length).toBe(1);
    expect(await runs()).toBe(3);
  });

  it("is run again once when its token is refused, and no lease is lost", async () => {
    await printed({ token: SECRET });
    const leases = await open(await pluginConfig());
    const held = ["a", "b", "c", "d"].map(request);
    await leases.acquire(held);
    api.tokens.set("second", ["*"]);
    api.tokens.delete(SECRET);
    await printed({ token: "second" });
    const renewed = await leases.renew(held);
    expect(renewed.map(({ status }) => status)).toEqual(held.map(() => "renewed"));
    expect(await runs()).toBe(2);
  });

  it("gives certificates, each for connections of its own", async () => {
    const env = manualEnv();
    const status = async (name: string) => {
      const { certificate, key } = await authority.sign(name);
      return {
        clientCertificateData: await readFile(certificate, "utf8"),
        clientKeyData: await readFile(key, "utf8"),
        expirationTimestamp: new Date(env.clock.wall() + 600_000).toISOString(),
      };
    };
    api.tokens.set("one", ["*"]);
    await printed(await status("one"));
    const leases = await open(await pluginConfig(), env);
    const held = { ...request(), ttlMs: 900_000 };
    expect(await leases.acquire([held])).toMatchObject(ACQUIRED);
    api.tokens.set("two", ["*"]);
    await env.clock.advance(600_000);
    await printed(await status("two"));
    api.tokens.delete("one");
    api.requests.length = 0;
    expect(await leases.renew([held])).toMatchObject(RENEWED);
    expect(api.requests.length).toBe(1);
  });

  it("that fails is named, and nothing that it printed is shown", async () => {
    const failing = async (more: object, script?: string) =>
      failure(open(await pluginConfig(more, script)));
    expect(await failing({}, `echo ${SECRET}; exit 3`)).toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(
        /the exec plugin \.\/plugin of the kubeconfig .* exit code 3/,
      ) as string,
    });
    expect((await failing({}, `echo ${SECRET}`)).message).toMatch(/plugin \.\/plugin .* no JSON/);
    await printed({ clientKeyData: SECRET, token: SECRET });
    expect((await failing({})).message).toMatch(/certificate without its key, or a key alone/);
    const installHint = "get it from example.com";
    const missing = await failing({ command: "no-such-plugin", installHint, args: [SECRET] });
    expect(missing).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /no-such-plugin .* ENOENT; get it from example\.com/,
      ) as string,
    });
    expect((await failing({ interactiveMode: "Always" })).message).toMatch(/needs a terminal/);
    expect((await failing({ apiVersion: "x/v9" })).message).toMatch(/has the apiVersion x\/v9/);
  });

  it("that does not end holds no request beyond its time, and ends with the store", async () => {
    const env = manualEnv();
    const opening = kubernetes({
      kubeconfig: await pluginConfig({}, 'echo $$ > "$FOLDER/pid"; exec sleep 600'),
    }).open(env, 1_000);
    opening.catch(() => {});
    const pid = join(folder, "pid");
    await until(expect, "the plugin", () => readFile(pid, "utf8").then(Boolean, () => false));
    await env.clock.advance(1_000);
    await expect(opening).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
    const plugin = Number(await readFile(pid, "utf8"));
    await until(expect, "its end", () => {
      try {
        process.kill(plugin, 0);
        return false;
      } catch {
        return true;
      }
    });
  });
});
