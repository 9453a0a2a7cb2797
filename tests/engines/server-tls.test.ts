/** The server's own TLS: certificates of openssl, changed ones, those of clients, and what is no TLS. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { createApiKey, systemEnv } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/node.js";
import {
  type AppOptions,
  type ClientCertificate,
  createApp,
  type ListenOptions,
  listen,
  type ServerTls,
} from "../../packages/leasehold-server/src/http/index.js";
import { endAll } from "../support/processes/processes.js";
import { type Authority, type Certificate, newAuthority } from "../support/server/certificates.js";
import { askHttps } from "../support/server/https.js";

const read = (path: string) => readFile(path, "utf8");
const pairOf = async ({ certificate, key }: Certificate) => ({
  cert: await read(certificate),
  key: await read(key),
});

let authority: Authority;
let ca: string;
let first: ServerTls;
let second: ServerTls;
let worker: ServerTls;
let other: ServerTls;
let stranger: ServerTls;
beforeAll(async () => {
  authority = await newAuthority();
  ca = await read(authority.certificate);
  first = await pairOf(await authority.sign("first", ["localhost", "127.0.0.1"]));
  second = await pairOf(await authority.sign("second", ["localhost", "127.0.0.1"]));
  worker = await pairOf(await authority.sign("worker", ["worker-1.example"]));
  other = await pairOf(await authority.sign("other"));
  stranger = await pairOf(await (await newAuthority()).sign("worker", ["worker-1.example"]));
}, 60_000);
afterAll(() => endAll());

type Line = Record<string, unknown>;

async function open(options: Partial<ListenOptions & AppOptions> = {}) {
  const stores = await memory().open(systemEnv);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const lines: Line[] = [];
  let onLine = () => {};
  const log = (fields: object) => {
    lines.push({ ...fields });
    onLine();
  };
  const logger = { debug: () => {}, info: log, warn: log, error: log };
  const env = { ...systemEnv, logger };
  const app = createApp({ ...stores, version: "test", auth: "keys", ...options, env });
  const server = await listen({ app, port: 0, logger, graceMs: 0, tls: first, ...options });
  onTestFinished(async () => {
    await server.close();
    await stores.close();
  });
  const newKey = async (role: "viewer" | "admin" = "admin") => {
    const order = { namespace: "n", name: "k", role, prefixes: [], lifetimeMs: null };
    return createApiKey(control, systemEnv.random, order, { actor: "test", reason: null });
  };
  const logged = async (event: string) => {
    for (;;) {
      const line = lines.find((one) => one["event"] === event);
      if (line) return line;
      await new Promise<void>((resolve) => {
        onLine = resolve;
      });
    }
  };
  const dial = async () => {
    const socket = createConnection({ port: server.port, host: "127.0.0.1" });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  };
  const urlOf = (path: string) => `https://127.0.0.1:${server.port}${path}`;
  return { server, stores, newKey, logged, dial, urlOf };
}

const closed = async (socket: Socket) => {
  socket.resume();
  if (!socket.closed) await once(socket, "close");
};

describe("a server with a certificate", () => {
  it("serves https to the client library, and says so in its address", async () => {
    const { server, newKey } = await open();
    expect(server.url).toBe(`https://127.0.0.1:${server.port}`);
    const { text: apiKey } = await newKey();
    const leases = await connect(http({ url: server.url, apiKey, tls: { ca } }));
    const lease = await leases.acquire("r");
    await lease.release();
    await leases.close();
  });

  it("speaks TLS 1.3 and 1.2, and nothing older", async () => {
    const { urlOf } = await open();
    const ask = (maxVersion: "TLSv1.3" | "TLSv1.2" | "TLSv1.1") =>
      // OpenSSL has the older ones at the lowest level of security alone.
      askHttps(urlOf("/healthz"), {
        ca,
        maxVersion,
        minVersion: "TLSv1",
        ciphers: "ALL:@SECLEVEL=0",
      });
    expect((await ask("TLSv1.3")).protocol).toBe("TLSv1.3");
    expect((await ask("TLSv1.2")).protocol).toBe("TLSv1.2");
    await expect(ask("TLSv1.1")).rejects.toMatchObject({ code: /PROTOCOL|ALERT/ });
  });

  it("tells browsers to use https alone, but for localhost", async () => {
    const { server, urlOf } = await open();
    const hstsOf = async (url: string, headers = {}) =>
      (await askHttps(url, { ca, headers, servername: "localhost" })).headers[
        "strict-transport-security"
      ];
    expect(await hstsOf(urlOf("/healthz"))).toBe("max-age=31536000");
    expect(await hstsOf(urlOf("/v1/locks"))).toBe("max-age=31536000");
    expect(await hstsOf(urlOf("/healthz"), { host: "leases.example" })).toBe("max-age=31536000");
    expect(await hstsOf(urlOf("/healthz"), { host: `localhost:${server.port}` })).toBe(undefined);
    const quiet = await open({ hstsMaxAgeMs: 0 });
    expect(await hstsOf(quiet.urlOf("/healthz"))).toBe(undefined);
  });

  it("answers plain HTTP with a problem that names https", async () => {
    const { dial, logged, urlOf } = await open();
    const socket = await dial();
    socket.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({
      code: "MALFORMED_REQUEST",
      detail: expect.stringContaining("https://") as string,
    });
    expect(await logged("handshakes_failed")).toMatchObject({ reason: "ERR_SSL_HTTP_REQUEST" });
    expect((await askHttps(urlOf("/healthz"), { ca })).status).toBe(200);
  });

  it("counts a connection of an address before its handshake", async () => {
    const { dial, logged, urlOf } = await open({ maxConnections: 10, maxConnectionsPerAddress: 2 });
    const [silent] = [await dial(), await dial()];
    await closed(await dial());
    expect(await logged("connections_refused")).toMatchObject({ address: "127.0.0.1", open: 2 });
    silent?.destroy();
    await expect
      .poll(() =>
        askHttps(urlOf("/healthz"), { ca }).then(
          ({ status }) => status,
          () => 0,
        ),
      )
      .toBe(200);
  });

  it("cuts off a client that does not finish its handshake, or the head of its request", async () => {
    const { dial, server } = await open();
    const silent = await dial();
    const slow = connectTls({ port: server.port, host: "127.0.0.1", ca });
    await once(slow, "secureConnect");
    slow.write("GET /healthz HTTP/1.1\r\n");
    await Promise.all([closed(silent), closed(slow)]);
  }, 60_000);

  it("closes although a handshake is not finished", async () => {
    const { dial, server } = await open({ graceMs: 60_000 });
    const silent = await dial();
    await Promise.all([server.close(), closed(silent)]);
  });

  it("keeps the idle connection of a caller for longer than others", async () => {
    const { server, newKey } = await open();
    const { text: key } = await newKey();
    const socket = connectTls({ port: server.port, host: "127.0.0.1", ca });
    await once(socket, "secureConnect");
    socket.write(
      `GET /v1/capabilities HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n\r\n`,
    );
    const [data] = (await once(socket, "data")) as [Buffer];
    expect(data.toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(data.toString()).toMatch(/keep-alive: timeout=65/i);
    socket.destroy();
  });
});

describe("changed certificates", () => {
  it("are those of new connections, and connections that exist go on", async () => {
    const { server, urlOf } = await open();
    const kept = connectTls({ port: server.port, host: "127.0.0.1", ca });
    await once(kept, "secureConnect");
    expect(kept.getPeerCertificate().subject.CN).toBe("first");
    server.changeTls(second);
    kept.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    const [data] = (await once(kept, "data")) as [Buffer];
    expect(data.toString()).toContain("HTTP/1.1 200");
    kept.destroy();
    expect((await askHttps(urlOf("/healthz"), { ca })).certificate.subject.CN).toBe("second");
  });

  it("may be the first with authorities of clients, whose certificates then count", async () => {
    const { server, newKey, urlOf } = await open({ clientCertificates: { required: true } });
    const headers = { authorization: `Bearer ${(await newKey()).text}` };
    const statusOf = async (client?: ServerTls) =>
      (await askHttps(urlOf("/v1/whoami"), { ca, ...client, headers })).status;
    // Their certificates count for nothing until then, and cut no client off.
    expect([await statusOf(worker), await statusOf()]).toEqual([401, 401]);
    server.changeTls({ ...first, clientCa: ca });
    expect([await statusOf(worker), await statusOf()]).toEqual([200, 401]);
    await expect(statusOf(stranger)).rejects.toThrow();
  });

  it("that cannot be used are refused, and the former ones stay", async () => {
    const { server, urlOf } = await open();
    for (const [tls, message] of [
      [{ cert: second.cert, key: first.key }, "the key is not that of the certificate"],
      [{ cert: second.cert.slice(0, 200), key: second.key }, "tls.cert certificate 1 is damaged"],
      [{ cert: `${second.cert} ${ca}`, key: second.key }, "tls.cert certificate 2 is damaged"],
      [{ ...second, clientCa: "none" }, "clientCa"],
      [
        { ...second, clientCa: `${ca}${ca.slice(0, 300)}` },
        "tls.clientCa certificate 2 is damaged",
      ],
    ] as const) {
      expect(() => server.changeTls(tls)).toThrow(message);
      await expect(open({ tls })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    }
    expect((await askHttps(urlOf("/healthz"), { ca })).certificate.subject.CN).toBe("first");
    const plain = await open({ tls: undefined });
    expect(() => plain.server.changeTls(second)).toThrow("this server has none");
  });
});

describe("certificates of clients", () => {
  /** The worker's certificate has the rights of a key; all others have none. */
  async function withClients(options: Partial<AppOptions> = {}) {
    const ids: string[] = [];
    const keyOf = ({ identities }: ClientCertificate) =>
      identities.includes("dns:worker-1.example") ? (ids[0] ?? null) : null;
    const opened = await open({
      tls: { ...first, clientCa: ca },
      clientCertificates: { keyOf },
      ...options,
    });
    const made = await opened.newKey("viewer");
    ids.push(made.key.id);
    const ask = async (client: ServerTls | undefined, headers = {}, path = "/v1/whoami") => {
      const { status, body } = await askHttps(opened.urlOf(path), { ca, ...client, headers });
      return { status, body: JSON.parse(body) as Line };
    };
    return { ...opened, made, ask };
  }

  it("have the rights of the key that is assigned to them", async () => {
    const { ask, made, stores } = await withClients();
    const { status, body } = await ask(worker);
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ namespace: "n", role: "viewer", actor: `key:${made.key.id}` }),
    ]);
    await stores.control?.actors.keys.revoke("n", made.key.id);
    await expect.poll(async () => (await ask(worker)).status, { timeout: 15_000 }).toBe(401);
  }, 30_000);

  it("have no access if no key is assigned to them, not even with an API key", async () => {
    const { ask, newKey } = await withClients();
    const { text: key } = await newKey();
    for (const headers of [{}, { authorization: `Bearer ${key}` }]) {
      const { status, body } = await ask(other, headers);
      expect([status, body["detail"]]).toEqual([
        401,
        "no API key is assigned to this client certificate",
      ]);
    }
    expect((await ask(worker, { authorization: `Bearer ${key}` })).body).toMatchObject({
      role: "admin",
    });
  });

  it("are required, except by health checks", async () => {
    const { ask, newKey } = await withClients();
    const { text: key } = await newKey();
    const { status, body } = await ask(undefined, { authorization: `Bearer ${key}` });
    expect([status, body["detail"]]).toEqual([
      401,
      expect.stringContaining("requires a client certificate"),
    ]);
    expect((await ask(undefined, {}, "/readyz")).status).toBe(200);
    const optional = await withClients({ clientCertificates: { required: false } });
    const { text: own } = await optional.newKey();
    expect((await optional.ask(undefined, { authorization: `Bearer ${own}` })).status).toBe(200);
    expect((await optional.ask(undefined)).status).toBe(401);
  });

  it("without a list have no rights of their own", async () => {
    const { ask, newKey } = await withClients({ clientCertificates: {} });
    expect((await ask(worker)).status).toBe(401);
    const { text: key } = await newKey();
    expect((await ask(worker, { authorization: `Bearer ${key}` })).status).toBe(200);
  });

  it("of another authority are cut off", async () => {
    const { ask, logged } = await withClients();
    await expect(ask(stranger, {}, "/healthz")).rejects.toMatchObject({ code: /ECONNRESET|EPIPE/ });
    expect(await logged("handshakes_failed")).toMatchObject({
      reason: expect.stringMatching(/UNABLE_TO_VERIFY|SELF_SIGNED|UNABLE_TO_GET_ISSUER/) as string,
    });
  });

  it("are ignored where no authority of clients is named", async () => {
    const { newKey, urlOf } = await open();
    const headers = { authorization: `Bearer ${(await newKey()).text}` };
    for (const client of [worker, stranger]) {
      const answer = await askHttps(urlOf("/v1/whoami"), { ca, ...client, headers });
      expect(answer.status).toBe(200);
    }
  });

  it("are no credential of web pages of other origins", async () => {
    const { ask } = await withClients();
    for (const headers of [
      { origin: "https://evil.example" },
      { "sec-fetch-site": "cross-site" },
    ]) {
      expect((await ask(worker, headers)).status).toBe(403);
    }
    const origin = (await open()).urlOf("");
    expect((await ask(worker, { origin })).status).toBe(403);
    expect((await ask(worker, { "sec-fetch-site": "same-origin" })).status).toBe(200);
  });

  it("serve the client library, which keeps a lease with them", async () => {
    const ids: string[] = [];
    const keyOf = () => ids[0] ?? null;
    const { server, newKey } = await open({
      tls: { ...first, clientCa: ca },
      clientCertificates: { keyOf },
    });
    ids.push((await newKey("admin")).key.id);
    const { cert, key } = worker;
    const leases = await connect(http({ url: server.url, tls: { ca, cert, key } }));
    const lease = await leases.acquire("r");
    await lease.renew();
    await lease.release();
    await leases.close();
  });
});
