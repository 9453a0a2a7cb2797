/** The options of serve for an issuer. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OidcFlags, oidcOf, withOidc } from "./oidc.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "leasehold-oidc-"));
  await writeFile(join(folder, "secrets"), "\n new secret \nold secret\n");
  await writeFile(join(folder, "empty"), "\n");
});
afterAll(() => rm(folder, { recursive: true }));

async function parse(...args: string[]) {
  const command = withOidc(new Command("serve").exitOverride().configureOutput({ writeErr() {} }));
  command.option("--host <address>", "", "127.0.0.1");
  await command.parseAsync(args, { from: "user" });
  return oidcOf(command.opts<OidcFlags>());
}

const ISSUER = ["--oidc-issuer", "https://id.example", "--oidc-audience", "leases"];
const RULE = ["--oidc-role", "groups:admins=admin"];

test("without an issuer there is none", async () => {
  expect(await parse()).toBeUndefined();
});

test("an issuer has audiences and rules, in order", async () => {
  const more = ["--oidc-audience", "other", "--oidc-role", "sub:*=viewer,tenant=a"];
  expect(await parse(...ISSUER, ...RULE, ...more, "--oidc-leeway", "1m")).toEqual({
    issuer: "https://id.example",
    audience: ["leases", "other"],
    roles: ["groups:admins=admin", "sub:*=viewer,tenant=a"],
    tenantClaim: undefined,
    leewayMs: 60_000,
    signIn: undefined,
  });
});

test("variables of the environment have one rule in each line", async () => {
  process.env["LEASEHOLD_OIDC_ROLES"] = "groups:a=admin\n\ngroups:b=viewer\n";
  try {
    expect(await parse(...ISSUER)).toMatchObject({ roles: ["groups:a=admin", "groups:b=viewer"] });
    // What is typed counts instead.
    expect(await parse(...ISSUER, ...RULE)).toMatchObject({ roles: ["groups:admins=admin"] });
  } finally {
    delete process.env["LEASEHOLD_OIDC_ROLES"];
  }
});

test("a sign-in has a client, and secrets from files", async () => {
  const file = join(folder, "secrets");
  const options = await parse(
    ...ISSUER,
    ...RULE,
    "--oidc-client-id",
    "console",
    "--oidc-client-secret-file",
    file,
    "--session-secret-file",
    file,
    "--public-url",
    "https://leases.example",
  );
  expect(options?.signIn).toEqual({
    clientId: "console",
    clientSecret: "new secret",
    scope: undefined,
    publicUrl: "https://leases.example",
    sessionSecrets: ["new secret", "old secret"],
  });
});

test("the claim of the tenant and the scopes of the sign-in are those that are given", async () => {
  const named = ["--oidc-tenant-claim", "org", "--oidc-client-id", "console"];
  const scope = ["--oidc-scope", "openid groups"];
  const options = await parse(...ISSUER, ...RULE, ...named, ...scope);
  expect(options).toMatchObject({
    tenantClaim: "org",
    signIn: { clientId: "console", scope: "openid groups" },
  });
  expect(options?.signIn).toMatchObject({ clientSecret: undefined, sessionSecrets: undefined });
});

test.each<[string[], RegExp]>([
  [["--oidc-issuer", "https://id.example"], /--oidc-issuer needs --oidc-audience/],
  [ISSUER, /--oidc-issuer needs --oidc-role/],
  [RULE, /--oidc-role needs --oidc-issuer/],
  [["--oidc-client-id", "x"], /--oidc-client-id needs --oidc-issuer/],
  [["--session-secret-file", "x"], /--session-secret-file needs --oidc-client-id/],
  [["--public-url", "https://x"], /--public-url needs --oidc-client-id/],
  [[...ISSUER, "--oidc-role", "admins"], /admins", which is not CLAIM:VALUE=ROLE/],
  [[...ISSUER, "--oidc-role", "a:b=root"], /unknown role, root/],
  [
    [...ISSUER, ...RULE, "--oidc-client-id", "x", "--host", "0.0.0.0"],
    /name the URL at which browsers reach the console, --public-url/,
  ],
])("%j is refused", async (args, problem) => {
  await expect(parse(...args)).rejects.toThrow(problem);
});

test("a file that is missing or empty is named", async () => {
  const base = [...ISSUER, ...RULE, "--oidc-client-id", "x", "--session-secret-file"];
  await expect(parse(...base, join(folder, "none"))).rejects.toThrow(/none \(ENOENT\)/);
  await expect(parse(...base, join(folder, "empty"))).rejects.toThrow(/empty is empty/);
});
