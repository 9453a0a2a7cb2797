import { StoreUnavailableError } from "leasehold";
import { BUDGET_HEADER } from "leasehold/internal/wire";
import { manualEnv } from "leasehold/testing";
import { expect, it, vi } from "vitest";
import { type Asked, openApp, openTestApp } from "../../../../../tests/support/server/app.js";
import { recordedTelemetry } from "../../../../../tests/support/worlds/recorded-telemetry.js";

async function hold(ask: Asked["ask"], resource: string): Promise<void> {
  const { body } = await ask("POST", "/v1/locks/acquire", {
    resource,
    ownerId: "h",
    ttlMs: 60_000,
  });
  expect(body.acquired).toBe(true);
}

/** The entries, the oldest first. */
async function entriesOf({ stores }: Asked) {
  const entries = (await stores.control?.audit.read(0, 1_000)) ?? [];
  return entries.map(({ phase, target, reason, details }) => ({
    phase,
    target,
    reason,
    details: JSON.parse(details) as object,
  }));
}

it("enters the resources without a record once, however many a request names", async () => {
  const asked = await openTestApp();
  const { ask } = asked;
  await hold(ask, "held");
  const missing = Array.from({ length: 99 }, (_, n) => `missing ${n}`);
  const requests = ["held", ...missing].map((resource) => ({ resource, reason: "test" }));
  const { status, body } = await ask("POST", "/v1/leases/revoke", requests);
  expect(status).toBe(200);
  expect(body.map((outcome: { status: string }) => outcome.status)).toEqual([
    "revoked",
    ...missing.map(() => "notHeld"),
  ]);
  expect(await entriesOf(asked)).toMatchObject([
    {
      phase: "done",
      target: "",
      reason: "test",
      details: { status: "notHeld", resources: missing },
    },
    { phase: "intent", target: "held" },
    { phase: "result", target: "held", details: { status: "revoked" } },
  ]);

  const others = ["x", "y"].map((resource) => ({ resource, reason: `of ${resource}` }));
  await ask("POST", "/v1/leases/revoke", others);
  expect((await entriesOf(asked)).at(-1)).toMatchObject({
    reason: null,
    details: {
      resources: [
        { resource: "x", reason: "of x" },
        { resource: "y", reason: "of y" },
      ],
    },
  });
  await ask("POST", "/v1/leases/revoke", [{ resource: "alone", reason: "test" }]);
  expect((await entriesOf(asked)).at(-1)).toMatchObject({ phase: "result", target: "alone" });
});

it("refuses more than a hundred revocations, and enters none", async () => {
  const asked = await openTestApp();
  const requests = Array.from({ length: 101 }, (_, n) => ({ resource: `r-${n}`, reason: "test" }));
  const { status } = await asked.ask("POST", "/v1/leases/revoke", requests);
  expect(status).toBe(422);
  expect(await entriesOf(asked)).toEqual([]);
});

it("begins no revocation after the client has disconnected", async () => {
  const asked = await openTestApp();
  const { ask, stores } = asked;
  for (const resource of ["a", "b", "c"]) await hold(ask, resource);
  const { control } = stores;
  if (!control) throw new Error("no control");
  const client = new AbortController();
  const { perform } = control;
  control.perform = async (...args) => {
    const value = await perform(...args);
    client.abort();
    return value;
  };
  const requests = ["a", "b", "c"].map((resource) => ({ resource, reason: "test" }));
  const { signal } = client;
  const { body } = await ask("POST", "/v1/leases/revoke", requests, { signal });
  expect(body).toMatchObject([
    { status: "revoked" },
    { status: "failed", applied: "no" },
    { status: "failed", applied: "no" },
  ]);
  expect((await entriesOf(asked)).map(({ target }) => target)).toEqual(["a", "a"]);
});

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
  for (const resource of ["a", "b"]) await hold(ask, resource);
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

it("counts each revocation by its outcome, also those that have one entry together", async () => {
  const { telemetry, valuesOf } = recordedTelemetry();
  const { ask } = await openTestApp({ env: { ...manualEnv(), telemetry } });
  await hold(ask, "held");
  const revoke = (...resources: string[]) =>
    ask(
      "POST",
      "/v1/leases/revoke",
      resources.map((resource) => ({ resource, free: "now", reason: "test" })),
    );
  await revoke("x", "held", "y");
  await revoke("z");
  const outcomes = valuesOf("leasehold.lease.revokes").map(([of]) => of);
  expect(outcomes.map((of) => (of as { outcome: string }).outcome).toSorted()).toEqual([
    "notHeld",
    "notHeld",
    "notHeld",
    "revoked",
  ]);
});

it.each([
  ["none", "no"],
  ["unknown", "maybe"],
] as const)(
  "enters a revocation that the store failed, with the outcome %s",
  async (outcome, applied) => {
    const asked = await openTestApp();
    const { ask, stores } = asked;
    await hold(ask, "a");
    const error = new StoreUnavailableError("it is down", { outcome });
    const failed = { status: "failed", applied, retryable: true, error } as const;
    vi.spyOn(stores.leases, "revoke").mockResolvedValue([failed]);
    const requests = [{ resource: "a", free: "now", expectedToken: 7, reason: "test" }];
    const { body } = await ask("POST", "/v1/leases/revoke", requests);
    expect(body).toMatchObject([{ status: "failed", applied }]);
    const { code } = error;
    const details = { free: "now", expectedToken: 7, status: "failed", applied, code };
    expect((await entriesOf(asked)).at(-1)).toMatchObject({ phase: "result", details });
  },
);
