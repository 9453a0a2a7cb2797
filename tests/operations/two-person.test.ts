/** Leases that two operators must agree to end, on each store that keeps an audit. */
import { expect, it } from "vitest";
import { rotateKey, verifyAudit } from "../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";
import { newKey } from "../support/browser/console.js";
import { CONTROL_ENGINES } from "../support/engines/control-engines.js";

for (const engine of CONTROL_ENGINES) {
  engine.describe(`two-person revokes on ${engine.name}`, () => {
    it("are requested once, confirmed by another key at another server, and in the audit", async () => {
      const stores = await engine.open();
      const { control } = stores;
      if (!control) throw new Error("no control");
      const options = { ...stores, version: "1", twoPersonRevoke: { prefixes: ["pay/"] } };
      const servers = [createApp(options), createApp(options)] as const;
      const ask = async (server: 0 | 1, key: string, path: string, body?: unknown) => {
        const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
        const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
        const request = new Request(`http://localhost${path}`, { headers, ...init });
        const response = await servers[server].fetch(request);
        return { status: response.status, body: (await response.json()) as never };
      };
      const [ann, bob] = [await newKey(stores, "operator"), await newKey(stores, "admin")];
      const [, id = ""] = ann.split("_");
      const rotation = { namespace: "default", id, overlapMs: 3_600_000 };
      const made = await rotateKey(control, systemEnv.random, rotation, {
        actor: "cli:test",
        reason: null,
      });
      if (!made) throw new Error("not rotated");
      const RESOURCE = { namespace: "default", resource: "pay/eu" };
      const grant = { ...RESOURCE, leaseId: "7".repeat(48), holder: "web-1", ttlMs: 600_000 };
      await stores.leases.acquire([grant]);
      const stateOf = async () => (await stores.leases.get([RESOURCE]))[0]?.state;

      const revoke = [
        { resource: "pay/eu", free: "now", reason: "it hangs" },
        { resource: "pay/eu", free: "now", reason: "it hangs" },
      ];
      const { body: outcomes } = await ask(0, ann, "/v1/leases/revoke", revoke);
      const [requested, repeated] = outcomes as { id: number; token: number; status: string }[];
      expect(requested).toMatchObject({ status: "requested" });
      expect(repeated).toEqual(requested);
      expect(await stateOf()).toBe("live");
      const { token = 0 } = requested ?? {};
      const path = `/v1/revocations/${requested?.id}/confirm`;
      const confirm = { token, free: "now", reason: "I agree" };
      for (const key of [ann, made.text]) {
        expect(await ask(1, key, path, confirm)).toMatchObject({ status: 403 });
      }
      expect(await stateOf()).toBe("live");
      const listed = await ask(1, bob, "/v1/revocations");
      expect(listed.body).toMatchObject({ items: [{ id: requested?.id, resource: "pay/eu" }] });
      const all = await Promise.all([ask(0, bob, path, confirm), ask(1, bob, path, confirm)]);
      expect(all.map(({ status }) => status).toSorted()[0]).toBe(200);
      expect(await stateOf()).toBe("revoked");

      const { items } = await control.audit.list({ namespace: "default", target: "pay/eu" });
      const whys = items.map(({ details }) => (JSON.parse(details) as { why?: string }).why);
      expect(whys).toEqual(expect.arrayContaining(["samePerson", "relatedKey"]));
      expect(await verifyAudit(control.audit)).toMatchObject({ ok: true });
      for (const server of servers) await server.close();
      await stores.close();
    }, 60_000);
  });
}
