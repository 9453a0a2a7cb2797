import { holderLeaseId } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { until } from "../../../../leasehold/src/testing/waiting.js";

const NAMED = { resource: "r", holder: "h" };
const OTHER = { resource: "r", holder: "other" };
const KEY = { namespace: "default", resource: "r" };

test("no list or view shows a caller the nonce from which the lease id derives", async () => {
  const { ask, stores } = await openTestApp();
  /** The nonce and the lease id of a new grant. */
  const grant = async () => {
    expect((await ask("POST", "/api/leases", NAMED)).status).toBe(201);
    const [view] = await stores.leases.get([KEY]);
    const { byHolder } = JSON.parse(view?.metadata ?? "{}") as { byHolder: string };
    expect(byHolder).toMatch(/^[0-9a-f]{16}$/);
    return [byHolder, holderLeaseId("default", "r", "h", byHolder)];
  };
  const secrets = await grant();
  expect((await ask("DELETE", "/api/leases/release", NAMED)).status).toBe(200);
  secrets.push(...(await grant()));
  const history = async () => (await stores.history!.list({ ...KEY, limit: 10 })).items.length;
  await until(expect, "the first grant in the history", async () => (await history()) > 0);

  const answers = await Promise.all([
    ask("POST", "/v1/leases/get", ["r"]),
    ask("GET", "/v1/leases"),
    ask("GET", "/v1/leases?prefix=r"),
    ask("GET", "/v1/locks"),
    ask("GET", `/v1/locks/${toWireLeaseId("r", secrets[3] ?? "")}`),
    ask("GET", "/v1/resource?name=r"),
    ask("GET", "/api/leases"),
    ask("GET", "/api/leases/active"),
    ask("GET", "/api/leases/released"),
    ask("GET", "/v1/overview"),
    ask("GET", "/v1/elections"),
    ask("POST", "/v1/leases/acquire", [
      { leaseId: toWireLeaseId("r", "f".repeat(48)), holder: "other", ttlMs: 5_000 },
    ]),
    ask("POST", "/api/leases", OTHER),
    ask("POST", "/v1/locks/acquire", { resource: "r", ownerId: "other" }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([...Array(12).fill(200), 409, 200]);
  const shown = answers.map(({ body }) => JSON.stringify(body)).join("\n");
  expect(shown).toContain('"metadata":null');
  for (const secret of secrets) expect(shown).not.toContain(secret);
  // The server still knows it.
  expect((await ask("PUT", "/api/leases/renew", NAMED)).status).toBe(200);
});

test.each(['{"byHolder":"me"}', '{"byHolder":"0123456789abcdef","n":1}', "text"])(
  "metadata of other callers is shown as it is: %s",
  async (metadata) => {
    const { ask, stores } = await openTestApp();
    const chosen = { ...KEY, leaseId: "1".repeat(48), holder: "h", ttlMs: 5_000, metadata };
    await stores.leases.acquire([chosen]);
    const { body } = await ask("GET", "/v1/leases");
    expect(body.items).toMatchObject([{ metadata }]);
    // A lease id that does not derive from it cannot be addressed by the name.
    const renewal = await ask("PUT", "/api/leases/renew", NAMED);
    expect(renewal.body.code).toBe("LEASE_ID_REQUIRED");
  },
);
