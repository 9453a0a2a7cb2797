/** From where a tenant may be used, and whose address a request has behind proxies. */
import { manualEnv } from "leasehold/testing";
import { expect, it, test, vi } from "vitest";
import { expectProblem, openTestApp } from "../../../../../tests/support/server/app.js";
import { type AuditLog, createApiKey, type Role } from "../../../../leasehold/src/control/index.js";
import { systemEnv } from "../../../../leasehold/src/env/index.js";
import { type AppOptions, addressList } from "../index.js";
import { clientAddress, plainAddress } from "./client-address.js";
import { Networks } from "./networks.js";

const PROXIES = addressList(["10.0.0.0/8", "2001:db8:1::/48"]);

it.each([
  ["10.0.0.0/8", "10.255.255.255", true],
  ["10.0.0.0/8", "11.0.0.0", false],
  ["10.0.0.0/8", "::ffff:10.1.2.3", true],
  ["10.0.0.0/8", "::ffff:a01:203", true],
  ["::ffff:10.0.0.0/104", "10.1.2.3", true],
  ["::ffff:10.0.0.0/104", "11.1.2.3", false],
  ["192.0.2.7", "192.0.2.7", true],
  ["192.0.2.7", "192.0.2.8", false],
  ["0.0.0.0/0", "192.0.2.8", true],
  ["0.0.0.0/0", "2001:db8::1", false],
  ["::/0", "2001:db8::1", true],
  ["2001:db8::/32", "2001:db8:ffff::1", true],
  ["2001:db8::/32", "2001:DB8:0:0:0:0:0:1", true],
  ["2001:db8::/32", "2001:db9::1", false],
  ["2001:db8::7", "2001:db8::7", true],
  ["2001:db8::7", "2001:db8::8", false],
  ["fe80::/10", "fe80::1%eth0", true],
  ["10.0.0.0/8", "none", false],
  ["10.0.0.0/8", "", false],
])("%s has %s: %s", (range, address, has) => {
  expect(addressList([range]).has(address)).toBe(has);
});

it.each([
  "",
  "10.0.0.0/33",
  "10.0.0.0/",
  "10.0.0.0/a",
  "10.0.0/8",
  "::/129",
  "::ffff:10.0.0.0/8",
  "fe80::1%eth0",
  "office.example",
])("%j is no address or network", (range) => {
  expect(() => addressList(["192.0.2.7", range])).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION" }),
  );
});

test("IPv4 in IPv6 is IPv4", () => {
  for (const spelled of ["::ffff:192.0.2.7", "::FFFF:c000:207", "0:0:0:0:0:ffff:192.0.2.7"]) {
    expect(plainAddress(spelled)).toBe("192.0.2.7");
  }
  expect(plainAddress("64:ff9b::192.0.2.7")).toBe("64:ff9b::c000:207");
});

it.each<[what: string, remote: string | undefined, forwarded: string | null, string | undefined]>([
  ["no proxy", "203.0.113.9", null, "203.0.113.9"],
  ["a client that forges the header", "203.0.113.9", "10.0.0.1", "203.0.113.9"],
  ["a proxy's own request", "10.0.0.5", null, "10.0.0.5"],
  ["one proxy", "10.0.0.5", "203.0.113.9", "203.0.113.9"],
  ["one proxy, in IPv6", "::ffff:10.0.0.5", "203.0.113.9", "203.0.113.9"],
  ["one proxy and a forged beginning", "10.0.0.5", "192.0.2.1, 203.0.113.9", "203.0.113.9"],
  ["two proxies", "10.0.0.5", "192.0.2.1, 203.0.113.9,10.0.0.6", "203.0.113.9"],
  ["proxies alone", "10.0.0.5", "10.0.0.7, 10.0.0.6", "10.0.0.7"],
  ["a port", "10.0.0.5", "203.0.113.9:4711", "203.0.113.9"],
  ["IPv6", "2001:db8:1::5", "2001:db8::9", "2001:db8::9"],
  ["IPv6 and a port", "10.0.0.5", "[2001:db8::9]:4711", "2001:db8::9"],
  ["what is no address", "10.0.0.5", "unknown", undefined],
  ["an empty header", "10.0.0.5", "", undefined],
  ["what is none at the end", "10.0.0.5", "203.0.113.9, _hidden", undefined],
  ["what is none behind a proxy", "10.0.0.5", "203.0.113, 10.0.0.6", undefined],
  ["a host that tells no address", undefined, "203.0.113.9", undefined],
])("the client behind %s", (_, remote, forwarded, client) => {
  const headers = new Headers(forwarded === null ? {} : { "x-forwarded-for": forwarded });
  expect(clientAddress(headers, remote, PROXIES)).toBe(client);
});

async function openShop(options: Pick<AppOptions, "trustedProxies"> = {}) {
  const office = addressList(["192.0.2.0/24"]);
  const opened = await openTestApp({
    auth: "keys",
    allowedFrom: (tenant) => (tenant === "shop" ? office : undefined),
    ...options,
  });
  const { control } = opened.stores;
  if (!control) throw new Error("memory keeps keys");
  const newKey = async (namespace: string, role: Role = "admin") => {
    const order = { namespace, name: "k", role, prefixes: [], lifetimeMs: null };
    const by = { actor: "test", reason: null };
    return createApiKey(control, systemEnv.random, order, by);
  };
  const from = async (remoteAddress: string | undefined, key: string, headers = {}) => {
    const request = new Request("http://localhost/v1/locks", {
      headers: { authorization: `Bearer ${key}`, ...headers },
    });
    const answer = await opened.app.fetch(request, { remoteAddress });
    const body = (await answer.json()) as { detail: string };
    return { status: answer.status, headers: answer.headers, body };
  };
  const refusals = async () => {
    const { items } = await control.audit.list({ namespace: "shop", actions: ["access.refuse"] });
    return items;
  };
  return { ...opened, newKey, from, refusals };
}

test("a tenant is used from its networks alone, and others from anywhere", async () => {
  const { newKey, from, ask } = await openShop();
  const [shop, blog] = [(await newKey("shop")).text, (await newKey("blog")).text];
  expect((await from("192.0.2.7", shop)).status).toBe(200);
  expect((await from("::ffff:192.0.2.7", shop)).status).toBe(200);
  const refused = await from("198.51.100.1", shop);
  expectProblem(refused, 403, "FORBIDDEN");
  expect(refused.body.detail).toBe(
    'the tenant "shop" may not be used from 198.51.100.1: the operator of this server allows other networks',
  );
  expect((await from(undefined, shop)).status).toBe(403);
  expect((await from("198.51.100.1", blog)).status).toBe(200);
  expect((await ask("GET", "/healthz")).status).toBe(200);
});

test("a host keeps no connection of a key for longer that is used from elsewhere", async () => {
  const { newKey, app } = await openShop();
  const { text } = await newKey("shop");
  const known: string[] = [];
  for (const remoteAddress of ["198.51.100.1", "192.0.2.7"]) {
    const request = new Request("http://localhost/v1/locks", {
      headers: { authorization: `Bearer ${text}` },
    });
    await app.fetch(request, { remoteAddress, noteCaller: () => void known.push(remoteAddress) });
  }
  expect(known).toEqual(["192.0.2.7"]);
});

test("a refusal is in the audit once, with the key, the address and the route", async () => {
  const { newKey, from, refusals } = await openShop();
  const { text, key } = await newKey("shop");
  for (let n = 0; n < 3; n += 1) await from("198.51.100.1", text);
  await from("198.51.100.2", text);
  const entries = await refusals();
  expect(entries.map(({ target }) => target)).toEqual(["198.51.100.2", "198.51.100.1"]);
  expect(entries[1]).toMatchObject({
    actor: `key:${key.id}`,
    phase: "done",
    details: '{"route":"GET /v1/locks"}',
  });
});

test("behind a trusted proxy, the address is the client's", async () => {
  const { newKey, from } = await openShop({ trustedProxies: PROXIES });
  const { text } = await newKey("shop");
  const forwarded = (address: string) => ({ "x-forwarded-for": address });
  expect((await from("10.0.0.5", text, forwarded("192.0.2.7"))).status).toBe(200);
  expect((await from("10.0.0.5", text, forwarded("198.51.100.1"))).status).toBe(403);
  expect((await from("10.0.0.5", text, forwarded("nonsense"))).status).toBe(403);
  expect((await from("198.51.100.1", text, forwarded("192.0.2.7"))).status).toBe(403);
});

test("the same refusal is written again after an hour, and a hundred networks of a caller are the most", async () => {
  const { clock } = manualEnv();
  const append = vi.fn(async () => []);
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const networks = new Networks(() => addressList([]), { clock, logger, audit: { append } });
  const caller = {
    namespace: "shop",
    role: "viewer",
    prefixes: [],
    actor: "key:1",
    keyId: "1",
  } as const;
  const refuse = (address: string) =>
    expect(() => networks.check(caller, address, null)).toThrow("may not be used from");
  refuse("198.51.100.1");
  refuse("198.51.100.1");
  expect(append).toHaveBeenCalledTimes(1);
  await clock.advance(3_600_000);
  refuse("198.51.100.1");
  expect(append).toHaveBeenCalledTimes(2);
  for (let n = 0; n < 1_500; n += 1) refuse(`10.0.${n >> 8}.${n & 255}`);
  expect(append).toHaveBeenCalledTimes(101);
  await clock.advance(3_600_000);
  refuse("198.51.100.1");
  expect(append).toHaveBeenCalledTimes(102);
});

test("refusals of one caller do not hide those of other callers and tenants", async () => {
  const { clock } = manualEnv();
  const append = vi.fn(async (_: readonly { readonly actor: string }[]) => []);
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const audit = { append } as unknown as Pick<AuditLog, "append">;
  const networks = new Networks(() => addressList([]), { clock, logger, audit });
  const refuse = (namespace: string, keyId: string, address: string) => {
    const caller = {
      namespace,
      role: "viewer",
      prefixes: [],
      actor: `key:${keyId}`,
      keyId,
    } as const;
    expect(() => networks.check(caller, address, null)).toThrow("may not be used from");
  };
  // One machine can have all of these addresses.
  for (let n = 0; n < 2_000; n += 1) refuse("blog", "1", `2001:db8:0:${n.toString(16)}::1`);
  append.mockClear();
  refuse("blog", "2", "198.51.100.1");
  refuse("shop", "3", "198.51.100.1");
  // Any number of callers of a tenant, too.
  for (let n = 0; n < 2_000; n += 1) refuse("blog", `more-${n}`, "198.51.100.1");
  refuse("shop", "4", "198.51.100.1");
  const actors = append.mock.calls.map(([[entry]]) => entry?.actor);
  expect(actors).toContain("key:2");
  expect(actors).toContain("key:3");
  expect(actors).toContain("key:4");
  // Of blog, what is left of 1,000.
  expect(actors).toHaveLength(900 + 2);
  await clock.advance(3_600_000);
  append.mockClear();
  refuse("blog", "new", "198.51.100.1");
  expect(append).toHaveBeenCalledTimes(1);
});
