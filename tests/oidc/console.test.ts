/** The console signs people in by a real issuer, in a browser. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  createApp,
  type Listening,
  listen,
} from "../../packages/leasehold-server/src/http/index.js";
import { describeChromium } from "../support/browser/chromium.js";
import { axe, type Console, openConsole } from "../support/browser/console.js";
import {
  AUDIENCE,
  CONSOLE_CLIENT,
  describeIssuer,
  type Issuer,
  openIssuer,
} from "../support/server/oidc-issuer.js";
import { TEST_LIMITS } from "../support/server/test-limits.js";

const SIGN_IN = "Sign in with your account";

/** Signs in on the pages of the issuer. */
async function signInAs(page: Page, name: string): Promise<void> {
  await page.getByRole("link", { name: SIGN_IN }).click();
  await page.getByPlaceholder("Enter any login").fill(name);
  await page.getByPlaceholder("and password").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

describeIssuer("the console with an issuer", () => {
  describeChromium("in Chromium", () => {
    let issuer: Issuer;
    let console: Console;
    let other: Listening;
    beforeAll(async () => {
      issuer = await openIssuer({
        idTokenSeconds: 3_600,
        groups: { ada: ["admins"], eve: ["others"] },
      });
      const oidc = {
        issuer: issuer.url,
        audience: AUDIENCE,
        roles: ["groups:admins=admin"],
        signIn: {
          clientId: CONSOLE_CLIENT,
          scope: "openid groups",
          sessionSecrets: ["a secret that both servers have, for tests"],
        },
      };
      console = await openConsole({ auth: "keys", oidc });
      const app = createApp({ ...console.stores, version: "2.0.0", limits: TEST_LIMITS, oidc });
      other = await listen({ app, port: 0 });
    });
    afterAll(async () => {
      await other?.close();
      await console?.close();
      await issuer?.close();
    });

    it("signs in, acts, and signs out", async () => {
      const page = await console.open("/healthz");
      // Of another site than the issuer, as they are in production.
      await page.goto(`${console.url.replace("127.0.0.1", "localhost")}/leases?q=billing`);
      await page.getByRole("link", { name: SIGN_IN }).waitFor();
      expect(await axe(page)).toEqual([]);
      await signInAs(page, "ada");
      await page.getByRole("heading", { level: 1, name: "Leases" }).waitFor();
      await page.getByText("oidc:ada").waitFor();
      expect(new URL(page.url()).search).toContain("billing");
      await page.getByRole("status").getByText("live", { exact: true }).waitFor();

      // No script of the page sees what it is signed in with.
      const stored = "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])";
      const seen = await page.evaluate<string>(stored);
      expect(seen).not.toMatch(/eyJ|leasehold-session|ada/);
      const cookies = await page.context().cookies(page.url());
      expect(cookies.find(({ name }) => name === "leasehold-session")).toMatchObject({
        httpOnly: true,
        sameSite: "Strict",
      });
      expect(cookies.some(({ name }) => name === "leasehold-sign-in")).toBe(false);

      // A write, as the console's pages send it.
      const stopped = await page.evaluate<number>(
        "fetch('/api/generator/stop?reason=noise', { method: 'POST' }).then(({ status }) => status)",
      );
      expect(stopped).toBe(200);
      const page1 = await console.stores.control?.audit.list({ namespace: "default" });
      expect(page1?.items[0]).toMatchObject({ actor: "oidc:ada", reason: "noise" });

      // The cookie is for both servers, as it is for one name.
      const who = await page
        .context()
        .request.get(`${other.url.replace("127.0.0.1", "localhost")}/v1/whoami`, {
          headers: { "sec-fetch-site": "same-origin" },
        });
      expect(await who.json()).toMatchObject({ actor: "oidc:ada", version: "2.0.0" });

      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("link", { name: SIGN_IN }).waitFor();
      await page.reload();
      await page.getByRole("link", { name: SIGN_IN }).waitFor();
      await page.close();
    });

    it("tells a person without a role that there is none", async () => {
      const page = await console.open("/");
      await page.context().clearCookies();
      await page.reload();
      await signInAs(page, "eve");
      await page.getByText("Your account has no role on this server").waitFor();
      expect(new URL(page.url()).hash).toBe("");
      await page.close();
    });

    it("takes a page of another origin for no part of the console", async () => {
      const page = await console.open("/");
      await page.context().clearCookies();
      await page.reload();
      await signInAs(page, "ada");
      await page.getByText("oidc:ada").waitFor();
      // The same name and another port: a browser adds the cookie.
      await page.goto(`${other.url}/healthz`);
      const script = `fetch(${JSON.stringify(console.url)} + "/api/generator/stop?reason=evil", {
        method: "POST", mode: "no-cors", credentials: "include" }).then(() => "sent")`;
      expect(await page.evaluate(script)).toBe("sent");
      const audit = await console.stores.control?.audit.list({ namespace: "default" });
      expect(audit?.items.filter(({ reason }) => reason === "evil")).toEqual([]);
      await page.close();
    });
  });
});
