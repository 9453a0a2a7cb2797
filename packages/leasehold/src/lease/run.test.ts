import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { ClosedError } from "./errors.js";
import { HeldLease } from "./held-lease.js";
import { NoLease, type OnUnavailable, type RunOptions, type Work } from "./run.js";

const TTL_MS = 3_000;

function world() {
  const warnings: Record<string, unknown>[] = [];
  const clocked = manualEnv();
  const warn = (fields: Record<string, unknown>) => warnings.push(fields);
  const env = { ...clocked, logger: { ...clocked.logger, warn } as typeof clocked.logger };
  const store = faultyStore(env);
  const options = { env, holder: "a", graceMs: 0, defaults: { ttlMs: TTL_MS } };
  const leases = new LeaseClient(store, options, { close: undefined });
  return { clock: env.clock, store, leases, warnings };
}
const eventsOf = (warnings: readonly Record<string, unknown>[]) =>
  warnings.flatMap(({ event, resource }) => (event === undefined ? [] : [{ event, resource }]));

function workWith(
  leases: LeaseClient,
  how: "run" | "tryRun",
  options: RunOptions,
  work: Work<string, HeldLease | NoLease>,
): Promise<unknown> {
  if (how === "run") return leases.run("r", options, work);
  return leases.tryRun("r", options, work);
}

describe("a store that does not answer", () => {
  it("is waited for by run, unless an option says otherwise", async () => {
    const { leases, store, clock } = world();
    store.faults.acquire = "refuse";
    const running = leases.run("r", (lease) => lease.token);
    await clock.advance(10 * TTL_MS);
    store.faults.acquire = "ok";
    await clock.advance(TTL_MS);
    expect(await running).toBeGreaterThan(0);
  });

  it('ends run after the first attempt with "fail"', async () => {
    const { leases, store, clock } = world();
    store.faults.acquire = "refuse";
    const running = leases.run("r", { onUnavailable: "fail" }, () => "never");
    const failed = expect(running).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
    });
    await clock.advance(TTL_MS);
    await failed;
  });

  it('ends a wait for another holder with "fail", too', async () => {
    const { leases, store, clock } = world();
    const held = await leases.acquire("r");
    const running = leases.run("r", { onUnavailable: "fail" }, () => "never");
    const failed = expect(running).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await clock.advance(TTL_MS / 2);
    store.faults.acquire = "refuse";
    await held.release();
    await clock.advance(TTL_MS);
    await failed;
  });

  it('ends run with "fail" also behind a caller of this process who waits', async () => {
    const { leases, store, clock } = world();
    store.faults.acquire = "refuse";
    const waiting = leases.run("r", () => "in the end");
    const running = leases.run("r", { onUnavailable: "fail" }, () => "never");
    const behind = leases.run("r", () => "last");
    const failed = expect(running).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await clock.advance(TTL_MS);
    await failed;
    store.faults.acquire = "ok";
    await clock.advance(TTL_MS);
    expect(await Promise.all([waiting, behind])).toEqual(["in the end", "last"]);
  });

  it.each(["run", "tryRun"] as const)(
    'lets %s work with "unfenced", and marks the lease',
    async (how) => {
      const { leases, store, clock, warnings } = world();
      store.faults.acquire = "refuse";
      const options = { onUnavailable: "unfenced" } as const;
      const running = workWith(leases, how, options, (lease) => {
        expect(lease).toBeInstanceOf(NoLease);
        expect(lease).toMatchObject({
          resource: "r",
          holder: "a",
          isFenced: false,
          isExclusive: false,
        });
        expect(lease.checkAlive()).toBe(true);
        // It ends with the client alone, and is never lost.
        expect(lease.remainingMs()).toBe(Number.POSITIVE_INFINITY);
        expect(lease.onLost(() => expect.unreachable())).not.toThrow();
        expect(() => lease.token).toThrow(
          expect.objectContaining({
            code: "NO_TOKEN",
            resource: "r",
            message: expect.stringContaining("the work runs unfenced: check lease.isFenced"),
          }),
        );
        return "done";
      });
      await clock.advance(TTL_MS);
      expect(await running).toEqual(how === "run" ? "done" : { ran: true, value: "done" });
      expect(eventsOf(warnings)).toEqual([{ event: "lease_unfenced", resource: "r" }]);
    },
  );

  it('releases what it may have granted before the work starts with "unfenced"', async () => {
    const { leases, store, clock } = world();
    store.faults.acquire = "cut";
    const running = leases.run("r", { onUnavailable: "unfenced" }, () => "done");
    await clock.advance(TTL_MS / 2);
    expect(await running).toBe("done");
    const [view] = await store.inner.get([{ namespace: "default", resource: "r" }]);
    expect(view).toMatchObject({ state: "released" });
  });

  it('tells work that runs with "unfenced" to stop when the client closes', async () => {
    const { leases, store, clock } = world();
    store.faults.acquire = "refuse";
    let reason: unknown;
    const running = leases.run("r", { onUnavailable: "unfenced" }, async (lease) => {
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      expect([lease.checkAlive(), lease.remainingMs()]).toEqual([false, 0]);
      reason = lease.signal.reason;
    });
    await clock.advance(TTL_MS);
    await Promise.all([leases.close(), running]);
    expect(reason).toBeInstanceOf(ClosedError);
  });
});

it('"unfenced" work holds a lease wherever there is one', async () => {
  const { leases, warnings } = world();
  await leases.run("r", { onUnavailable: "unfenced" }, async (lease) => {
    expect(lease).toBeInstanceOf(HeldLease);
    expect(lease.isFenced && lease.token).toBeGreaterThan(0);
    // A lease held by another client is no outage.
    const second = await leases.tryRun("r", { onUnavailable: "unfenced" }, () => "never");
    expect(second).toMatchObject({ ran: false, holder: "a" });
  });
  expect(eventsOf(warnings)).toEqual([]);
});

it.each(["run", "tryRun"] as const)("%s refuses a policy that it does not know", async (how) => {
  const { leases } = world();
  const options = { onUnavailable: (how === "run" ? "ignore" : "wait") as OnUnavailable };
  await expect(workWith(leases, how, options, () => "never")).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "onUnavailable",
  });
});

it("takes options that are left out, and says which policies there are", async () => {
  const { leases } = world();
  expect(await leases.run("r", undefined as never, () => "done")).toBe("done");
  const wrong = leases.run("r", 7 as never, () => "never");
  await expect(wrong).rejects.toMatchObject({ code: "INVALID_OPTION", path: "options" });
  const options = { onUnavailable: "ignore" as OnUnavailable };
  await expect(leases.tryRun("r", options, () => "never")).rejects.toThrow(
    'must be "fail" or "unfenced" here',
  );
});

it("acquire, which cannot answer without a lease, does not know policies", async () => {
  const { leases } = world();
  const options = { onUnavailable: "unfenced" };
  await expect(leases.acquire("r", options as never)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "onUnavailable",
  });
});
