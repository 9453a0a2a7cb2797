/** What the status of the generator says of the instance that generates. */
import { newLeaseId } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { GENERATOR_RESOURCE } from "./shared.js";

test("the generator is started while it is wanted and an instance has its lease", async () => {
  const env = manualEnv();
  const { ask, stores } = await openTestApp({ env });
  const status = async () => (await ask("GET", "/api/generator")).body;
  const steer = (action: string) => ask("POST", `/api/generator/${action}?reason=test`);
  const none = { holder: null, fencingToken: null, remainingMs: null };
  expect(await status()).toMatchObject({ status: "STOPPED", running: false, ...none });
  expect((await steer("start")).body).toMatchObject({ status: "STOPPED", running: true, ...none });
  const lease = { namespace: "default", resource: GENERATOR_RESOURCE };
  const leaseId = newLeaseId(env.random);
  const [outcome] = await stores.leases.acquire([{ ...lease, leaseId, holder: "g", ttlMs: 5_000 }]);
  if (outcome?.status !== "acquired") throw new Error("it is held");
  await env.clock.advance(1_000);
  const held = { holder: "g", fencingToken: outcome.token, remainingMs: 4_000 };
  expect(await status()).toMatchObject({ status: "STARTED", running: true, ...held });
  expect((await steer("stop")).body).toMatchObject({ status: "STOPPED", running: false, ...held });
  await steer("start");
  await env.clock.advance(4_000);
  expect(await status()).toMatchObject({ status: "STOPPED", running: true, ...none });
});
