/** `leasehold serve` with an issuer, and commands that send its tokens. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, leasehold, serve } from "../support/processes/cli.js";
import {
  AUDIENCE,
  CONSOLE_CLIENT,
  describeIssuer,
  openIssuer,
} from "../support/server/oidc-issuer.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(...args: string[]) {
  const issuer = await openIssuer({ claims: { groups: ["ops"] } });
  closing.push(() => issuer.close());
  const folder = await mkdtemp(join(tmpdir(), "leasehold-oidc-"));
  closing.push(() => rm(folder, { recursive: true }));
  const secrets = join(folder, "secrets");
  await writeFile(secrets, "a secret of the sessions, for tests only\n");
  const own = ["--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE, ...args];
  const { cli, url } = await serve("memory:test", own);
  closing.push(() => cli.end("SIGTERM"));
  return { issuer, folder, secrets, cli, url };
}

describeIssuer("leasehold serve with an issuer", () => {
  beforeAll(checkBuild);

  it("takes tokens of programs, also from the file of a command", async () => {
    const { issuer, folder, url } = await open("--oidc-role", "groups:ops=operator,tenant=shop");
    const keyless = await leasehold(["ls", "--store", url, "--json"]);
    expect([keyless.code, keyless.stderr]).toEqual([78, expect.stringContaining("no API key")]);
    const file = join(folder, "token");
    await writeFile(file, `${await issuer.token()}\n`);
    const env = { LEASEHOLD_TOKEN_FILE: file };
    const listed = await leasehold(["ls", "--store", url, "--json"], { env });
    expect([listed.code, listed.stderr]).toEqual([0, ""]);
    const acquired = await leasehold(["acquire", "a", "--store", url, "--ttl", "30s"], { env });
    expect(acquired.stderr).toContain("your identity has the role operator here");
    const doctor = await leasehold(["doctor", "--store", url, "--json"], { env });
    expect(doctor.stdout).not.toContain("returned 401");
  });

  it("signs people in to the console, and says who has access", async () => {
    const { issuer, cli, url } = await open(
      "--oidc-role",
      "groups:ops=admin",
      "--oidc-client-id",
      CONSOLE_CLIENT,
    );
    const begun = await fetch(`${url}/session/sign-in`, { redirect: "manual" });
    expect(begun.headers.get("location")).toMatch(`${issuer.url}/auth?response_type=code`);
    const page = await (await fetch(`${url}/`)).text();
    expect(page).toContain('<meta name="leasehold-sign-in"');
    const said = cli.err.map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(said).toContain(`requests need an API key or a token of ${issuer.url}`);
  });

  const rule = ["--oidc-audience", "a", "--oidc-role", "a:b=viewer"];
  it.each([
    [["--oidc-issuer", "http://id.example", "--oidc-audience", "a"], "--oidc-role"],
    [["--oidc-issuer", "http://id.example", ...rule], "oidc.issuer must be a URL with https:"],
    [["--oidc-issuer", "https://id.example", ...rule, "--insecure-no-keys"], "exclude each other"],
  ])("refuses %j with 64", async (args, problem) => {
    const ended = await leasehold(["serve", "--store", "memory:test", "--port", "0", ...args]);
    expect([ended.code, ended.stderr]).toEqual([64, expect.stringContaining(problem)]);
  });
});
