/** When etcd ends what this process has asked it to keep, as far as this process can know. */
import { expect, it } from "vitest";
import { scripted } from "../../../../../tests/support/worlds/etcd-transport.js";
import { manualEnv } from "../../testing/index.js";
import { EtcdClient } from "./connection.js";
import type { RequestOf } from "./connection-api.js";
import { EngineLeases } from "./engine-leases.js";
import { unavailable } from "./failures.js";

/** An etcd whose answers take some time. */
function open(answerMs: number) {
  const env = manualEnv();
  const etcd = { isDown: false };
  let granted = 0;
  const transport = scripted(async (_endpoint, _method, body) => {
    if (etcd.isDown) throw unavailable("it is down", "none", "unreachable");
    granted += 1;
    const answer = { ID: String(granted), TTL: (body as RequestOf<"LeaseGrant">).TTL };
    await new Promise<void>((resolve) => env.clock.timer(answerMs, resolve));
    return answer;
  });
  const client = new EtcdClient({
    endpoints: ["http://etcd:2379"],
    user: null,
    transport,
    env,
  });
  return { env, etcd, leases: new EngineLeases(client), granted: () => granted };
}

it("counts the end of an engine lease from before the call, however late the answer is", async () => {
  const { env, leases } = open(900);
  const taking = leases.take(5_000, 60_000);
  await env.clock.advance(900);
  const { id, endsMs } = await taking;
  // Five seconds and the spare one, from when the call was sent.
  expect(endsMs).toBe(6_000);
  expect(leases.knownMs(id)).toBe(5_100);
});

it("takes one engine lease for all keys of a second, and a fresh one after it", async () => {
  const { env, leases, granted } = open(0);
  const take = async () => {
    const taking = leases.take(5_000, 60_000);
    await env.clock.advance(0);
    return (await taking).id;
  };
  const first = await take();
  await env.clock.advance(999);
  expect(await take()).toBe(first);
  expect(granted()).toBe(1);
  await env.clock.advance(2);
  expect(await take()).not.toBe(first);
});

it("asks anew after an engine lease could not be granted", async () => {
  const { env, etcd, leases } = open(0);
  etcd.isDown = true;
  const refused = expect(leases.take(5_000, 1_000)).rejects.toThrow();
  await env.clock.advance(1_000);
  await refused;
  etcd.isDown = false;
  const taking = leases.take(5_000, 60_000);
  await env.clock.advance(0);
  expect((await taking).id).toBe("1");
});
