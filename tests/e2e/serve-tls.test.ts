/** `leasehold serve` with certificates of openssl: what it says, files that change, doctor and health checks. */
import { execFile } from "node:child_process";
import { copyFile, mkdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { Cli, checkBuild, leasehold } from "../support/processes/cli.js";
import { Child, endAll, temporaryFolder } from "../support/processes/processes.js";
import { type Authority, type Certificate, newAuthority } from "../support/server/certificates.js";
import { askHttps } from "../support/server/https.js";

const HEALTH = fileURLToPath(new URL("../../deploy/image/health.js", import.meta.url));

let authority: Authority;
let ca: string;
let first: Certificate;
let second: Certificate;
let client: Certificate;
const running: Cli[] = [];
beforeAll(async () => {
  checkBuild();
  authority = await newAuthority();
  ca = await readFile(authority.certificate, "utf8");
  first = await authority.sign("first", ["localhost", "127.0.0.1"]);
  second = await authority.sign("second", ["localhost", "127.0.0.1"]);
  client = await authority.sign("worker", ["worker-1.example"]);
}, 60_000);
afterEach(async () => {
  await Promise.all(running.splice(0).map((cli) => cli.endGroup()));
});
afterAll(() => endAll());

interface Line {
  readonly event?: string;
  readonly url?: string;
  readonly msg?: string;
  readonly [field: string]: unknown;
}
const linesOf = (cli: Cli) => cli.err.map((line) => JSON.parse(line) as Line);
/** The first such line after the first `after` lines. */
const logged = (cli: Cli, event: string, after = 0) =>
  cli.until(() =>
    linesOf(cli)
      .slice(after)
      .find((line) => line.event === event),
  );

async function start(...args: string[]): Promise<{ cli: Cli; url: string }> {
  const cli = new Cli(["serve", "--port", "0", "--store", "memory:", ...args]);
  running.push(cli);
  const url = await cli.until(() => linesOf(cli).find((line) => line.url)?.url);
  return { cli, url };
}
const pair = (cert: string, key: string) => ["--tls-cert", cert, "--tls-key", key];
const servedBy = async (url: string) =>
  (await askHttps(`${url}/healthz`, { ca })).certificate.subject.CN;

/** As Kubernetes lays out a secret: the files are links through `..data`, which is replaced as a whole. */
async function secret(): Promise<{
  path: (name: string) => string;
  put: (of: Certificate) => Promise<void>;
}> {
  const folder = await temporaryFolder();
  let version = 0;
  const put = async (of: Certificate) => {
    version += 1;
    const name = `..v${version}`;
    await mkdir(join(folder, name));
    await copyFile(of.certificate, join(folder, name, "tls.crt"));
    await copyFile(of.key, join(folder, name, "tls.key"));
    await symlink(name, join(folder, "..next"));
    await rename(join(folder, "..next"), join(folder, "..data"));
  };
  await put(first);
  for (const name of ["tls.crt", "tls.key"]) {
    await symlink(join("..data", name), join(folder, name));
  }
  return { path: (name) => join(folder, name), put };
}

it("says the https address, and serves the doctor and the image's health check", async () => {
  const { cli, url } = await start(...pair(first.certificate, first.key));
  expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
  expect(await logged(cli, "tls_certificate")).toMatchObject({ subject: "CN=first" });
  // Test certificates are valid for two days.
  expect(await logged(cli, "tls_expires")).toMatchObject({ msg: expect.stringContaining("soon") });
  const store = `${url}/?${new URLSearchParams({ cacert: authority.certificate })}`;
  const doctor = await leasehold(["doctor", "--store", store, "--for", "100ms", "--json"]);
  expect([doctor.code, doctor.stderr]).toEqual([0, ""]);
  expect(JSON.parse(doctor.stdout)).toMatchObject({ healthy: true });
  const env = { PATH: process.env["PATH"], PORT: new URL(url).port };
  const health = (tls: object) =>
    new Child(process.execPath, [HEALTH], { env: { ...env, ...tls } }).ended;
  expect((await health({ LEASEHOLD_TLS_CERT: first.certificate })).code).toBe(0);
  expect((await health({})).code).toBe(1);
  const { code } = await cli.end("SIGTERM");
  expect(code).toBe(0);
});

it("warns of a certificate that every client refuses: of a later time, or not of a server", async () => {
  const own = { certificate: join(await temporaryFolder(), "later.crt"), key: first.key };
  const made = `req -x509 -new -days 2 -subj /CN=later -key ${own.key} -out ${own.certificate}`;
  await promisify(execFile)("faketime", ["-f", "+2d", "openssl", ...made.split(" ")]);
  const later = await start(...pair(own.certificate, own.key));
  expect(await logged(later.cli, "tls_unusable")).toMatchObject({
    msg: "the certificate is not valid yet, so clients refuse it: correct the clock, or replace its files",
  });
  const uses = ["extendedKeyUsage=clientAuth"];
  const other = await authority.sign("other", ["127.0.0.1"], "/CN=other", uses);
  const wrong = await start(...pair(other.certificate, other.key));
  expect(await logged(wrong.cli, "tls_unusable")).toMatchObject({
    msg: expect.stringContaining("give it the extended key usage serverAuth"),
  });
  const ended = join(await temporaryFolder(), "ended.crt");
  const long = `req -x509 -new -days 2 -subj /CN=ended -key ${first.key} -out ${ended}`;
  await promisify(execFile)("faketime", ["-f", "-9d", "openssl", ...long.split(" ")]);
  const old = await start(...pair(first.certificate, first.key), "--tls-client-ca", ended);
  expect(await logged(old.cli, "tls_expires")).toMatchObject({
    subject: "CN=ended",
    msg: expect.stringContaining("an authority of clients has expired"),
  });
  const leaf = await start(
    ...pair(first.certificate, first.key),
    "--tls-client-ca",
    client.certificate,
  );
  expect(await logged(leaf.cli, "tls_unusable")).toMatchObject({
    subject: "CN=worker",
    msg: expect.stringContaining("is none of an authority"),
  });
  const both = ["extendedKeyUsage=clientAuth,serverAuth"];
  const right = await authority.sign("both", ["127.0.0.1"], "/CN=both", both);
  const { cli } = await start(
    ...pair(right.certificate, right.key),
    "--tls-client-ca",
    authority.certificate,
  );
  expect(linesOf(cli).filter(({ event }) => event === "tls_unusable")).toEqual([]);
});

it("names an empty option, a key with a passphrase, and a damaged certificate", async () => {
  const folder = await temporaryFolder();
  const locked = join(folder, "locked.key");
  const sealed = ["pkey", "-in", first.key, "-aes256", "-passout", "pass:secret", "-out", locked];
  await promisify(execFile)("openssl", sealed);
  const joined = join(folder, "joined.crt");
  await writeFile(joined, `${ca.trimEnd()}${ca}`);
  const own = pair(first.certificate, first.key);
  for (const [args, said] of [
    [pair("", first.key), "--tls-cert (or its variable) is empty"],
    [pair(first.certificate, ""), "--tls-key (or its variable) is empty"],
    [pair(first.certificate, locked), "tls.key has a passphrase"],
    [[...own, "--tls-client-ca", joined], "tls.clientCa certificate 1 is damaged"],
  ] as const) {
    const refused = await leasehold(["serve", "--port", "0", "--store", "memory:", ...args]);
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain(said);
  }
});

it("uses changed files, as Kubernetes replaces them, and keeps the former ones if they are wrong", async () => {
  const { path, put } = await secret();
  const { cli, url } = await start(...pair(path("tls.crt"), path("tls.key")));
  expect(await servedBy(url)).toBe("first");
  await put(second);
  await cli.until(() => linesOf(cli).some(({ subject }) => subject === "CN=second"));
  expect(await servedBy(url)).toBe("second");
  await put({ certificate: first.certificate, key: second.key });
  expect(await logged(cli, "tls_refused")).toMatchObject({
    level: 50,
    error: expect.stringContaining("the key is not that of the certificate") as string,
  });
  expect(await servedBy(url)).toBe("second");
  const before = cli.err.length;
  await put(first);
  expect(await logged(cli, "tls_certificate", before)).toMatchObject({ subject: "CN=first" });
  expect(await servedBy(url)).toBe("first");
}, 30_000);

it("reads the files again at SIGHUP", async () => {
  const folder = await temporaryFolder();
  const [cert, key] = [join(folder, "crt"), join(folder, "key")];
  await copyFile(first.certificate, cert);
  await copyFile(first.key, key);
  const { cli, url } = await start(...pair(cert, key));
  cli.kill("SIGHUP");
  await logged(cli, "tls_reload");
  await copyFile(second.certificate, cert);
  await copyFile(second.key, key);
  cli.kill("SIGHUP");
  await cli.until(() => linesOf(cli).some(({ subject }) => subject === "CN=second"));
  expect(await servedBy(url)).toBe("second");
});

it("takes the list of client keys, and its changes", async () => {
  const folder = await temporaryFolder();
  const list = join(folder, "clients");
  await writeFile(list, "# none yet\n");
  const { url, cli } = await start(
    ...pair(first.certificate, first.key),
    "--tls-client-ca",
    authority.certificate,
    "--tls-client-keys",
    list,
    "--require-keys",
  );
  const own = {
    ca,
    cert: await readFile(client.certificate, "utf8"),
    key: await readFile(client.key, "utf8"),
  };
  const whoami = () => askHttps(`${url}/v1/whoami`, own);
  expect((await whoami()).status).toBe(401);
  expect(await logged(cli, "client_keys")).not.toHaveProperty("keyId");
  // The token of the first key is no key of the certificate, so it needs one that is assigned: none is yet.
  await writeFile(list, "dns:worker-1.example 0123456789ab\n");
  const unknown = await logged(cli, "client_keys", cli.err.length);
  expect(unknown).toMatchObject({ level: 40, keyId: "0123456789ab" });
  const body = JSON.stringify({ name: "me", role: "admin" });
  const token = await cli.until(({ out }) => out.find((line) => line.startsWith("lh_bootstrap")));
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const made = await askHttps(`${url}/v1/keys`, { ...own, method: "POST", headers, body });
  expect(made.status).toBe(201);
  const { id } = JSON.parse(made.body) as { id: string };
  expect((await whoami()).status).toBe(401);
  const before = cli.err.length;
  await writeFile(list, `dns:worker-1.example ${id}\n`);
  await logged(cli, "tls_certificate", before);
  expect(JSON.parse((await whoami()).body)).toMatchObject({ role: "admin", actor: `key:${id}` });
  const store = `${url}/?${new URLSearchParams({ cacert: authority.certificate, cert: client.certificate, key: client.key })}`;
  expect(await leasehold(["ls", "--store", store])).toMatchObject({ code: 0 });
}, 30_000);

it("admits a tenant from its networks alone", async () => {
  const { url } = await start("--allow-from", "*=10.0.0.0/8", "--allow-from", "blog=::1");
  expect((await fetch(`${url}/v1/locks`)).status).toBe(403);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const open = await start("--allow-from", "default=127.0.0.0/8,::1");
  expect((await fetch(`${open.url}/v1/locks`)).status).toBe(200);
});

it.each([
  [["--tls-cert", "a"], "--tls-cert needs --tls-key"],
  [["--tls-key", "a"], "--tls-key needs --tls-cert"],
  [["--tls-client-ca", "a"], "--tls-client-ca needs --tls-cert and --tls-key"],
  [["--tls-client-keys", "a"], "--tls-client-keys needs --tls-client-ca"],
  [["--tls-client-optional"], "--tls-client-optional needs --tls-client-ca"],
  [["--tls-cert", "/none/a", "--tls-key", "/none/b"], "/none/a cannot be read"],
  [["--trusted-proxies", "proxy.example"], "must be an address or a network"],
  [["--allow-from", "10.0.0.0/8"], "It must be tenant=address"],
  [["--allow-from", "a=10.0.0.0/8", "--allow-from", "a=::1"], "a is given more than once"],
  [["--allow-from", "a="], "must be an address or a network"],
])("refuses %j", async (args, message) => {
  const { code, stderr } = await leasehold(["serve", "--port", "0", "--store", "memory:", ...args]);
  expect([code, stderr]).toEqual([64, expect.stringContaining(message)]);
});

it("refuses a certificate with the key of another", async () => {
  const args = ["serve", "--port", "0", "--store", "memory:"];
  const { code, stderr } = await leasehold([...args, ...pair(first.certificate, second.key)]);
  expect([code, stderr]).toEqual([64, expect.stringContaining("not that of the certificate")]);
});
