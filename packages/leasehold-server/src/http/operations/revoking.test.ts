import { BUDGET_HEADER } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { openApp } from "../../../../../tests/support/app.js";

it("returns an outcome for each request of a batch, also after the budget is spent", async () => {
  const env = manualEnv();
  const { ask, stores, close } = await openApp({ env });
  const { control } = stores;
  if (!control) throw new Error("no control");
  const { perform } = control;
  control.perform = async (...args) => {
    const value = await perform(...args);
    await env.clock.advance(2_000);
    return value;
  };
  const requests = ["a", "b"].map((resource) => ({ resource, free: "now", reason: "test" }));
  const headers = { [BUDGET_HEADER]: "1000" };
  const { status, body } = await ask("POST", "/v1/leases/revoke", requests, { headers });
  expect({ status, body }).toMatchObject({
    status: 200,
    body: [
      { status: "failed", applied: "maybe" },
      { status: "failed", applied: "no" },
    ],
  });
  await close();
});
