/** Requests that outlive the token of their caller. */
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { fakeIssuer, ISSUER } from "../../../../../../tests/support/server/fake-issuer.js";
import { memory } from "../../../../../leasehold/src/stores/memory/index.js";
import { createApp } from "../../app.js";

/** @returns a fetch with a token that ends in 60 s */
async function open() {
  const env = manualEnv();
  const published = await fakeIssuer(() => env.clock.wall());
  const stores = await memory().open(env);
  const oidc = {
    issuer: ISSUER,
    audience: "leases",
    roles: ["groups:admins=admin"],
    leewayMs: 0,
    fetch: published.fetch,
  };
  const app = createApp({ ...stores, env, version: "1", oidc });
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const exp = Math.floor(env.clock.wall() / 1_000) + 60;
  const token = await published.sign({ groups: ["admins"], exp });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const ask = (path: string, body?: object) =>
    app.fetch(
      new Request(`http://localhost${path}`, {
        headers,
        ...(body && { method: "POST", body: JSON.stringify(body) }),
      }),
    );
  return { env, ask, tasks: stores.tasks };
}

test.each(["/v1/events", "/v1/activity"])("a stream of %s ends with its token", async (path) => {
  const { env, ask } = await open();
  const reader = (await ask(path)).body?.getReader();
  let ended = false;
  const reading = (async () => {
    while ((await reader?.read())?.done === false);
    ended = true;
  })();
  await env.clock.advance(58_000);
  expect(ended).toBe(false);
  await env.clock.advance(4_000);
  await reading;
  expect(ended).toBe(true);
});

test("so does a wait for tasks", async () => {
  const { env, ask, tasks } = await open();
  const claim = vi.spyOn(tasks, "claim");
  // So that the token is known.
  expect((await ask("/v1/whoami")).status).toBe(200);
  await env.clock.advance(50_000);
  const waiting = ask("/api/tasks/next", { processor: "w", waitMs: 30_000 });
  await vi.waitUntil(() => claim.mock.calls.length > 0);
  await env.clock.advance(12_000);
  const answer = await waiting;
  expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining("expired")]);
});
