/** Only the whole lease id names a grant or a waiter: its public half, the grant id, is in views and logs. */
import { grantIdOf, newLeaseId, systemRandom } from "../../env/index.js";
import type { AcquireRequest } from "../../lease/index.js";
import { type Fixture, needsQueue, type Section } from "./fixture.js";

export const leaseIds: Section = (test, expect) => {
  test("makes the grant id of the public half of the lease id", async (t) => {
    const held = await t.hold();
    expect((await t.view(held))?.grantId).toBe(held.leaseId.slice(0, 16));
    expect(await t.acquire(t.request(t.key()))).toMatchObject({ status: "held" });
  });

  test("refuses the grant id of a live grant with a wrong secret, and changes nothing", async (t) => {
    const held = await t.hold();
    for (const leaseId of forgeriesOf(held.leaseId)) {
      const forged = { ...held, leaseId, holder: "forger" };
      expect(await t.acquire(forged), leaseId).toMatchObject({ status: "held" });
      expect(await t.renew(forged), leaseId).toEqual({ status: "lost", reason: "taken" });
      expect(await t.release(forged), leaseId).toEqual({ status: "notHeld" });
    }
    const { token } = held.answer;
    expect(await t.view(held)).toMatchObject({ state: "live", holder: held.holder, token });
    expect(await t.renew(held)).toMatchObject({ status: "renewed", token });
    expect(await t.release(held)).toEqual({ status: "released" });
  });

  test("refuses the grant id of an ended grant with a wrong secret", async (t) => {
    const held = await t.hold();
    await t.release(held);
    for (const leaseId of forgeriesOf(held.leaseId)) {
      const forged = { ...held, leaseId };
      expect(await t.renew(forged), leaseId).toMatchObject({ status: "lost" });
      expect(await t.release(forged), leaseId).toEqual({ status: "notHeld" });
    }
    // It is a request for a grant of its own, which the former holder cannot use.
    const [leaseId = ""] = forgeriesOf(held.leaseId);
    const next = await t.hold(t.key(), { leaseId });
    expect(next.answer.token === held.answer.token).toBe(false);
    expect(await t.renew(held)).toEqual({ status: "lost", reason: "taken" });
    expect(await t.release(held)).toEqual({ status: "notHeld" });
    expect(await t.renew(next)).toMatchObject({ status: "renewed" });
  });

  test(
    "refuses the grant id of a waiter with a wrong secret",
    async (t) => {
      const held = await t.hold();
      const [first, second] = [waiterOf(t), waiterOf(t)];
      expect(await t.acquire(first)).toMatchObject({ status: "held", ahead: 0 });
      expect(await t.acquire(second)).toMatchObject({ status: "held", ahead: 1 });
      const [forgedId = "", otherId = ""] = forgeriesOf(first.leaseId);
      // Neither removes the position of the waiter nor takes it.
      expect(await t.release({ ...first, leaseId: forgedId })).toEqual({ status: "notHeld" });
      expect(await t.acquire(second)).toMatchObject({ ahead: 1 });
      expect(await t.acquire({ ...first, leaseId: otherId })).toMatchObject({ ahead: 2 });
      await t.release({ ...first, leaseId: otherId });
      expect(await t.acquire(first)).toMatchObject({ ahead: 0 });
      await t.release(held);
      await t.until("the first waiter has it", async () => {
        return (await t.acquire(first)).status === "acquired";
      });
      expect(await t.acquire(second)).toMatchObject({ status: "held", ahead: 0 });
    },
    needsQueue,
  );
};

/** The public half of a lease id with other secrets. */
function forgeriesOf(leaseId: string): string[] {
  const grantId = grantIdOf(leaseId);
  const others = [newLeaseId(systemRandom).slice(grantId.length), "0".repeat(32)];
  return others.map((secret) => grantId + secret);
}

function waiterOf(t: Fixture): AcquireRequest {
  return t.request(t.key(), { queueMs: 60_000 });
}
