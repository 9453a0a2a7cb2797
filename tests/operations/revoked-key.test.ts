/** A key that is revoked through another instance, while requests with it go on without a pause. */
import { expect, it, onTestFinished } from "vitest";
import { createApiKey } from "../../packages/leasehold/src/control/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";

/** As docs/security.md says. */
const BOUND_MS = 5_000;
const STEP_MS = 50;

it("serves no request with it after 5 s, of holders either", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const limits = { ratePerSecond: null };
  const apps = [0, 1].map(() => createApp({ ...stores, env, limits, version: "test" }));
  const [app, other] = apps;
  onTestFinished(async () => {
    await Promise.all(apps.map((each) => each.close()));
    await stores.close();
  });
  const newKey = (role: "admin" | "holder") =>
    createApiKey(
      control,
      env.random,
      {
        namespace: "n",
        name: role,
        role,
        prefixes: role === "holder" ? [""] : [],
        lifetimeMs: null,
      },
      { actor: "test", reason: null },
    );
  const [stolen, admin] = [await newKey("holder"), await newKey("admin")];
  const ask = (at: typeof app, key: string, method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    return at?.fetch(new Request(`http://x${path}`, { method, headers, ...sent }));
  };
  const leaseId = toWireLeaseId("r", "0".repeat(48));
  const lease = { leaseId, ttlMs: 60_000 };
  const flood = async () => {
    const answers = await Promise.all([
      ask(app, stolen.text, "GET", "/v1/leases"),
      ask(app, stolen.text, "POST", "/v1/leases/renew", [lease]),
    ]);
    return answers.map((answer) => answer?.status);
  };
  const acquired = await ask(app, stolen.text, "POST", "/v1/leases/acquire", [
    { ...lease, holder: "h" },
  ]);
  expect(acquired?.status).toBe(200);
  expect(await flood()).toEqual([200, 200]);
  const revoked = await ask(other, admin.text, "DELETE", `/v1/keys/${stolen.key.id}?reason=stolen`);
  expect(revoked?.status).toBe(200);
  let servedForMs = 0;
  for (let passedMs = 0; passedMs < 4 * BOUND_MS; passedMs += STEP_MS) {
    if ((await flood()).includes(200)) servedForMs = passedMs;
    await env.clock.advance(STEP_MS);
  }
  expect(servedForMs).toBeLessThan(BOUND_MS);
  expect(await flood()).toEqual([401, 401]);
});
