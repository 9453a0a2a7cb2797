/** What every store does while its server is stopped and killed, and while answers and connections are lost. */
import { describe, expect, it } from "vitest";
import { grantIdOf } from "../../../packages/leasehold/src/env/index.js";
import { only } from "../../../packages/leasehold/src/testing/calls.js";
import { until } from "../../../packages/leasehold/src/testing/waiting.js";
import { describeUnless } from "../engines/postgres.js";
import {
  type Call,
  type FaultyServer,
  MAYBE_APPLIED,
  NOT_APPLIED,
  type StoreEngine,
} from "./engines.js";
import {
  acquired,
  BRIEF,
  laterIn,
  openBehind,
  openStore,
  request,
  rivalOf,
  settled,
  view,
} from "./server.js";

export function storeFaults(engine: StoreEngine, sharedServer: () => FaultyServer): void {
  const RECOVERIES: Readonly<Record<string, (server: FaultyServer) => Promise<void>>> = {
    "that stands still for a while": async (server) => server.process?.cont(),
    "that is killed and comes back": async (server) => {
      await server.kill9();
      await server.start();
    },
  };
  describeUnless(engine.untouchable, "a server", () => {
    describe.each(Object.entries(RECOVERIES))("%s", (_, recover) => {
      it("in the middle of acquire, renewal and release does each once", async (context) => {
        const server = sharedServer();
        const store = await openStore(server, laterIn(context));
        // What a first call prepares is at hand.
        await acquired(store, request());

        const asked = request();
        await server.process?.stop();
        const { unanswered } = engine;
        expect(only(await store.acquire([asked], BRIEF))).toMatchObject(unanswered.acquire);
        await recover(server);
        const first = await settled(() => store.acquire([asked], BRIEF));
        if (first.status !== "acquired") throw new Error(first.status);
        const found = await view(store, asked);
        expect(found).toMatchObject({ state: "live", grantId: grantIdOf(asked.leaseId) });
        expect(first.token).toBe(found?.token);

        // Where renewals have a connection of their own, it is open.
        await settled(() => store.renew([asked], BRIEF));
        await server.process?.stop();
        expect(only(await store.renew([asked], BRIEF))).toMatchObject(unanswered.renew);
        await recover(server);
        const renewed = await settled(() => store.renew([asked], BRIEF));
        expect(renewed).toMatchObject({ status: "renewed", token: first.token });

        await server.process?.stop();
        expect(only(await store.release([asked], BRIEF))).toMatchObject(unanswered.release);
        await recover(server);
        expect(await settled(() => store.release([asked], BRIEF))).toEqual({ status: "released" });
        const second = await settled(() => store.acquire([rivalOf(asked)], BRIEF));
        if (second.status !== "acquired") throw new Error(second.status);
        expect(second.token).toBeGreaterThan(first.token);
        // The first one's acquire, late.
        expect(only(await store.acquire([asked]))).toMatchObject({ status: "held" });
      });
    });

    it("that cannot be reached has done nothing, and is not asked later", async (context) => {
      const server = sharedServer();
      const later = laterIn(context);
      const store = await openStore(server, later);
      const asked = request();
      if (engine.knowsDeadAtOnce) {
        await server.kill9();
        expect(only(await store.acquire([asked], BRIEF))).toMatchObject(NOT_APPLIED);
        await server.start();
      } else {
        const behind = await openBehind(server, later, engine.askingTtlMs);
        await server.kill9();
        // The outcome is unknown until the client knows that its connection is gone.
        await until(expect, "a failure that changes nothing", async () => {
          const outcome = only(await behind.store.acquire([asked], BRIEF));
          return outcome.status === "failed" && outcome.applied === "no";
        });
        await server.start();
        await settled(() => behind.store.acquire([request()], BRIEF));
      }
      // This one has lost its connection as well.
      await settled(() => store.acquire([request()], BRIEF));
      expect(await view(store, asked)).toBe(null);
    });
  });

  describe("a network", () => {
    it("that loses answers repeats nothing that was done", async (context) => {
      const server = sharedServer();
      const later = laterIn(context);
      const { proxy, store } = await openBehind(server, later);
      await acquired(store, request());
      const asked = request();
      let token: number | undefined;
      for (const [call, status] of Object.entries(STATUSES) as [Call, string][]) {
        const repeats = engine.repeats.includes(call);
        const options = repeats ? undefined : BRIEF;
        const make = async (): Promise<{ readonly status: string }> =>
          only<{ readonly status: string }>(await store[call]([asked], options));
        for (let answer = 0; answer < engine.answers; answer += 1) {
          const dropped = proxy.dropNextAnswer();
          const outcome = await make();
          await dropped;
          expect(outcome).toMatchObject(repeats ? { status } : MAYBE_APPLIED);
          if (!repeats) proxy.heal();
        }
        expect(await settled(async () => [await make()])).toMatchObject({ status });
        const { token: granted } = (await view(store, asked)) ?? {};
        expect(granted).toBe((token ??= granted));
      }
      const direct = await openStore(server, later);
      expect(await view(direct, asked)).toMatchObject({ state: "released", token });
    });

    it("that falls silent is left for a new connection, which has what the old one had", async (context) => {
      const ttlMs = engine.silentTtlMs;
      const { proxy, store } = await openBehind(sharedServer(), laterIn(context), ttlMs);
      const asked = request(ttlMs);
      const { token } = await acquired(store, asked);
      for (const connection of proxy.connections) {
        connection.blackhole("toServer");
        connection.blackhole("toClient");
      }
      const renewed = await settled(() => store.renew([asked], BRIEF));
      expect(renewed).toMatchObject({ status: "renewed", token });
      const other = await settled(() => store.acquire([request()], BRIEF));
      expect(other).toMatchObject({ status: "acquired" });
    });
  });
}

const STATUSES: Readonly<Record<Call, string>> = {
  acquire: "acquired",
  renew: "renewed",
  release: "released",
};
