/** Signed checkpoints of the audit, which the real openssl makes keys for and checks. */
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkBuild, endAll, leasehold, serve } from "../support/processes/cli.js";

interface Line {
  readonly version: number;
  readonly seq: number;
  readonly hash: string;
  readonly at: string;
  readonly algorithm: string;
  readonly keyId: string;
  readonly signature: string;
}

/** As docs/security.md describes it. */
const textOf = ({ seq, hash, at, algorithm, keyId }: Line) =>
  `leasehold audit checkpoint 1\n${seq}\n${hash}\n${at}\n${algorithm}\n${keyId}\n`;

describe("signed checkpoints", () => {
  let directory: string;
  let store: string;
  const path = (name: string) => join(directory, name);
  const openssl = (...args: string[]) =>
    execFileSync("openssl", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const run = (...args: string[]) =>
    leasehold([...args, ...(args[0] === "serve" ? [] : ["--store", store])]);
  /** Adds an entry. */
  const pause = async (name: string) => {
    const body = JSON.stringify({ kind: "queue", name, reason: "r" });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${store}/v1/pauses`, { method: "PUT", headers, body });
    expect(answer.status).toBe(200);
  };

  beforeAll(async () => {
    checkBuild();
    directory = await mkdtemp(join(tmpdir(), "leasehold-"));
    for (const name of ["a", "b"]) {
      openssl("genpkey", "-algorithm", "ed25519", "-out", path(`${name}.pem`));
      openssl("pkey", "-in", path(`${name}.pem`), "-pubout", "-out", path(`${name}.pub.pem`));
    }
    openssl("genpkey", "-algorithm", "x25519", "-out", path("x25519.pem"));
    await writeFile(path("secret"), `${"s3cret".repeat(8)}\n`);
    await writeFile(path("other-secret"), "another".repeat(8));
    await writeFile(path("short"), "too short");
    const { url } = await serve("memory:checkpoints", [
      "--audit-checkpoint-file",
      path("served.jsonl"),
      "--audit-checkpoint-every",
      "100ms",
      "--audit-sign-key",
      path("a.pem"),
    ]);
    store = url;
    await pause("one");
  }, 60_000);
  afterAll(async () => {
    await endAll();
    await rm(directory, { recursive: true });
  });

  const checkpoint = async (...args: string[]) => {
    const { code, stdout } = await run("audit", "checkpoint", ...args);
    expect(code).toBe(0);
    await writeFile(path("checkpoint.json"), stdout);
    return JSON.parse(stdout) as Line;
  };
  const verify = async (...args: string[]) => {
    const file = path("checkpoint.json");
    const { code, stdout, stderr } = await run("audit", "verify", "--checkpoint", file, ...args);
    return { code, text: stdout + stderr };
  };

  it("openssl verifies a checkpoint that is signed with Ed25519", async () => {
    const line = await checkpoint("--sign-key", path("a.pem"));
    expect(Object.keys(line)).toEqual([
      "version",
      "seq",
      "hash",
      "at",
      "algorithm",
      "keyId",
      "signature",
    ]);
    expect(line).toMatchObject({ version: 1, algorithm: "Ed25519" });
    await writeFile(path("text"), textOf(line));
    await writeFile(path("signature"), Buffer.from(line.signature, "base64"));
    const check = (key: string) =>
      openssl(
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        path(key),
        "-rawin",
        "-in",
        path("text"),
        "-sigfile",
        path("signature"),
      );
    expect(check("a.pub.pem")).toContain("Signature Verified Successfully");
    expect(() => check("b.pub.pem")).toThrow();
    // The key's id, as openssl computes it.
    openssl("pkey", "-pubin", "-in", path("a.pub.pem"), "-outform", "DER", "-out", path("a.der"));
    expect(openssl("dgst", "-sha256", "-r", path("a.der")).slice(0, 16)).toBe(line.keyId);
  });

  it("openssl computes the same HMAC", async () => {
    const line = await checkpoint("--secret-file", path("secret"));
    expect(line.algorithm).toBe("HMAC-SHA-256");
    await writeFile(path("text"), textOf(line));
    const secret = (await readFile(path("secret"), "utf8")).trim();
    const mac = openssl("dgst", "-sha256", "-hmac", secret, "-r", path("text")).slice(0, 64);
    expect(Buffer.from(line.signature, "base64").toString("hex")).toBe(mac);
  });

  it("verify accepts the signature of its key alone, and only what was signed", async () => {
    const line = await checkpoint("--sign-key", path("a.pem"));
    expect(await verify("--public-key", path("a.pub.pem"))).toMatchObject({ code: 0 });
    await pause("two");
    expect(await verify("--public-key", path("a.pub.pem"))).toMatchObject({ code: 0 });
    expect(await verify("--public-key", path("b.pub.pem"))).toMatchObject({
      code: 1,
      text: expect.stringContaining(`signed by the key ${line.keyId}, not by`),
    });
    expect(await verify("--secret-file", path("secret"))).toMatchObject({
      code: 1,
      text: expect.stringContaining("signed with Ed25519, not with HMAC-SHA-256"),
    });
    await writeFile(path("checkpoint.json"), JSON.stringify({ ...line, seq: line.seq + 1 }));
    expect(await verify("--public-key", path("a.pub.pem"))).toMatchObject({
      code: 1,
      text: expect.stringContaining("the signature of the checkpoint is not of its content"),
    });
    await checkpoint("--secret-file", path("secret"));
    expect(await verify("--secret-file", path("secret"))).toMatchObject({ code: 0 });
    expect(await verify("--secret-file", path("other-secret"))).toMatchObject({ code: 1 });
  });

  it("verify refuses a signature without a key, and a key without a signature", async () => {
    await checkpoint("--sign-key", path("a.pem"));
    expect(await verify()).toMatchObject({
      code: 64,
      text: expect.stringContaining("name it, --public-key or --secret-file"),
    });
    await checkpoint();
    expect(await verify()).toMatchObject({ code: 0 });
    expect(await verify("--public-key", path("a.pub.pem"))).toMatchObject({
      code: 64,
      text: expect.stringContaining("is not signed"),
    });
    expect(await run("audit", "verify", "--public-key", path("a.pub.pem"))).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("--public-key needs a --checkpoint"),
    });
  });

  it("refuses files that have no such key, without showing them", async () => {
    const refused = async (name: string, file: string, message: string) => {
      const { code, stderr } = await run("audit", "checkpoint", name, path(file));
      expect({ code, stderr }).toMatchObject({
        code: 64,
        stderr: expect.stringContaining(message),
      });
      return stderr;
    };
    await refused("--sign-key", "x25519.pem", "no private key of Ed25519");
    await refused("--sign-key", "a.pub.pem", "no private key of Ed25519");
    expect(await refused("--sign-key", "secret", "no private key of Ed25519")).not.toContain("s3c");
    await refused("--sign-key", "none", "cannot read");
    await refused("--secret-file", "short", "32 characters or more");
    await checkpoint("--sign-key", path("a.pem"));
    expect(await verify("--public-key", path("a.pem"))).toMatchObject({
      code: 64,
      text: expect.stringContaining("has a private key"),
    });
    const both = ["--sign-key", path("a.pem"), "--secret-file", path("secret")];
    expect(await run("audit", "checkpoint", ...both)).toMatchObject({ code: 64 });
  });

  it("a server adds them to a file, for its user alone", async () => {
    const file = path("served.jsonl");
    const lines = async () => (await readFile(file, "utf8")).trimEnd().split("\n");
    await expect.poll(async () => (await lines()).length, { timeout: 20_000 }).toBeGreaterThan(2);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const args = ["--checkpoint", file, "--public-key", path("a.pub.pem")];
    expect(await run("audit", "verify", ...args)).toMatchObject({ code: 0 });
  }, 30_000);

  it("serve refuses options that would write none", async () => {
    const refused = async (message: string, ...args: string[]) =>
      expect(await run("serve", "--port", "0", "--store", "memory:none", ...args)).toMatchObject({
        code: 64,
        stderr: expect.stringContaining(message),
      });
    const file = ["--audit-checkpoint-file", path("served.jsonl")];
    await refused("needs --audit-sign-key or --audit-secret-file", ...file);
    await refused("--audit-sign-key needs", "--audit-sign-key", path("a.pem"));
    const none = ["--audit-checkpoint-file", path("none/file"), "--audit-sign-key", path("a.pem")];
    await refused("cannot write", ...none);
  }, 30_000);
});
