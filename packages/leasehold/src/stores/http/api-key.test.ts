import { afterEach, expect, test } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { newLeaseId, systemEnv, systemRandom } from "../../env/index.js";
import { connect } from "../../index.js";
import type { LeaseholdError } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { memory } from "../memory/index.js";
import type { Stores } from "../source.js";
import { RefusedKeyError } from "./connection.js";
import { type HttpOptions, http } from "./index.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function open() {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env);
  closing.push(() => tenants.app.close());
  const sent: Headers[] = [];
  const fetch: typeof globalThis.fetch = (url, init) => {
    const request = new Request(url, init);
    sent.push(request.headers);
    return tenants.app.fetch(request);
  };
  const source = (options: Partial<HttpOptions>) =>
    http({ url: "http://server", fetch, ...options });
  const openOver = async (options: Partial<HttpOptions>): Promise<Stores> => {
    const opened = await source(options).open(env);
    closing.unshift(() => opened.close());
    return opened;
  };
  return { ...tenants, stores, env, sent, source, openOver };
}

const request = (resource: string) => ({
  namespace: "a",
  resource,
  leaseId: newLeaseId(systemRandom),
  holder: "h",
  ttlMs: 30_000,
});

test("every request carries the key from the options or from the URL", async () => {
  const { newKey, openOver, sent } = await open();
  const { text } = await newKey("a", "admin");
  for (const options of [{ apiKey: text }, { url: `http://${text}@server` }]) {
    const { leases, tasks } = await openOver(options);
    await leases.acquire([request(JSON.stringify(options).slice(0, 9))]);
    await tasks.counts("a");
  }
  expect(sent).toHaveLength(6);
  for (const headers of sent) expect(headers.get("authorization")).toBe(`Bearer ${text}`);
});

test.each([
  [401, "UNAUTHENTICATED", /option apiKey.*KEY@host.*LEASEHOLD_KEY/],
  [403, "FORBIDDEN", /a viewer's key cannot do this: use a key of admin$/],
])(
  "%i is reported as a misconfiguration with a remedy, without the key",
  async (status, code, remedy) => {
    const { newKey, openOver } = await open();
    const { text } = await newKey("a", "viewer");
    const wrong = `${text.slice(0, -4)}${text.endsWith("0000") ? "1111" : "0000"}`;
    const asked =
      status === 401
        ? openOver({ apiKey: wrong })
        : openOver({ apiKey: text }).then(({ leases }) => leases.collect(1));
    const error = (await asked.catch((caught: unknown) => caught)) as LeaseholdError;
    expect(error).toMatchObject({
      name: "StoreMisconfiguredError",
      code: "STORE_MISCONFIGURED",
      retryable: false,
      outcome: "none",
    });
    expect(error.message).toContain(code);
    expect(error.message).toMatch(remedy);
    const said = [error.message, JSON.stringify(error), error.stack].join("\n");
    for (const key of [text, wrong]) expect(said).not.toContain(key.slice(-32));
  },
);

test("the client takes its key's namespace; the same name is right, another is refused", async () => {
  const { newKey, stores, source, env } = await open();
  const { text } = await newKey("good", "admin");
  for (const options of [{}, { namespace: "good" }]) {
    const leasehold = await connect(source({ apiKey: text }), { ...options, env });
    expect(leasehold.namespace).toBe("good");
    const lease = await leasehold.acquire("r");
    const key = { namespace: "good", resource: "r" };
    expect(await stores.leases.get([key])).toMatchObject([{ token: lease.token }]);
    expect(await leasehold.tasks.counts()).toMatchObject({ pending: 0 });
    await lease.release();
    await leasehold.close();
  }
  for (const [first, options] of [
    [source({ apiKey: text }), { namespace: "bad" }],
    [memory(), { namespace: "bad", tasks: source({ apiKey: text }) }],
  ] as const) {
    await expect(connect(first, { ...options, env })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "namespace",
      message: expect.stringMatching(/must be "good".*not "bad"/),
    });
  }
});

test("a forbidden resource in a batch fails alone", async () => {
  const { newKey, openOver } = await open();
  const { text } = await newKey("a", "holder", { prefixes: ["own/"] });
  const { leases } = await openOver({ apiKey: text });
  const resources = ["own/1", "other", "own/2", "own/3"];
  const outcomes = await leases.acquire(resources.map(request));
  expect(outcomes.map(({ status }) => status)).toEqual([
    "acquired",
    "failed",
    "acquired",
    "acquired",
  ]);
  expect(outcomes[1]).toMatchObject({
    applied: "no",
    retryable: false,
    error: { code: "STORE_MISCONFIGURED" },
  });
});

test("the client follows no redirect, so that the key stays with its server", async () => {
  const asked: (string | null)[] = [];
  const fetch: typeof globalThis.fetch = async (url, init) => {
    asked.push(new URL(url).host);
    expect(init?.redirect).toBe("manual");
    return Response.redirect("http://elsewhere/v1/capabilities", 307);
  };
  const apiKey = `lh_${"0".repeat(12)}_${"0".repeat(32)}`;
  const opening = http({ url: "http://server", apiKey, fetch }).open(systemEnv);
  await expect(opening).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
  expect(asked).toEqual(["server"]);
});

test.each([
  [{ apiKey: "lh_a\nb-secret" }, "apiKey"],
  [{ apiKey: "" }, "apiKey"],
  [{ url: "http://a:b-secret@server" }, "url"],
  [{ url: "http://%ff-secret@server" }, "url"],
])("rejects %o without quoting it", (options, path) => {
  const make = () => http({ url: "http://server", ...options });
  expect(make).toThrow(expect.objectContaining({ code: "INVALID_OPTION", path }));
  expect(make).not.toThrow(/secret/);
});

test("the audit records an operator's reason for a revocation", async () => {
  const { newKey, openOver, stores } = await open();
  const { text } = await newKey("a", "admin");
  const { leases } = await openOver({ apiKey: text });
  await leases.acquire([request("r")]);
  const revocation = { namespace: "a", resource: "r", free: "now" } as const;
  expect(await leases.revoke([revocation])).toMatchObject([{ status: "failed", applied: "no" }]);
  expect(await leases.revoke([{ ...revocation, reason: "it hangs" }])).toMatchObject([
    { status: "revoked" },
  ]);
  const page = await stores.control?.audit.list({ namespace: "a", actions: ["lease.revoke"] });
  expect(page?.items[0]).toMatchObject({ target: "r", reason: "it hangs" });
});

test.each([
  ["no API key is assigned to this client certificate", /; assign an existing key to it in/],
  ["the key of this client certificate does not exist", /; assign an existing key to it in/],
  ["the client certificate of this connection has expired", /; name one by \?cert= and \?key=/],
  ["no such key", /; pass a valid key in the option apiKey/],
  // What the server says already is not contradicted.
  ["no such key: this server requires no API key. Send none", /Send none$/],
  ["the token is bound to a key of its client: get one that is not", /is not$/],
] as const)("401 with %j has its own remedy", (detail, message) => {
  expect(new RefusedKeyError(401, detail).message).toMatch(message);
});

test.each([
  ["without a key, requests must use localhost, not 0.0.0.0", /0\.0\.0\.0$/],
  ["the tenant may not be used from 10.0.0.1: the operator allows other networks", /networks$/],
  ['not resources that begin with "b": this key is limited to "a"', /; use a key or an identity/],
] as const)("403 with %j has its own remedy", (detail, message) => {
  expect(new RefusedKeyError(403, detail).message).toMatch(message);
});

test("a server that requires a client certificate asks for one, and not for another key", () => {
  const { message } = new RefusedKeyError(401, "this server requires a client certificate");
  expect(message).toContain("name one by ?cert= and ?key= of the URL");
  expect(message).not.toContain("LEASEHOLD_KEY");
});
