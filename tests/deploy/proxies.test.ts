/** Servers behind nginx and Caddy, with the configurations of deploy/: leases, streams, waits, addresses, sizes. */

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/node.js";
import { freePort } from "../support/engines/free-port.js";
import { describeWherePossible } from "../support/engines/postgres.js";
import { Cli, checkBuild } from "../support/processes/cli.js";
import { Child, endAll, temporaryFolder } from "../support/processes/processes.js";
import { type Authority, type Certificate, newAuthority } from "../support/server/certificates.js";
import { askHttps, type HttpsReply } from "../support/server/https.js";

const root = fileURLToPath(new URL("../../deploy/", import.meta.url));

interface Front {
  readonly port: number;
  readonly certificate: Certificate;
  /** The ports of the servers behind it. */
  readonly servers: readonly number[];
}

/** Replaces each part of a text. A part that the text does not have is a mistake. */
function replaced(source: string, parts: Readonly<Record<string, string>>): string {
  let result = source;
  for (const [part, value] of Object.entries(parts)) {
    if (!result.includes(part)) throw new Error(`the configuration has no ${part}`);
    result = result.replaceAll(part, value);
  }
  return result;
}

async function startNginx({ port, certificate, servers }: Front): Promise<Child> {
  const folder = await temporaryFolder();
  const own = replaced(await readFile(join(root, "nginx/leasehold.conf"), "utf8"), {
    "listen 443 ssl": `listen 127.0.0.1:${port} ssl`,
    "/etc/nginx/leasehold/tls.crt": certificate.certificate,
    "/etc/nginx/leasehold/tls.key": certificate.key,
    "server 127.0.0.1:4040;": servers.map((at) => `server 127.0.0.1:${at};`).join(" "),
  });
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join(" ");
  const file = join(folder, "nginx.conf");
  const main = `daemon off; master_process off; pid ${join(folder, "pid")}; error_log stderr; events {}`;
  await writeFile(file, `${main} http { access_log off; ${temporary}\n${own}\n}`);
  return new Child("nginx", ["-p", folder, "-c", file, "-e", "stderr"]);
}

async function startCaddy({ port, certificate, servers }: Front): Promise<Child> {
  const folder = await temporaryFolder();
  const own = replaced(await readFile(join(root, "caddy/Caddyfile"), "utf8"), {
    "leases.example.com {": `https://localhost:${port} {\n\tbind 127.0.0.1`,
    "/etc/caddy/leasehold/tls.crt": certificate.certificate,
    "/etc/caddy/leasehold/tls.key": certificate.key,
    "reverse_proxy 127.0.0.1:4040": `reverse_proxy ${servers.map((at) => `127.0.0.1:${at}`).join(" ")}`,
  });
  const file = join(folder, "Caddyfile");
  // Only for the test: no port for administration, and no redirection from port 80.
  await writeFile(file, `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${own}`);
  await mkdir(join(folder, "data"));
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: join(folder, "data") };
  return new Child("caddy", ["run", "--config", file, "--adapter", "caddyfile"], { env });
}

function missing(program: string, argument: string): string | null {
  try {
    execFileSync(program, [argument], { stdio: "ignore" });
    return null;
  } catch {
    return `${program} is not installed`;
  }
}

interface Served {
  readonly cli: Cli;
  readonly port: number;
  /** Of the first key. */
  readonly token: string;
}

async function startServer(): Promise<Served> {
  const networks = ["--trusted-proxies", "127.0.0.1", "--allow-from", "*=127.0.0.1"];
  const options = ["--require-keys", "--limits", "bodyBytes=4194304", "--drain-delay", "20s"];
  const cli = new Cli(["serve", "--port", "0", "--store", "memory:", ...options, ...networks]);
  const url = await cli.until(({ err }) =>
    err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
  );
  const token = await cli.until(({ out }) => out.find((line) => line.startsWith("lh_bootstrap")));
  return { cli, port: Number(new URL(url).port), token };
}

let authority: Authority;
let ca: string;
let certificate: Certificate;
beforeAll(async () => {
  checkBuild();
  authority = await newAuthority();
  ca = await readFile(authority.certificate, "utf8");
  certificate = await authority.sign("front", ["localhost", "127.0.0.1"]);
}, 60_000);
afterAll(() => endAll());

for (const [name, without, start] of [
  ["nginx", missing("nginx", "-v"), startNginx],
  ["caddy", missing("caddy", "version"), startCaddy],
] as const) {
  describeWherePossible(without, `behind ${name}`, () => {
    let servers: Served[];
    let port: number;
    let key: string;
    let leases: Leasehold;
    type Options = Omit<NonNullable<Parameters<typeof askHttps>[1]>, "headers"> & {
      readonly headers?: Readonly<Record<string, string>>;
    };
    const ask = (path: string, { headers, ...options }: Options = {}): Promise<HttpsReply> =>
      askHttps(`https://localhost:${port}${path}`, {
        ca,
        family: 4,
        headers: { authorization: `Bearer ${key}`, ...headers },
        ...options,
      });
    const post = (path: string, body: unknown, headers = {}) =>
      ask(path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    const statusOf = (path: string) =>
      ask(path).then(
        ({ status }) => status,
        () => 0,
      );

    beforeAll(async () => {
      servers = [await startServer(), await startServer()];
      port = await freePort();
      const front = await start({ port, certificate, servers: servers.map((one) => one.port) });
      await front.listening(port);
      // Caddy knows that a server is ready when it has asked it.
      await vi.waitUntil(async () => (await statusOf("/readyz")) === 200, { timeout: 30_000 });
      // Each server keeps its own keys, so all but the test of two servers uses the first one.
      await stopServer(1);
      const authorization = `Bearer ${servers[0]?.token}`;
      const made = await post("/v1/keys", { name: "me", role: "admin" }, { authorization });
      ({ key } = JSON.parse(made.body) as { key: string });
      leases = await connect(http({ url: `https://localhost:${port}`, apiKey: key, tls: { ca } }));
    }, 90_000);
    afterAll(async () => {
      await leases?.close();
    });
    /** It refuses to be ready, serves on for 20 s, and is gone. The front must not show any of this. */
    async function stopServer(index: number): Promise<void> {
      const { cli } = servers[index] as Served;
      cli.kill("SIGTERM");
      await cli.until(({ err }) => err.find((line) => line.includes('"draining"')));
      for (let n = 0; n < 20; n += 1) expect(await statusOf("/healthz")).toBe(200);
      await cli.endGroup();
      for (let n = 0; n < 20; n += 1) expect(await statusOf("/healthz")).toBe(200);
    }

    it("speaks HTTP/2, and tells browsers to use https alone", async () => {
      const session = connectHttp2(`https://localhost:${port}`, { ca, family: 4 } as object);
      const asked = session.request({ ":path": "/healthz" });
      const [headers] = (await once(asked, "response")) as [Record<string, unknown>];
      expect(session.alpnProtocol).toBe("h2");
      expect(headers[":status"]).toBe(200);
      expect(headers["strict-transport-security"]).toBe("max-age=31536000");
      expect(JSON.parse(await text(asked))).toMatchObject({ status: "ok" });
      session.close();
    });

    it("passes leases, and the events of a stream as they happen", async () => {
      const watching = new AbortController();
      const events = leases.watch(watching)[Symbol.asyncIterator]();
      expect((await events.next()).value).toMatchObject({ type: "resync" });
      const lease = await leases.acquire("quick");
      await lease.renew();
      await lease.release();
      // The stream is still open, so what arrives was not kept back by the front.
      expect((await events.next()).value).toMatchObject({ resource: "quick" });
      watching.abort();
    });

    it("keeps a silent stream for longer than its heartbeat, and a request that waits", async () => {
      const controller = new AbortController();
      const { beats } = await openStream(port, key, controller.signal);
      await beats(2);
      controller.abort();
      const claim = post("/api/tasks/next", { processor: "w", waitMs: 25_000 });
      await post("/api/tasks", { task_data: { n: 1 } });
      const { status, body } = await claim;
      expect([status, JSON.parse(body)]).toEqual([
        200,
        expect.objectContaining({ tasks: [expect.objectContaining({ task_data: { n: 1 } })] }),
      ]);
    }, 90_000);

    it("tells the server the address of the client, and not what the client claims", async () => {
      expect((await ask("/v1/locks")).status).toBe(200);
      for (const headers of [{}, { "x-forwarded-for": "127.0.0.1" }]) {
        const refused = await ask("/v1/locks", {
          localAddress: "127.0.0.2",
          headers: { authorization: `Bearer ${key}`, ...headers },
        });
        expect(refused.status).toBe(403);
        expect(JSON.parse(refused.body)).toMatchObject({
          detail: expect.stringContaining("may not be used from 127.0.0.2") as string,
        });
      }
    });

    it("takes the largest body, and leaves it to the server to refuse a larger one", async () => {
      const task = (bytes: number) =>
        post("/api/tasks", { task_data: { text: "x".repeat(bytes) } });
      expect((await task(4 * 1_024 * 1_024 - 1_000)).status).toBe(201);
      const refused = await task(4 * 1_024 * 1_024);
      expect(refused.status).toBe(413);
      expect(JSON.parse(refused.body)).toMatchObject({ code: "BODY_TOO_LARGE" });
      // While the former one is still being sent, the server has no room for another.
      await expect
        .poll(async () => (await task(6 * 1_024 * 1_024)).status, { timeout: 10_000 })
        .toBe(413);
    });

    it("passes names with slashes as they are", async () => {
      const lease = await leases.acquire("billing/e");
      const found = await ask("/v1/locks?prefix=billing%2Fe");
      expect(JSON.parse(found.body)).toMatchObject({
        items: [expect.objectContaining({ resource: "billing/e" })],
      });
      await lease.release();
    });
  });
}

/** The stream of events; `beats(n)` resolves when the server has sent that many signs of life. */
async function openStream(port: number, key: string, signal: AbortSignal) {
  const asking = request(`https://localhost:${port}/v1/events`, {
    ca,
    family: 4,
    agent: false,
    signal,
    headers: { authorization: `Bearer ${key}` },
  });
  asking.on("error", () => {});
  asking.end();
  const [answer] = (await once(asking, "response")) as [IncomingMessage];
  expect(answer.statusCode).toBe(200);
  answer.on("error", () => {});
  let read = "";
  const beats = async (count: number) => {
    while ((read.match(/^:/gm) ?? []).length < count) {
      const [chunk] = (await once(answer, "data")) as [Buffer];
      read += chunk.toString();
    }
  };
  return { beats };
}
