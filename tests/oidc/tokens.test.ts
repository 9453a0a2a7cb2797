/** Callers of the API by tokens of a real issuer. */
import { afterEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";
import {
  AUDIENCE,
  describeIssuer,
  type IssuerOptions,
  openIssuer,
} from "../support/server/oidc-issuer.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The clock of the server is that of the issuer, and may be moved on. */
async function open(options: IssuerOptions, roles: readonly string[]) {
  const issuer = await openIssuer(options);
  closing.push(() => issuer.close());
  const env = manualEnv();
  await env.clock.advance(Date.now() - env.clock.wall());
  const stores: Stores = await memory().open(systemEnv);
  closing.push(() => stores.close());
  const oidc = { issuer: issuer.url, audience: AUDIENCE, roles, tenantClaim: "org" };
  const app = createApp({ ...stores, env, version: "1", oidc });
  closing.push(() => app.close());
  const ask = (token: string, path = "/v1/whoami", method = "GET", body?: object) =>
    app.fetch(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body && { "content-type": "application/json" }),
        },
        ...(body && { body: JSON.stringify(body) }),
      }),
    );
  return { issuer, env, stores, app, ask };
}

const CLAIMS = { org: "shop", groups: ["workers", "ops"] };
const HOLDER = "groups:workers=holder,prefix=billing/";

describeIssuer("tokens of an issuer", () => {
  it("gives the role and the tenant of its claims", async () => {
    const { issuer, ask, stores } = await open({ claims: CLAIMS }, [HOLDER]);
    const token = await issuer.token();
    expect(await (await ask(token)).json()).toMatchObject({
      namespace: "shop",
      role: "holder",
      prefixes: ["billing/"],
      actor: "oidc:worker",
    });
    const acquire = (resource: string) =>
      ask(token, "/v1/locks/acquire", "POST", { resource, ownerId: "h", ttlMs: 30_000 });
    expect((await acquire("billing/a")).status).toBe(200);
    expect((await acquire("other")).status).toBe(403);
    const [lease] = await stores.leases.get([{ namespace: "shop", resource: "billing/a" }]);
    expect(lease).toMatchObject({ holder: "h" });
  });

  it("limits an operator to the prefixes and queues of its rule", async () => {
    const rule = "groups:ops=operator,prefix=shop/,queue=mails";
    const { issuer, ask, stores } = await open({ claims: CLAIMS }, [rule]);
    const token = await issuer.token();
    const held = ["shop/a", "pay/a"].map((resource, index) => {
      const leaseId = `${index}`.repeat(48);
      return { namespace: "shop", resource, leaseId, holder: "h", ttlMs: 60_000 };
    });
    await stores.leases.acquire(held);
    const revoke = (resource: string) =>
      ask(token, "/v1/leases/revoke", "POST", [{ resource, reason: "it hangs" }] as object);
    expect(await (await revoke("shop/a")).json()).toMatchObject([{ status: "revoked" }]);
    const refused = await revoke("pay/a");
    expect([refused.status, await refused.json()]).toMatchObject([
      403,
      {
        detail:
          'not resources that begin with "pay/a": a rule of --oidc-role limits your identity to resources that begin with "shop/" and the queues "mails"',
      },
    ]);
    const bulk = (queue: string) =>
      ask(token, "/api/tasks/bulk", "POST", {
        operation: "cancel",
        filter: { queue },
        reason: "r",
      });
    expect((await bulk("mails")).status).toBe(200);
    expect((await bulk("bills")).status).toBe(403);
    const asHolder = await ask(token, "/v1/locks/acquire", "POST", {
      resource: "shop/b",
      ownerId: "h",
    });
    expect([asHolder.status, await asHolder.json()]).toMatchObject([
      403,
      { detail: expect.stringContaining("your identity has the role operator here") as string },
    ]);
  });

  it("names the subject in the audit", async () => {
    const { issuer, ask, stores } = await open({ claims: CLAIMS }, ["groups:ops=operator"]);
    const stopped = await ask(await issuer.token(), "/api/generator/stop?reason=noise", "POST");
    expect(stopped.status).toBe(200);
    const page = await stores.control?.audit.list({ namespace: "shop" });
    expect(page?.items[0]).toMatchObject({ actor: "oidc:worker", reason: "noise" });
  });

  it.each([
    ["no rule", CLAIMS, ["groups:admins=admin"]],
    ["no tenant", { groups: ["workers"] }, [HOLDER]],
  ])("gives no access to claims that match %s", async (_, claims, roles) => {
    const { issuer, ask } = await open({ claims }, roles);
    const response = await ask(await issuer.token());
    expect([response.status, await response.json()]).toMatchObject([403, { code: "FORBIDDEN" }]);
  });

  it("refuses tokens for others, and those that have ended", async () => {
    const { issuer, ask, env } = await open({ claims: CLAIMS }, [HOLDER]);
    const other = await ask(await issuer.token({ audience: "urn:other" }));
    expect([other.status, await other.json()]).toMatchObject([
      401,
      { code: "UNAUTHENTICATED", detail: "the token is for another audience" },
    ]);
    expect(other.headers.get("www-authenticate")).toContain("invalid_token");
    const token = await issuer.token();
    expect((await ask(token)).status).toBe(200);
    await env.clock.advance(120_000);
    const late = await ask(token);
    expect([late.status, await late.json()]).toMatchObject([
      401,
      { detail: "the token has expired" },
    ]);
  });

  it("goes on with a new key of the issuer, and through an outage", async () => {
    const { issuer, ask, env } = await open({ claims: CLAIMS, tokenSeconds: 3_600 }, [HOLDER]);
    const first = await issuer.token();
    expect((await ask(first)).status).toBe(200);
    await issuer.rotate();
    const second = await issuer.token();
    await env.clock.advance(5_000);
    expect((await ask(second)).status).toBe(200);
    await env.clock.advance(5_000);
    // Its key is no longer published.
    expect((await ask(first)).status).toBe(401);
    issuer.down();
    await env.clock.advance(600_000);
    expect((await ask(second)).status).toBe(200);
  });

  it("ends streams with their token", async () => {
    const { issuer, ask, env } = await open({ claims: CLAIMS }, [HOLDER]);
    const response = await ask(await issuer.token(), "/v1/events?of=leases");
    const reader = response.body?.getReader();
    await reader?.read();
    const texts: string[] = [];
    const ended = (async () => {
      for (;;) {
        const chunk = await reader?.read();
        if (!chunk || chunk.done) return true;
        texts.push(new TextDecoder().decode(chunk.value));
      }
    })();
    await env.clock.advance(60_000);
    expect(texts.length).toBeGreaterThan(0);
    await env.clock.advance(10_000);
    expect(await ended).toBe(true);
  });
});
