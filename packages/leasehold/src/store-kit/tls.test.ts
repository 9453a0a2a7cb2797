/** Certificates of one's own, and a fetch that shows them, to a server that asks for one. */
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { endAll } from "../../../../tests/support/processes/processes.js";
import { newAuthority } from "../../../../tests/support/server/certificates.js";
import { connectionReason } from "./connecting.js";
import { checkTls, type TlsFiles, tlsFilesOf } from "./tls.js";
import { fetchOver, openTls } from "./tls-connections.js";

const NONE: TlsFiles = { ca: null, cert: null, key: null };

let server: Server;
let files: { readonly ca: string; readonly cert: string; readonly key: string };
let strangers: { readonly cert: string; readonly key: string };

beforeAll(async () => {
  const authority = await newAuthority();
  const own = await authority.sign("server", ["127.0.0.1"]);
  const client = await authority.sign("client");
  const other = await (await newAuthority()).sign("client");
  files = { ca: authority.certificate, cert: client.certificate, key: client.key };
  strangers = { cert: other.certificate, key: other.key };
  const [ca, cert, key] = await Promise.all(
    [authority.certificate, own.certificate, own.key].map((path) => readFile(path, "utf8")),
  );
  server = createServer({ ca, cert, key, requestCert: true }, (request, response) => {
    const { CN } = (request.socket as TLSSocket).getPeerCertificate().subject;
    if (request.url === "/slow") {
      response.write(`first of ${CN}\n`);
      return;
    }
    let text = "";
    request.on("data", (chunk) => (text += chunk));
    request.on("end", () => {
      response.writeHead(request.url === "/none" ? 204 : 201, { "x-index": "7" });
      const { method, headers } = request;
      response.end(JSON.stringify({ method, text, asked: headers["x-asked"], CN }));
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterAll(async () => {
  server.closeAllConnections();
  await once(server.close(), "close");
  await endAll();
});

const url = (path: string) => `https://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

async function openFetch(named: Partial<TlsFiles>) {
  const context = await openTls(undefined, { ...NONE, ...named }, "X");
  if (!context) throw new Error("there are certificates");
  return fetchOver(context);
}

it("sends a request, and reads the answer, under the client's certificate", async () => {
  const { fetch, close } = await openFetch(files);
  const response = await fetch(url("/"), {
    method: "PUT",
    headers: { "x-asked": "a" },
    body: "text",
  });
  expect(response.status).toBe(201);
  expect(response.headers.get("x-index")).toBe("7");
  expect(await response.json()).toEqual({ method: "PUT", text: "text", asked: "a", CN: "client" });
  close();
});

it("streams an answer until its reader cancels or the signal aborts", async () => {
  const { fetch, close } = await openFetch(files);
  const ending = new AbortController();
  for (const end of ["cancel", "abort"] as const) {
    const response = await fetch(url("/slow"), { signal: ending.signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toBe("first of client\n");
    const next = reader.read();
    if (end === "cancel") {
      await reader.cancel();
      expect(await next).toMatchObject({ done: true });
    } else {
      ending.abort();
      await expect(next).rejects.toThrow();
    }
  }
  await expect(fetch(url("/"), { signal: ending.signal })).rejects.toMatchObject({
    name: "AbortError",
  });
  close();
});

it("takes an answer that has no body, and goes on", async () => {
  const { fetch, close } = await openFetch(files);
  const empty = await fetch(url("/none"));
  expect(empty.status).toBe(204);
  expect(await empty.text()).toBe("");
  expect((await fetch(url("/"))).status).toBe(201);
  close();
});

it.each<[string, () => Partial<TlsFiles>, RegExp]>([
  [
    "without the authority",
    () => ({ cert: files.cert, key: files.key }),
    /^SELF_SIGNED_CERT_IN_CHAIN$/,
  ],
  ["without a certificate", () => ({ ca: files.ca }), /_ALERT_CERTIFICATE_REQUIRED$/],
  // Node ends the connection without an alert.
  ["with that of a stranger", () => ({ ...strangers, ca: files.ca }), /^ECONNRESET$/],
])("rejects %s", async (_, named, code) => {
  const { fetch, close } = await openFetch(named());
  const error: unknown = await fetch(url("/")).catch((error: unknown) => error);
  expect(error).toMatchObject({ code: expect.stringMatching(code) as string });
  close();
});

it("names the certificate of the client where a connection of fetch ends without a word", async () => {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
  const error: unknown = await fetch(url("/")).catch((error: unknown) => error);
  expect(connectionReason(url("/"), error)).toMatch(
    /certificate of the client, name one by \?cert=/,
  );
});

it("opens nothing without certificates, and reads no file that an option replaces", async () => {
  expect(await openTls(undefined, null, "X")).toBeNull();
  expect(await openTls({}, NONE, "X")).toBeNull();
  const [ca, cert, key] = await Promise.all(
    [files.ca, files.cert, files.key].map((path) => readFile(path, "utf8")),
  );
  const none = { ca: "/none/a", cert: "/none/b", key: "/none/c" };
  expect(await openTls({ ca, cert, key }, none, "X")).not.toBeNull();
  expect(await openTls({ ca }, { ...files, ca: "/none/a" }, "X")).not.toBeNull();
  // An option that is undefined is left out.
  expect(await openTls({ ca: undefined }, { ...NONE, ca: files.ca }, "X")).not.toBeNull();
});

it("names what is wrong with the files, and quotes none of them", async () => {
  const wrong = async (named: Partial<TlsFiles>) => {
    const error: unknown = await openTls(undefined, { ...NONE, ...named }, "X").catch(
      (error: unknown) => error,
    );
    return error as { code: string; message: string };
  };
  expect(await wrong({ ca: "/none/such" })).toMatchObject({
    code: "STORE_MISCONFIGURED",
    message: expect.stringContaining(
      "the file /none/such for TLS to X: ENOENT; correct its path",
    ) as string,
  });
  const crossed = await wrong({ cert: files.cert, key: strangers.key });
  expect(crossed).toMatchObject({
    code: "STORE_MISCONFIGURED",
    message: expect.stringMatching(/^the certificates for X cannot be used: .*they must be PEM/),
  });
  const secret = await readFile(strangers.key, "utf8");
  expect(crossed.message).not.toContain(secret.split("\n")[1]);
});

it("refuses an authority without a certificate, and a pair without one of both, which Node would take for none", async () => {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-tls-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [empty, text] = [join(folder, "empty.pem"), join(folder, "text.pem")];
  await writeFile(empty, "");
  await writeFile(text, "an authority\n");
  const refused =
    /^the certificates for X cannot be used: the authority must have a certificate in/;
  for (const ca of [empty, text, files.key]) {
    const opening = openTls(undefined, { ...NONE, ca }, "X");
    await expect(opening).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
    await expect(opening).rejects.toThrow(refused);
  }
  await expect(openTls({ ca: "" }, NONE, "X")).rejects.toThrow(refused);
  const { cert, key } = files;
  const pairs = [
    [{ cert: empty, key }, "the file of cert must have a certificate in PEM"],
    [{ cert, key: empty }, "the file of key must have a private key in PEM"],
    [{ cert: empty, key: empty }, "the file of cert must have a certificate in PEM"],
    [{ cert: key, key: cert }, "the file of cert must have a certificate in PEM"],
  ] as const;
  for (const [pair, problem] of pairs) {
    await expect(openTls(undefined, { ...NONE, ...pair }, "X")).rejects.toThrow(problem);
  }
});

it.each<[Parameters<typeof checkTls>[0], TlsFiles | null, string]>([
  [{ tls: { cert: "a" } }, NONE, "tls must have both cert and key, or neither"],
  [{ tls: { ca: 1 as never } }, NONE, "ca must be a string, got the number 1"],
  [{ tls: { cert: 1 as never } }, NONE, "cert must be a string, got the number 1"],
  [{ tls: { key: 1 as never } }, NONE, "key must be a string, got the number 1"],
  [{ tls: null as never }, NONE, "tls must be an object, got null"],
  [{ tls: {} }, null, "tls needs a URL with xs://"],
  [
    { tls: {} },
    { ...NONE, ca: "/a" },
    "tls stands in place of ?cacert=, ?cert= and ?key=: use one",
  ],
  [
    { fetch: () => {}, tls: {} },
    NONE,
    "fetch brings certificates of its own: remove it, or the others",
  ],
  [
    { fetch: () => {} },
    { ...NONE, ca: "/a" },
    "fetch brings certificates of its own: remove it, or the others",
  ],
])("refuses the options %j beside %j", (options, files, message) => {
  expect(() => checkTls(options, files, "xs")).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", message }),
  );
});

it("accepts the others", () => {
  checkTls({}, null, "xs");
  checkTls({ fetch: () => {} }, NONE, "xs");
  checkTls({ fetch: () => {} }, null, "xs");
  checkTls({ tls: { ca: "a", cert: "b", key: "c" } }, NONE, "xs");
});

it("reads the paths of files from a URL, a client's in pairs", () => {
  const filesOf = (query: string) => tlsFilesOf(new URLSearchParams(query));
  expect(filesOf("")).toEqual(NONE);
  expect(filesOf("cacert=/a")).toEqual({ ...NONE, ca: "/a" });
  expect(filesOf("cacert=/a&cert=/b&key=/c")).toEqual({ ca: "/a", cert: "/b", key: "/c" });
  for (const half of ["cert=/b", "key=/c"]) {
    expect(() => filesOf(half)).toThrow(
      expect.objectContaining({
        path: "url",
        message: "url must name both ?cert= and ?key=, or neither",
      }),
    );
  }
});
