/** How long a session is known to last, and what is said of one that has ended, under a manual clock. */
import { expect, it } from "vitest";
import { silentLogger } from "../../env/index.js";
import { manualEnv } from "../../testing/index.js";
import { ConsulClient } from "./connection.js";
import { addressOf } from "./connection-address.js";
import { Sessions } from "./connection-session.js";

const TTL_MS = 20_000;

/** A Consul whose answers take some time. */
function open({ answerMs = 0, isNeeded = true, query = "" } = {}) {
  const warned: unknown[] = [];
  const logger = { ...silentLogger, warn: (...said: unknown[]) => void warned.push(said) };
  const env = manualEnv({ logger });
  const bodies: unknown[] = [];
  const consul = { isGone: false, made: 0, renewed: 0 };
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    const renews = pathname.startsWith("/v1/session/renew/");
    if (renews) consul.renewed += 1;
    else bodies.push(JSON.parse(String(init?.body)));
    if (pathname === "/v1/catalog/register") return Response.json(true);
    if (!renews) consul.made += 1;
    const answer =
      renews && consul.isGone
        ? new Response("", { status: 404 })
        : Response.json(renews ? [] : { ID: `s${consul.made}` });
    await new Promise<void>((resolve) => env.clock.timer(answerMs, resolve));
    return answer;
  };
  const client = new ConsulClient({
    ...addressOf(`consul://a?sessionTtlMs=${TTL_MS}${query}`),
    fetch,
    env,
  });
  const sessions = new Sessions(client, () => isNeeded);
  const take = async (ttlMs: number) => {
    const taking = sessions.take(ttlMs, client.deadline());
    for (let round = 0; round < 3; round += 1) await env.clock.advance(answerMs);
    return taking;
  };
  return { env, consul, sessions, take, bodies, warned };
}

it("lasts for a TTL from before the call, however late the answer is", async () => {
  const { sessions, take } = open({ answerMs: 900 });
  expect(await take(10_000)).toBe("s1");
  expect(sessions.lastsUntilMs).toBe(TTL_MS);
});

it("has no health checks, and no delay of its locks", async () => {
  const { take, bodies } = open();
  await take(0);
  const made = { NodeChecks: [], LockDelay: "0s", TTL: "20000ms", Behavior: "delete" };
  expect(bodies[1]).toMatchObject(made);
});

it.each([
  ["", {}],
  ["&dc=east", { Datacenter: "east" }],
])("belongs to a node of its own, which it registers first: %j", async (query, datacenter) => {
  const { take, bodies } = open({ query });
  await take(0);
  expect(bodies).toEqual([
    { Node: "leasehold", Address: "127.0.0.1", SkipNodeUpdate: true, ...datacenter },
    expect.objectContaining({ Node: "leasehold" }),
  ]);
});

it("is renewed before a lease that would outlast it, and not for one that does not", async () => {
  const { env, sessions, take, consul } = open({ isNeeded: false });
  await take(15_000);
  await env.clock.advance(4_000);
  await take(15_000);
  expect(consul.renewed).toBe(0);
  await env.clock.advance(4_000);
  await take(15_000);
  expect(consul.renewed).toBe(1);
  expect(sessions.lastsUntilMs).toBe(8_000 + TTL_MS);
});

it.each([
  [true, [[{ store: "Consul at http://a:8500" }, "the session has ended, with all its leases"]]],
  [false, []],
])("warns when it has ended, if anything depended on it: %s", async (isNeeded, expected) => {
  const { env, sessions, take, consul, warned } = open({ isNeeded });
  await take(15_000);
  consul.isGone = true;
  await env.clock.advance(TTL_MS);
  await take(15_000);
  expect(consul.made).toBe(2);
  expect(sessions.id).toBe("s2");
  expect(warned).toEqual(expected);
});
