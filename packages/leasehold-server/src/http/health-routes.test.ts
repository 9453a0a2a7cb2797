/** GET /readyz, which needs no key. */
import { StoreUnavailableError } from "leasehold";
import { memory } from "leasehold/stores/memory";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test } from "vitest";
import { createApp } from "./index.js";

const ADDRESS = "10.1.2.3:5432";

test("the address of a database that fails is in the log, not in the answer", async () => {
  const logged: unknown[] = [];
  const log = (fields: object) => void logged.push(fields);
  const env = manualEnv({ logger: { debug: () => {}, info: log, warn: log, error: log } });
  const stores = await memory().open(env);
  const message = `PostgreSQL failed: connect ECONNREFUSED ${ADDRESS}`;
  const tasks = Object.assign(Object.create(stores.tasks) as typeof stores.tasks, {
    list: () => Promise.reject(new StoreUnavailableError(message, { outcome: "none" })),
  });
  const app = createApp({ ...stores, tasks, env, version: "test", auth: "keys" });
  onTestFinished(async () => {
    await app.close();
    await stores.close();
  });
  const response = await app.fetch(new Request("http://localhost/readyz"));
  const body = (await response.json()) as Record<string, unknown>;
  expect(response.status).toBe(503);
  expect(body).toMatchObject({ code: "STORE_UNAVAILABLE", requestId: expect.any(String) });
  expect(JSON.stringify(body)).not.toContain(ADDRESS);
  expect(logged).toMatchObject([
    { requestId: body.requestId, err: { message: expect.stringContaining(ADDRESS) } },
  ]);
});
