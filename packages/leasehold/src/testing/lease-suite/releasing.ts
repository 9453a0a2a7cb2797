import { newLeaseId, systemRandom } from "../../env/index.js";
import { needsStoreClock, type Section } from "./fixture.js";

export const releasing: Section = (test, expect) => {
  test("frees at once", async (t) => {
    const held = await t.hold();
    expect(await t.release(held)).toEqual({ status: "released" });
    await t.hold();
  });

  test("may be repeated", async (t) => {
    const held = await t.hold();
    expect(await t.release(held)).toEqual({ status: "released" });
    if (t.store.capabilities.clock === "store") {
      expect(await t.release(held)).toEqual({ status: "released" });
    }
    await t.hold();
    expect(await t.release(held)).toEqual({ status: "notHeld" });
  });

  test("goes by lease id: another id frees nothing, even of the same holder", async (t) => {
    const held = await t.hold();
    const stranger = { ...held, leaseId: newLeaseId(systemRandom) };
    expect(await t.release(stranger)).toEqual({ status: "notHeld" });
    expect(await t.acquire(t.request(t.key()))).toMatchObject({ status: "held" });
    expect(await t.renew(held)).toMatchObject({ status: "renewed" });
  });

  test("that comes late does not free the successor", async (t) => {
    const late = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
    await t.expire(late);
    const successor = await t.hold();
    expect(await t.release(late)).toEqual({ status: "notHeld" });
    expect(await t.acquire(t.request(t.key()))).toMatchObject({
      status: "held",
      holder: successor.holder,
    });
    expect(await t.renew(successor)).toMatchObject({ status: "renewed" });
  });

  test(
    "after expiry finds nothing to release",
    async (t) => {
      const held = await t.hold(t.key(), { ttlMs: t.shortTtlMs });
      await t.expire(held);
      expect(await t.release(held)).toEqual({ status: "notHeld" });
    },
    needsStoreClock,
  );

  test("of what was never granted finds nothing", async (t) => {
    expect(await t.release(t.request(t.key()))).toEqual({ status: "notHeld" });
  });

  test("hands back early what was revoked at expiry", async (t) => {
    const held = await t.hold();
    await t.revoke(held, "atExpiry");
    expect(await t.acquire(t.request(t.key()))).toMatchObject({ status: "held" });
    expect(await t.release(held)).toEqual({ status: "released" });
    await t.hold();
  });

  test("after a revoke that freed the key finds nothing", async (t) => {
    const held = await t.hold();
    await t.revoke(held, "now");
    expect(await t.release(held)).toEqual({ status: "notHeld" });
  });
};
