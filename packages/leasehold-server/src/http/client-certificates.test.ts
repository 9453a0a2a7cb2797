import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { endAll, temporaryFolder } from "../../../../tests/support/processes/processes.js";
import { describe as describeCertificate } from "./client-certificates.js";

/** @param names of the subject's alternative name, one a line: `DNS.1=a.example` */
async function certificate(subject: string, names: readonly string[]): Promise<X509Certificate> {
  const config = join(await temporaryFolder(), "config");
  const section = names.length === 0 ? "" : "subjectAltName=@names\n[names]";
  const lines = ["[req]", "distinguished_name=dn", "x509_extensions=own", "[dn]", "[own]", section];
  await writeFile(config, [...lines, ...names, ""].join("\n"));
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const files = ["-keyout", "/dev/null", "-config", config];
  const args = ["req", "-x509", "-days", "2", ...key, ...files, "-utf8", "-subj", subject];
  const { stdout } = await promisify(execFile)("openssl", args);
  return new X509Certificate(stdout);
}

afterAll(() => endAll());

it("names a certificate by its fingerprint, subject and alternative names", async () => {
  const made = await certificate("/C=DE/O=Example, Inc./CN=worker 1", [
    "DNS.1=Worker-1.example",
    "URI.1=spiffe://example/worker/1",
    "email.1=ops@example.org",
    "IP.1=192.0.2.7",
  ]);
  const { identities, validToMs } = describeCertificate(made);
  expect(identities).toEqual([
    `sha256:${made.fingerprint256.replaceAll(":", "").toLowerCase()}`,
    "subject:CN=worker 1,O=Example\\, Inc.,C=DE",
    "dns:worker-1.example",
    "uri:spiffe://example/worker/1",
    "email:ops@example.org",
  ]);
  expect(validToMs).toBe(Date.parse(made.validTo));
});

it("takes no name from within another one", async () => {
  const forged = await certificate("/CN=x", ["URI.1=https://a.example/, DNS:admin.example"]);
  const { identities } = describeCertificate(forged);
  expect(identities.slice(2)).toEqual(["uri:https://a.example/, DNS:admin.example"]);
  const named = await certificate("/CN=dns:admin.example", []);
  expect(describeCertificate(named).identities).toEqual([
    expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string,
    "subject:CN=dns:admin.example",
  ]);
});
