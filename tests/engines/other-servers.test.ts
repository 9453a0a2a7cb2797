/** Addresses that lead to another kind of server, or to one whose TLS no client accepts: a mistake that lasts, with its remedy. */
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer as createHttps } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { createServer as createTls } from "node:tls";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";
import {
  type Authority,
  authorityOf,
  type Certificate,
  newAuthority,
} from "../support/server/certificates.js";

const read = (path: string) => readFile(path, "utf8");

let root: Authority;
let below: Authority;
let own: Certificate;
let belowOwn: Certificate;
beforeAll(async () => {
  root = await newAuthority();
  own = await root.sign("server", ["127.0.0.1"]);
  const authority = ["basicConstraints=critical,CA:TRUE"];
  below = await authorityOf(await root.sign("below", [], "/CN=below", authority));
  belowOwn = await below.sign("server", ["127.0.0.1"]);
}, 60_000);
afterAll(() => endAll());

async function portOf(server: Server): Promise<number> {
  const sockets = new Set<{ destroy(): unknown }>();
  server.on("connection", (socket) => sockets.add(socket));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await once(server.close(), "close");
  });
  return (server.address() as AddressInfo).port;
}

const pairOf = async ({ certificate, key }: Certificate) => ({
  cert: await read(certificate),
  key: await read(key),
});

/** A server of HTTP over TLS, also for those that want HTTP/2, as gRPC does. */
async function https(pair: Certificate, tls: object = {}): Promise<number> {
  const options = { ALPNProtocols: ["h2", "http/1.1"], ...(await pairOf(pair)), ...tls };
  return portOf(createHttps(options, (_, response) => response.end("none")));
}

async function refusalOf(url: string): Promise<string> {
  const refused = await connect(url, { connectTimeoutMs: 20_000 }).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(refused, String(refused)).toMatchObject({ code: "STORE_MISCONFIGURED", retryable: false });
  return (refused as Error).message;
}

/** Every engine that is reached by TLS. */
const BY_TLS = ["https", "consuls", "etcds", "rediss", "postgres", "zookeepers"] as const;
const urlOf = (scheme: (typeof BY_TLS)[number], port: number, ca: string) => {
  const file = scheme === "postgres" ? `sslmode=verify-full&sslrootcert=${ca}` : `cacert=${ca}`;
  return `${scheme}://127.0.0.1:${port}/${scheme === "postgres" ? "app" : ""}?${file}`;
};

it("a server of HTTP behind rediss:// is named", async () => {
  const port = await https(own);
  expect(await refusalOf(urlOf("rediss", port, root.certificate))).toMatch(
    /this is no server of Redis; check the host and the port of the URL/,
  );
});

it.each(["https", "consuls"] as const)(
  "a server of Redis behind %s:// is named",
  async (scheme) => {
    const server = createTls(await pairOf(own), (socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.end("-ERR unknown command\r\n"));
    });
    const port = await portOf(server);
    expect(await refusalOf(urlOf(scheme, port, root.certificate))).toMatch(
      /does not answer as HTTP does \(.*\); check the host and the port/,
    );
  },
);

it.each(["https", "consuls", "etcds", "rediss"] as const)(
  "a server that has TLS 1.1 alone is named behind %s://",
  async (scheme) => {
    const old = { minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" };
    const port = await https(own, old);
    const message = await refusalOf(urlOf(scheme, port, root.certificate));
    expect(message).toMatch(/it has no version of TLS that Node accepts/);
    expect(message).toMatch(/enable TLS 1\.2 or 1\.3 at the server/);
  },
);

it.each(["https", "consuls", "etcds", "rediss"] as const)(
  "behind %s://, a server that sends no certificate of an intermediate authority is named",
  async (scheme) => {
    const port = await https(belowOwn);
    const message = await refusalOf(urlOf(scheme, port, root.certificate));
    expect(message).toMatch(/let the server send the certificates of intermediate authorities/);
  },
);

it.each(["https", "consuls", "etcds", "rediss"] as const)(
  "behind %s://, a file that has an intermediate authority alone is named",
  async (scheme) => {
    const port = await https(belowOwn);
    const message = await refusalOf(urlOf(scheme, port, below.certificate));
    expect(message).toMatch(/the file needs the authority at the root/);
  },
);

it.each(BY_TLS)("a damaged authority of %s:// is named", async (scheme) => {
  const folder = await temporaryFolder();
  const whole = await read(root.certificate);
  const lines = whole.trimEnd().split("\n");
  const damaged = join(folder, "damaged.crt");
  await writeFile(damaged, [...lines.slice(0, 5), ...lines.slice(8)].join("\n"));
  const second = join(folder, "second.crt");
  await writeFile(second, `${whole}${lines.slice(0, -1).join("\n")}\n`);
  const port = await https(own);
  expect(await refusalOf(urlOf(scheme, port, damaged))).toMatch(
    /its certificate 1 is damaged; copy/,
  );
  expect(await refusalOf(urlOf(scheme, port, second))).toMatch(
    /its certificate 2 is damaged; copy/,
  );
});
