/** Callers of the API by tokens of a real issuer. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { createApp, type ServerApp } from "../../packages/leasehold-server/src/http/index.js";
import { AUDIENCE, describeIssuer, type Issuer, openIssuer } from "../support/oidc-issuer.js";

describeIssuer("tokens of an issuer", () => {
  let issuer: Issuer;
  let app: ServerApp;
  beforeAll(async () => {
    issuer = await openIssuer({ claims: { groups: ["shop-workers"] } });
    const stores = await memory().open(systemEnv);
    app = createApp({
      ...stores,
      version: "1",
      oidc: {
        issuer: issuer.url,
        audience: AUDIENCE,
        roles: ["groups:shop-workers=holder,tenant=shop,prefix=billing/"],
      },
    });
  });
  afterAll(async () => {
    await app.close();
    await issuer.close();
  });
  it("gives the role and the tenant of its claims", async () => {
    const token = await issuer.token();
    const response = await app.fetch(
      new Request("http://localhost/v1/whoami", { headers: { authorization: `Bearer ${token}` } }),
    );
    expect(await response.json()).toMatchObject({
      namespace: "shop",
      role: "holder",
      prefixes: ["billing/"],
      actor: "oidc:worker",
    });
  });
});
