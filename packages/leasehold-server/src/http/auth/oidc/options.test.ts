/** What createApp refuses of an issuer. */
import { openStores } from "leasehold";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createApp } from "../../app.js";
import type { AppOptions } from "../../app-options.js";

let stores: Awaited<ReturnType<typeof openStores>>;
beforeAll(async () => {
  stores = await openStores("memory:");
});
afterAll(() => stores.close());

const OIDC = { issuer: "https://id.example", audience: "leases", roles: ["a:b=viewer"] };
const SIGN_IN = { clientId: "console" };

test.each<[string, unknown]>([
  ["issuer", { ...OIDC, issuer: "http://id.example" }],
  ["issuer", { ...OIDC, issuer: "https://user:s3cr3t@id.example" }],
  ["issuer", { ...OIDC, issuer: "id.example" }],
  ["issuer", { ...OIDC, issuer: "https://id.example?x" }],
  ["issuer", { ...OIDC, issuer: "https://id.example:10080" }],
  ["audience", { ...OIDC, audience: [] }],
  ["audience", { ...OIDC, audience: "" }],
  ["audience", { ...OIDC, audience: undefined }],
  ["roles", { ...OIDC, roles: [] }],
  ["roles", { ...OIDC, roles: ["admins"] }],
  ["tenantClaim", { ...OIDC, tenantClaim: " " }],
  ["leewayMs", { ...OIDC, leewayMs: 300_001 }],
  ["signIn.clientId", { ...OIDC, signIn: { clientId: "" } }],
  ["signIn.publicUrl", { ...OIDC, signIn: { ...SIGN_IN, publicUrl: "http://leases.example" } }],
  ["signIn.publicUrl", { ...OIDC, signIn: { ...SIGN_IN, publicUrl: "https://a/?b" } }],
  ["signIn.sessionSecrets", { ...OIDC, signIn: { ...SIGN_IN, sessionSecrets: ["s3cr3t"] } }],
  ["signIn.sessionSecrets", { ...OIDC, signIn: { ...SIGN_IN, sessionSecrets: [] } }],
])("a wrong %s is refused, without a secret: %j", (path, oidc) => {
  const make = () => createApp({ ...stores, version: "1", oidc: oidc as AppOptions["oidc"] });
  expect(make).toThrow(expect.objectContaining({ code: "INVALID_OPTION", path: `oidc.${path}` }));
  expect(make).not.toThrow(/s3cr3t/);
});

test("an issuer needs no control store, and excludes callers without a credential", async () => {
  const { control: _, ...leases } = stores;
  const app = createApp({ ...leases, version: "1", oidc: OIDC });
  const response = await app.fetch(new Request("http://localhost/v1/whoami"));
  expect(response.status).toBe(401);
  const key = `Bearer lh_${"0".repeat(12)}_${"0".repeat(32)}`;
  const wrong = new Request("http://localhost/v1/whoami", { headers: { authorization: key } });
  expect((await app.fetch(wrong)).status).toBe(401);
  await app.close();
  for (const auth of ["none", "ifAny"] as const) {
    const make = () => createApp({ ...stores, auth, version: "1", oidc: OIDC });
    expect(make).toThrow(expect.objectContaining({ code: "INVALID_OPTION", path: "oidc" }));
  }
});
