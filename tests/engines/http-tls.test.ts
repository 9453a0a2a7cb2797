/** Leasehold servers behind TLS and behind proxies: certificates by option, URL and environment. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { join } from "node:path";
import { createServer, type Server } from "node:tls";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/node.js";
import { listen } from "../../packages/leasehold-server/src/http/index.js";
import { openConnectProxy } from "../support/faults/connect-proxy.js";
import { checkBuild, leasehold } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";
import { openApp } from "../support/server/app.js";
import { type Authority, type Certificate, newAuthority } from "../support/server/certificates.js";

const SECRET = "secret-91c2";
const text = (path: string) => readFile(path, "utf8");

let authority: Authority;
let client: Certificate;
let plainPort: number;
const ends: (() => Promise<unknown>)[] = [];
/** Two fronts with TLS before one server; they demand the certificate of a client. */
const ports: number[] = [];
const fronts: Server[] = [];
beforeAll(async () => {
  authority = await newAuthority();
  client = await authority.sign("client");
  const { app, stores } = await openApp();
  ends.push(() => stores.close());
  const server = await listen({ app, port: 0 });
  ends.push(() => server.close());
  plainPort = server.port;
  const own = await authority.sign("server", ["localhost"]);
  const tls = {
    key: await text(own.key),
    cert: await text(own.certificate),
    ca: await text(authority.certificate),
    requestCert: true,
  };
  for (const _ of [1, 2]) {
    const front = createServer(tls, (from) => {
      const to = connectTcp(server.port, "127.0.0.1");
      from.pipe(to).pipe(from);
      from.on("error", () => to.destroy());
      to.on("error", () => from.destroy());
    });
    await once(front.listen(0, "127.0.0.1"), "listening");
    ports.push((front.address() as AddressInfo).port);
    fronts.push(front);
  }
}, 60_000);
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(async () => {
  for (const front of fronts.filter(({ listening }) => listening)) front.close();
  for (const end of ends.reverse()) await end();
  await endAll();
});

const urlOf = (files?: Record<string, string>) =>
  `https://localhost:${ports[0]}/${files ? `?${new URLSearchParams(files)}` : ""}`;
const files = () => ({ cacert: authority.certificate, cert: client.certificate, key: client.key });
const tls = async () => ({
  ca: await text(authority.certificate),
  cert: await text(client.certificate),
  key: await text(client.key),
});

async function expectServed(source: Parameters<typeof connect>[0]): Promise<void> {
  const opened = await connect(source);
  const lease = await opened.acquire("r", { ttlMs: 60_000 });
  await lease.release();
  await opened.close();
}
/** Rejects, and shows the secret nowhere. */
async function failure(source: Parameters<typeof connect>[0]) {
  const error = await connect(source).then(
    () => new Error("connected"),
    (reason: Error) => reason,
  );
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(SECRET);
  return error as Error & { code: string };
}

describe("certificates", () => {
  it("are taken from options, from the URL and from the environment", async () => {
    await expectServed(http({ url: urlOf(), tls: await tls() }));
    await expectServed(urlOf(files()));
    vi.stubEnv("LEASEHOLD_CACERT", authority.certificate);
    vi.stubEnv("LEASEHOLD_CERT", client.certificate);
    vi.stubEnv("LEASEHOLD_CERT_KEY", client.key);
    await expectServed(urlOf());
  });

  it("of another authority, or none, are not trusted", async () => {
    const other = await newAuthority();
    for (const url of [urlOf({ ...files(), cacert: other.certificate }), urlOf()]) {
      expect(await failure(url)).toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(/its certificate is not trusted/) as string,
      });
    }
  });

  it("of a client are demanded by the server: without one there is no connection", async () => {
    const opening = connect(urlOf({ cacert: authority.certificate }), { connectTimeoutMs: 1_000 });
    await expect(opening).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });

  it("that cannot be read are named, without what is in them", async () => {
    const none = join(process.cwd(), "no-such-file");
    expect((await failure(urlOf({ cacert: none }))).message).toContain(
      `${none} for TLS to the server: ENOENT`,
    );
    const wrong = http({ url: urlOf(), tls: { ca: SECRET, cert: SECRET, key: SECRET } });
    expect((await failure(wrong)).message).toMatch(
      /the certificates for the server cannot be used/,
    );
    vi.stubEnv("LEASEHOLD_CERT", client.certificate);
    expect((await failure(urlOf())).message).toMatch(
      /set both LEASEHOLD_CERT and LEASEHOLD_CERT_KEY/,
    );
  });

  it("serve several servers, of which one is down", async () => {
    const url = urlOf(files()).replace("localhost", `localhost:2,localhost:${ports[1]},localhost`);
    await expectServed(url);
  });
});

describe("a proxy that the environment names", () => {
  it("leads to the server, with the client's certificates", async () => {
    const proxy = await openConnectProxy({ login: `user:${SECRET}` });
    ends.push(() => proxy.close());
    vi.stubEnv("HTTPS_PROXY", `http://user:${SECRET}@127.0.0.1:${proxy.port}`);
    await expectServed(urlOf(files()));
    expect(new Set(proxy.opened)).toEqual(new Set([`localhost:${ports[0]}`]));
    // The same for plain HTTP, unless its host is excepted.
    vi.stubEnv("HTTP_PROXY", process.env["HTTPS_PROXY"] ?? "");
    await expectServed(`http://127.0.0.1:${plainPort}`);
    expect(proxy.opened).toContain(`127.0.0.1:${plainPort}`);
    const before = proxy.opened.length;
    vi.stubEnv("NO_PROXY", "127.0.0.1,localhost");
    await expectServed(`http://127.0.0.1:${plainPort}`);
    await expectServed(urlOf(files()));
    expect(proxy.opened).toHaveLength(before);
  });

  it("and refuses, or does not answer, is reported without its password", async () => {
    const proxy = await openConnectProxy({ login: "user:other" });
    ends.push(() => proxy.close());
    vi.stubEnv("HTTPS_PROXY", `http://user:${SECRET}@127.0.0.1:${proxy.port}`);
    expect(await failure(urlOf(files()))).toMatchObject({ code: "STORE_UNAVAILABLE" });
    vi.stubEnv("HTTPS_PROXY", `http://user:${SECRET}@127.0.0.1:1`);
    expect(await failure(urlOf(files()))).toMatchObject({ code: "STORE_UNAVAILABLE" });
    vi.stubEnv("HTTPS_PROXY", `http//user:${SECRET}@`);
    expect((await failure(urlOf(files()))).message).toMatch(/HTTPS_PROXY must be like/);
  });

  it("is not used without the package undici, and a warning says so", async () => {
    vi.doMock("undici", () => {
      throw new Error("its build is broken");
    });
    try {
      vi.stubEnv("HTTP_PROXY", "http://127.0.0.1:1");
      const warnings: { fields: object; message?: string | undefined }[] = [];
      const logger = {
        ...systemEnv.logger,
        warn: (fields: object, message?: string) => void warnings.push({ fields, message }),
      };
      const opened = await connect(`http://127.0.0.1:${plainPort}`, { logger });
      await opened.close();
      expect(warnings).toMatchObject([
        {
          fields: { variable: "HTTP_PROXY" },
          message: expect.stringContaining("npm install undici"),
        },
      ]);
      expect(await failure(urlOf(files()))).toMatchObject({ code: "STORE_MISCONFIGURED" });
    } finally {
      vi.doUnmock("undici");
    }
  });
});

describe("the command line", () => {
  beforeAll(() => checkBuild());

  it("takes them from the URL and the environment, and shows no key", async () => {
    const several = urlOf(files()).replace(
      "localhost",
      `localhost:2,localhost:${ports[1]},localhost`,
    );
    const env = { ...process.env, LEASEHOLD_KEY: SECRET, LEASEHOLD_STORE: several };
    for (const args of [["ls"], ["doctor"], ["doctor", "--json"]]) {
      const { stdout, stderr } = await leasehold(args, { env });
      expect(stdout + stderr).not.toContain(SECRET);
      expect(stdout + stderr).not.toMatch(/TypeError|Invalid URL/);
    }
    const { code } = await leasehold(["ls"], {
      env: { ...process.env, LEASEHOLD_STORE: several },
    });
    expect(code).toBe(0);
  });
});
