/** What the options of serve about networks and certificates make of the app and its connections. */
import { Command } from "commander";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { type SecurityOptions, securityOf, withSecurity } from "./serve-security.js";

async function parse(...args: string[]) {
  const command = withSecurity(
    new Command("serve").exitOverride().configureOutput({ writeErr() {} }),
  );
  await command.parseAsync(args, { from: "user" });
  return securityOf(command.opts<SecurityOptions>(), manualEnv());
}

test("without options, all networks are allowed, no proxy is trusted, and there is no TLS", async () => {
  const { app, connections } = await parse();
  expect(app).toEqual({
    clientCertificates: undefined,
    trustedProxies: undefined,
    allowedFrom: undefined,
  });
  expect(connections).toEqual({ tls: undefined, hstsMaxAgeMs: undefined });
});

test("a tenant has its own networks, or else those of the others, or else all", async () => {
  const shop = ["--allow-from", "shop=192.0.2.0/24, 2001:db8::7"];
  const named = await parse(...shop);
  const of = ({ app }: typeof named, tenant: string, address: string) =>
    app.allowedFrom?.(tenant)?.has(address) ?? "any";
  expect(of(named, "shop", "192.0.2.9")).toBe(true);
  expect(of(named, "shop", "2001:db8::7")).toBe(true);
  expect(of(named, "shop", "10.0.0.1")).toBe(false);
  expect(of(named, "blog", "10.0.0.1")).toBe("any");
  const all = await parse("--allow-from", "*=10.0.0.0/8", ...shop);
  expect(of(all, "blog", "10.0.0.1")).toBe(true);
  expect(of(all, "blog", "192.0.2.9")).toBe(false);
  expect(of(all, "shop", "10.0.0.1")).toBe(false);
  expect(of(all, "shop", "192.0.2.9")).toBe(true);
});

test("proxies and the time of https alone are those that are given", async () => {
  const { app, connections } = await parse("--trusted-proxies", "10.0.0.5,::1", "--hsts", "1h");
  const trusted = ["10.0.0.5", "::1", "10.0.0.6"].map((one) => app.trustedProxies?.has(one));
  expect(trusted).toEqual([true, true, false]);
  expect(connections.hstsMaxAgeMs).toBe(3_600_000);
  expect((await parse("--hsts", "0s")).connections.hstsMaxAgeMs).toBe(0);
});

test.each<[string[], RegExp]>([
  [["--allow-from", "shop=10.0.0.1", "--allow-from", "shop=10.0.0.2"], /shop is given more than/],
  [["--allow-from", "=10.0.0.1"], /must be tenant=address/],
  [["--allow-from", "shop=office"], /office/],
  [["--tls-cert", "a.pem"], /--tls-cert needs --tls-key/],
  [["--tls-key", "a.pem"], /--tls-key needs --tls-cert/],
  [["--tls-client-ca", "a.pem"], /--tls-client-ca needs --tls-cert and --tls-key/],
  [["--tls-client-keys", "a"], /--tls-client-keys needs --tls-client-ca/],
  [["--tls-client-optional"], /--tls-client-optional needs --tls-client-ca/],
])("%j is refused", async (args, problem) => {
  await expect(parse(...args)).rejects.toThrow(problem);
});
