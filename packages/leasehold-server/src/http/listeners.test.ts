/** Listeners of the embedding program and its logger: their errors fail no request. */
import { newLeaseId, silentLogger, systemEnv, systemRandom } from "leasehold/internal";
import { toWireLeaseId } from "leasehold/internal/wire";
import { expect, test, vi } from "vitest";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { THROWN, unreadable } from "../../../../tests/support/worlds/thrown.js";

test.each(THROWN)("a listener that throws %s fails no request, and is logged", async (_, make) => {
  const error = vi.fn();
  const onTaskEvent = () => {
    throw make();
  };
  const onLeaseEvent = async () => {
    throw make();
  };
  const env = { ...systemEnv, logger: { ...silentLogger, error } };
  const { ask } = await openTestApp({ env, onTaskEvent, onLeaseEvent });
  expect(await ask("POST", "/api/tasks", { task_data: 1 })).toMatchObject({ status: 201 });
  const leaseId = toWireLeaseId("billing", newLeaseId(systemRandom));
  const request = { leaseId, holder: "me", ttlMs: 60_000 };
  const taken = await ask("POST", "/v1/leases/acquire", [request]);
  expect(taken.body).toMatchObject([{ status: "acquired" }]);
  await vi.waitFor(() => {
    const listeners = error.mock.calls.map(
      ([fields]) => (fields as { listener?: string }).listener,
    );
    expect(listeners).toEqual(expect.arrayContaining(["onTaskEvent", "onLeaseEvent"]));
  });
});

test("a logger that throws fails no request", async () => {
  const line = () => {
    throw unreadable();
  };
  const logger = { debug: line, info: line, warn: line, error: line };
  const { ask } = await openTestApp({ env: { ...systemEnv, logger } });
  expect(await ask("POST", "/api/tasks", { task_data: 1 })).toMatchObject({ status: 201 });
  expect(await ask("GET", "/api/tasks/none")).toMatchObject({ status: 404 });
});
