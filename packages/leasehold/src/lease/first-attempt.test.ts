/** What a failure, or an abort, between the store's answer and its reader leaves behind. */
import { expect, it } from "vitest";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { LeaseClient } from "./client.js";
import type { ThreadRenewals } from "./thread.js";

const RENEWALS: ThreadRenewals = {
  isRunning: false,
  read: () => undefined,
  renewed() {},
  stop() {},
};

/** A client that calls `onGrant` when a grant becomes a lease: it then hands it to its renewal thread. */
function opened(onGrant: () => void) {
  const { env, clock, store } = leasesWorld();
  const start = () => {
    onGrant();
    return RENEWALS;
  };
  const options = { env, defaults: { ttlMs: LEASE_TTL_MS } };
  const leases = new LeaseClient(store, options, { close: undefined, thread: { start } });
  return { clock, store, leases };
}

it("fails with what its grant fails with, and lets the next caller contend", async () => {
  const failures = [new Error("the thread has ended")];
  const { clock, leases } = opened(() => {
    const failure = failures.shift();
    if (failure) throw failure;
  });
  let reason: unknown;
  void leases.acquire("r").catch((error: unknown) => (reason = error));
  const next = leases.acquire("r");
  await clock.settle();
  expect(reason).toMatchObject({ message: "the thread has ended" });
  // The grant that no caller uses expires.
  await clock.advance(2 * LEASE_TTL_MS);
  expect((await next).token).toBe(2);
});

it("counts an answer that has come before the abort", async () => {
  const abort = new AbortController();
  const { clock, store, leases } = opened(() => abort.abort("too late"));
  const lease = await leases.acquire("r", { signal: abort.signal });
  expect(lease.checkAlive()).toBe(true);
  await lease.release();
  const closing = leases.close();
  await clock.advance(10_000);
  await closing;
  expect(store.calls.release).toBe(1);
});
