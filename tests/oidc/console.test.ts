/** The console signs people in by a real issuer, in a browser. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeChromium } from "../support/chromium.js";
import { type Console, openConsole } from "../support/console.js";
import {
  AUDIENCE,
  CONSOLE_CLIENT,
  describeIssuer,
  type Issuer,
  openIssuer,
} from "../support/oidc-issuer.js";

/** Signs in on the pages of the issuer. */
async function signInAs(page: Page, name: string): Promise<void> {
  await page.getByPlaceholder("Enter any login").fill(name);
  await page.getByPlaceholder("and password").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

describeIssuer("the console with an issuer", () => {
  describeChromium("in Chromium", () => {
    let issuer: Issuer;
    let console: Console;
    beforeAll(async () => {
      issuer = await openIssuer({ groups: { ada: ["admins"], eve: ["others"] } });
      console = await openConsole({
        auth: "keys",
        oidc: {
          issuer: issuer.url,
          audience: AUDIENCE,
          roles: ["groups:admins=admin"],
          signIn: { clientId: CONSOLE_CLIENT, scope: "openid groups" },
        },
      });
    });
    afterAll(async () => {
      await console?.close();
      await issuer?.close();
    });

    it("signs in, shows who it is, and signs out", async () => {
      const page = await console.open("/leases?q=billing");
      await page.getByRole("link", { name: "Sign in with your account" }).click();
      await signInAs(page, "ada");
      await page.getByRole("heading", { level: 1, name: "Leases" }).waitFor();
      await page.getByText("oidc:ada").waitFor();
      expect(new URL(page.url()).search).toContain("billing");
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("link", { name: "Sign in with your account" }).waitFor();
      await page.close();
    });
  });
});
