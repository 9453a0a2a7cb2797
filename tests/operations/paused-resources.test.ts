/** The store grants no paused resource, and the current holder keeps its lease. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PauseKey } from "../../packages/leasehold/src/control/index.js";
import { newLeaseId, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import type { AcquireRequest } from "../../packages/leasehold/src/lease/index.js";
import {
  CONTROL_ENGINES,
  type OpenedControl,
  type OpenedSql,
} from "../support/engines/control-engines.js";

const namespace = "default";
const PAUSED = { status: "held", holder: "paused", grantId: null, remainingMs: null };
const HELD = { status: "held", holder: "h" };
let resources = 0;

for (const engine of CONTROL_ENGINES) {
  engine.describe(`pauses in ${engine.name}`, () => {
    let opened: OpenedControl;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());

    const fresh = (): PauseKey & { kind: "resource" } => ({
      namespace,
      kind: "resource",
      name: `paused/${++resources}`,
    });
    const act = ({ kind, name }: PauseKey, verb: "pause" | "resume") => ({
      namespace,
      actor: "key:1",
      action: `${kind}.${verb}` as const,
      target: name,
      reason: "freeze",
    });
    const pause = (key: PauseKey, reason = "freeze", actor = "key:1") =>
      opened.control.perform(act(key, "pause"), async ({ pauses }) => ({
        value: await pauses.set({ ...key, actor, reason }),
        details: {},
      }));
    const resume = (key: PauseKey) =>
      opened.control.perform(act(key, "resume"), async ({ pauses }) => ({
        value: await pauses.clear(key),
        details: {},
      }));
    const request = ({ name }: PauseKey, change: Partial<AcquireRequest> = {}): AcquireRequest => ({
      namespace,
      resource: name,
      leaseId: newLeaseId(systemEnv.random),
      holder: "h",
      ttlMs: 60_000,
      ...change,
    });
    const acquire = async (key: PauseKey, change: Partial<AcquireRequest> = {}) => {
      const [outcome] = await opened.leases.acquire([request(key, change)]);
      return outcome;
    };

    it("are kept with who, why and since when, and end once", async () => {
      const { pauses } = opened.control;
      const keys: PauseKey[] = [
        { namespace: "kept", kind: "resource", name: "b" },
        { namespace: "kept", kind: "prefix", name: "" },
        { namespace: "kept", kind: "queue", name: "b" },
      ];
      const beganMs = Date.now();
      for (const key of keys) await pause(key);
      const listed = await pauses.list("kept");
      expect(listed.map(({ kind }) => kind)).toEqual(["prefix", "queue", "resource"]);
      const change = { actor: "key:2", reason: "another reason" };
      const again = await pause(keys[0]!, change.reason, change.actor);
      expect(again).toEqual({ ...listed[2], ...change });
      expect(await pauses.list("kept")).toEqual([listed[0], listed[1], again]);
      expect(Date.parse(again.since)).toBeGreaterThan(beganMs - 60_000);
      expect((await pauses.list(null)).length).toBeGreaterThanOrEqual(3);
      expect(await pauses.list("elsewhere")).toEqual([]);
      for (const key of keys) {
        expect(await resume(key)).toBe(true);
        expect(await resume(key)).toBe(false);
      }
      expect(await pauses.list("kept")).toEqual([]);
    });

    it("keep a resource that was never leased, and create no lease for it", async () => {
      const key = fresh();
      await pause(key);
      expect(await acquire(key)).toEqual(PAUSED);
      expect(await acquire(key, { queueMs: 1_000 })).toEqual({ ...PAUSED, ahead: 0 });
      const { leases } = opened;
      expect(await leases.get([{ namespace, resource: key.name }])).toEqual([null]);
      expect((await leases.list({ namespace, prefix: key.name })).items).toEqual([]);
      const revoke = { namespace, resource: key.name, free: "now" as const };
      expect(await leases.revoke([revoke])).toEqual([{ status: "notHeld" }]);
      await leases.collect(0);
      expect(await acquire(key)).toEqual(PAUSED);
      await resume(key);
      const granted = await acquire(key);
      expect(granted).toMatchObject({ status: "acquired" });
      expect(granted).not.toHaveProperty("replaced");
    });

    it("let its holder renew, ask again and release, and keep it from all others then", async () => {
      const key = fresh();
      const own = request(key);
      const { leases } = opened;
      const [granted] = await leases.acquire([own]);
      const token = granted?.status === "acquired" ? granted.token : 0;
      expect(token).toBeGreaterThan(0);
      await pause(key);
      expect(await leases.acquire([own])).toMatchObject([{ status: "acquired", token }]);
      expect(await acquire(key)).toEqual(PAUSED);
      expect(await leases.renew([own])).toMatchObject([{ status: "renewed", token }]);
      expect(await leases.release([own])).toEqual([{ status: "released" }]);
      expect(await leases.acquire([own])).toEqual([{ status: "ended" }]);
      expect(await acquire(key)).toEqual(PAUSED);
      // Also when all old leases are collected.
      await leases.collect(0);
      expect(await acquire(key)).toEqual(PAUSED);
      await resume(key);
      const next = await acquire(key);
      expect(next).toMatchObject({ status: "acquired" });
      expect(next?.status === "acquired" && next.token).toBeGreaterThan(token);
    });

    it("let an operator end the grant of what is paused", async () => {
      const key = fresh();
      await acquire(key);
      await pause(key);
      const revoke = { namespace, resource: key.name, free: "now" as const };
      expect(await opened.leases.revoke([revoke])).toMatchObject([{ status: "revoked" }]);
      expect(await acquire(key)).toEqual(PAUSED);
    });

    it("decide each request of a batch by itself", async () => {
      const [paused, free] = [fresh(), fresh()];
      await pause(paused);
      const batch = [paused, free, paused, free].map((key) => request(key));
      expect(await opened.leases.acquire(batch)).toMatchObject([
        PAUSED,
        { status: "acquired" },
        PAUSED,
        HELD,
      ]);
    });

    it("are not overtaken by grants that are asked for at the same time", async () => {
      const other = "other" in opened ? (opened as OpenedSql).other.leases : opened.leases;
      for (let round = 0; round < 6; round++) {
        const key = fresh();
        // Half of the rounds on a resource that has been leased before.
        if (round % 2) {
          const earlier = request(key);
          await opened.leases.acquire([earlier]);
          await opened.leases.release([earlier]);
        }
        let isPaused = false;
        const late: unknown[] = [];
        const crowd = Array.from({ length: 6 }, async (_, n) => {
          const store = n % 2 ? other : opened.leases;
          for (let asked = 0; asked < 4; asked++) {
            const wasPaused = isPaused;
            const own = request(key);
            const [outcome] = await store.acquire([own]);
            if (outcome?.status === "acquired") {
              if (wasPaused) late.push(outcome);
              await store.release([own]);
            }
          }
        });
        await pause(key);
        isPaused = true;
        await Promise.all(crowd);
        expect(late).toEqual([]);
        expect(await acquire(key)).toMatchObject(PAUSED);
        await resume(key);
      }
    });

    it("make clients wait, who get it when it is resumed", async () => {
      const key = fresh();
      const leases = await connect({ open: async () => ({ ...opened, close: async () => {} }) });
      await pause(key);
      const order: string[] = [];
      const waiting = leases.acquire(key.name).then((lease) => {
        order.push("acquired");
        return lease;
      });
      // It has asked, and was refused.
      for (let refused = false; !refused; ) {
        const outcome = await acquire(key, { queueMs: 1 });
        refused = outcome?.status === "held" && (outcome.ahead ?? 0) > 0;
      }
      order.push("resumed");
      await resume(key);
      await (await waiting).release();
      expect(order).toEqual(["resumed", "acquired"]);
      await leases.close();
    });
  });
}
