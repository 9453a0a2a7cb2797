/** When what an issuer publishes is read, and what the log says of it. */
import { sleep } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
// Loaded before a test moves the clock.
import "jose";
import "openid-client";
import { expect, test } from "vitest";
import { fakeIssuer, ISSUER } from "../../../../../../tests/support/server/fake-issuer.js";
import { Issuer } from "./issuer.js";

/** @param takesMs of each answer */
async function open({ takesMs = 0 } = {}) {
  const logged: string[] = [];
  const log = ({ event }: { event?: string }) => void (event && logged.push(event));
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const published = await fakeIssuer(() => env.clock.wall());
  const redirects: unknown[] = [];
  const fetch: typeof globalThis.fetch = async (...call) => {
    redirects.push(call[1]?.redirect);
    if (takesMs > 0) await sleep(env.clock, takesMs);
    return published.fetch(...call);
  };
  return { env, published, logged, redirects, issuer: new Issuer({ issuer: ISSUER, fetch }, env) };
}

test("the log says once that the issuer is down and once that it is up, in each outage", async () => {
  const { env, published, logged, issuer } = await open();
  await issuer.published();
  for (const isDown of [true, true, false, false, true, true, false]) {
    published.isDown = isDown;
    await env.clock.advance(300_000);
    await issuer.published();
    await env.clock.settle();
  }
  const outage = ["issuer_unavailable", "issuer_available"];
  expect(logged).toEqual([...outage, ...outage]);
});

test("the age of the keys counts from the moment when their read began", async () => {
  const { env, published, issuer } = await open({ takesMs: 2_000 });
  const first = issuer.published();
  await env.clock.advance(2_000);
  await env.clock.advance(2_000);
  expect((await first).atMs).toBe(env.clock.monotonic() - 4_000);
  await env.clock.advance(295_999);
  await issuer.published();
  await env.clock.advance(2_000);
  expect(published.asked).toHaveLength(2);
  await issuer.published();
  await env.clock.advance(2_000);
  expect(published.asked).toHaveLength(3);
});

test("no request to an issuer follows a redirect to another place", async () => {
  const { redirects, issuer } = await open();
  const { configuration } = await issuer.published();
  await issuer.request(configuration.serverMetadata().token_endpoint ?? "", { method: "POST" });
  expect(redirects).toEqual(["error", "error", "error"]);
});
