/** How Consul is reached: URLs, ACLs and rights, and what leases of one session cost. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { connect } from "../../packages/leasehold/src/index.js";
import { consul } from "../../packages/leasehold/src/stores/consul/index.js";
import {
  type ConsulServer,
  describeConsul,
  startConsul,
} from "../support/engines/consul-engine.js";
import { checkBuild, leasehold } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";

describe("a URL of Consul", () => {
  it.each([
    [
      "consul://",
      "url must be like consul://host:8500/prefix, with an ACL token as ?token= and not before the host",
    ],
    [
      "consul://token@a",
      "url must be like consul://host:8500/prefix, with an ACL token as ?token= and not before the host",
    ],
    [
      "consul://a:x",
      "url must name hosts like host:8500, separated by commas, with ports from 1 to 65535",
    ],
    [
      "consul://a,,b",
      "url must name hosts like host:8500, separated by commas, with ports from 1 to 65535",
    ],
    ["consul://a/%zz", "url must have its path percent-encoded"],
    ["consul://a?tls=maybe", 'url: ?tls must be "true" or "false"'],
    ["consul://a?format=consul", 'url: ?format must be "consul-lock"'],
  ])("%s is refused", (url, message) => {
    expect(() => consul({ url })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message }),
    );
  });

  it.each(["9999", "86400001", "x", ""])("refuses a session of %s ms", (ms) => {
    expect(() => consul({ url: `consul://a?sessionTtlMs=${ms}` })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", path: "url: ?sessionTtlMs" }),
    );
  });

  it.each([
    ["consul://a", "http://a:8500"],
    ["consul://a:80", "http://a"],
    ["consuls://a:443", "https://a"],
    ["consuls://a", "https://a:8501"],
    ["consul://a?tls", "https://a:8501"],
    ["consul://[::1]:8500/some/path?dc=east&token=secret", "http://[::1]:8500"],
  ])("%s leads to %s", async (url, origin) => {
    const asked: { readonly url: string; readonly token: string | null }[] = [];
    const fetch: typeof globalThis.fetch = async (input, init) => {
      const token = new Headers(init?.headers).get("x-consul-token");
      asked.push({ url: String(input), token });
      return new Response("no", { status: 404 });
    };
    const error: unknown = await consul({ url, fetch })
      .open(systemEnv)
      .catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "STORE_MISCONFIGURED" });
    expect(String(error)).not.toContain("secret");
    const isEast = url.includes("dc=east");
    const query = isEast ? "dc=east" : "";
    expect(asked).toEqual([
      { url: `${origin}/v1/catalog/register?${query}`, token: isEast ? "secret" : null },
    ]);
  });
});

describeConsul("Consul with ACLs", () => {
  const ROOT = "11111111-2222-3333-4444-555555555555";
  let server: ConsulServer;
  const tokens = new Map<string, string>();
  beforeAll(async () => {
    server = await startConsul({
      config: {
        acl: { enabled: true, default_policy: "deny", tokens: { master: ROOT, agent: ROOT } },
      },
      token: ROOT,
    });
    const keys = `key_prefix "locks/" { policy = "write" }`;
    const sessions = `session "leasehold" { policy = "write" }`;
    const node = `node "leasehold" { policy = "write" }`;
    const policies = {
      // Of stores/consul/README.md.
      least: `${keys} ${sessions} ${node}`,
      reader: `key_prefix "locks/" { policy = "read" } ${sessions} ${node}`,
      viewer: `${keys} ${sessions} ${node} agent_prefix "" { policy = "read" }`,
      keys: `${keys} ${node}`,
      nodeless: `${keys} ${sessions}`,
    };
    for (const [Name, Rules] of Object.entries(policies)) {
      await server.api("PUT", "acl/policy", { Name, Rules });
      const made = await server.api("PUT", "acl/token", { Policies: [{ Name }] });
      tokens.set(Name, (made as { SecretID: string }).SecretID);
    }
  });
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });
  const urlOf = (name: string) => `${server.url}/locks?token=${tokens.get(name) ?? name}`;

  it("a token of the fewest rights acquires, waits, is woken, renews, lists and collects", async () => {
    const one = await connect(urlOf("least"), { graceMs: 0 });
    const other = await connect(urlOf("least"), { graceMs: 0 });
    const lease = await one.acquire("report", { ttlMs: 10_000 });
    const waiting = other.acquire("report", { ttlMs: 10_000, waitMs: 60_000 });
    await lease.renew();
    await lease.release();
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    const { items } = await one.list();
    expect(items).toMatchObject([{ resource: "report", token: next.token, state: "live" }]);
    await other.close();
    await one.close();
    const { leases, close } = await consul({ url: urlOf("least") }).open(systemEnv);
    await leases.collect(0);
    await leases.collect(0);
    await close();
  });

  it("a token without a right to the node needs one only while there is no node", async () => {
    await server.api("PUT", "catalog/deregister", { Node: "leasehold" });
    await expect(connect(urlOf("nodeless"))).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("Permission denied; give the token the policy of"),
    });
    await (await connect(urlOf("least"))).close();
    await (await connect(urlOf("nodeless"))).close();
  });

  it("the token of the environment is used where the URL has none", async () => {
    const before = process.env.CONSUL_HTTP_TOKEN;
    process.env.CONSUL_HTTP_TOKEN = tokens.get("least");
    try {
      await (await connect(`${server.url}/locks`)).close();
    } finally {
      if (before === undefined) delete process.env.CONSUL_HTTP_TOKEN;
      else process.env.CONSUL_HTTP_TOKEN = before;
    }
    await expect(connect(`${server.url}/locks`)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
    });
  });

  it.each([
    ["reader", /Permission denied; give the token the policy of/],
    ["keys", /Permission denied; give the token the policy of/],
    ["99999999-2222-3333-4444-555555555555", /ACL not found; check \?token= of the URL/],
  ])("opening with the token %s is refused, and says why", async (name, message) => {
    const error: unknown = await connect(urlOf(name)).catch((error: unknown) => error);
    expect(error).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(message),
    });
    expect(String(error)).not.toContain(tokens.get(name) ?? name);
  });

  it.each([
    ["least", "unknown: the token lacks agent:read"],
    ["viewer", expect.stringMatching(/^1\.\d+\.\d+/)],
  ])("doctor reads what the token %s may read, and shows no token", async (name, version) => {
    checkBuild();
    const args = ["doctor", "--json", "--for", "100ms", "--samples", "5", "--store", urlOf(name)];
    const { code, stdout, stderr } = await leasehold(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { store, checks } = JSON.parse(stdout) as { store: string; checks: object[] };
    expect(store).toBe(`${server.url}/locks?token=***`);
    expect(stdout).not.toContain(tokens.get(name));
    expect(checks).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ what: "version", value: version }),
        expect.objectContaining({ what: "leader", verdict: "fine" }),
        expect.objectContaining({ what: "servers", value: "1", verdict: "doubtful" }),
        expect.objectContaining({ what: "session", value: "20000 ms" }),
        expect.objectContaining({ what: "session node", verdict: "fine" }),
      ]),
    );
  });

  it("doctor warns of a machine with the name of the sessions' node", async () => {
    const { diagnose, close } = await consul({ url: urlOf("least") }).open(systemEnv);
    const serfHealth = { CheckID: "serfHealth", Name: "Serf Health Status", Status: "passing" };
    const node = { Node: "leasehold", Address: "127.0.0.1" };
    await server.api("PUT", "catalog/register", { ...node, Check: serfHealth });
    expect(await diagnose?.()).toContainEqual(
      expect.objectContaining({ what: "session node", verdict: "wrong" }),
    );
    await server.api("PUT", "catalog/deregister", node);
    await close();
  });

  it("a path beyond the policy is refused too", async () => {
    const url = urlOf("least").replace("/locks", "/others");
    await expect(connect(url)).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
  });
});

describeConsul("leases of one session", () => {
  let server: ConsulServer;
  beforeAll(async () => {
    server = await startConsul();
  });
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });

  it("2,000 are renewed by reads, one write and at most one renewal of the session", async () => {
    const sent: string[] = [];
    const fetch: typeof globalThis.fetch = (input, init) => {
      sent.push(`${new URL(String(input)).pathname} ${String(init?.body ?? "")}`);
      return globalThis.fetch(input, init);
    };
    const url = `${server.url}/many?sessionTtlMs=60000`;
    const { leases, close } = await consul({ url, fetch }).open(systemEnv);
    const requests = Array.from({ length: 2_000 }, (_, at) => ({
      namespace: "default",
      resource: `resource ${at}`,
      leaseId: newLeaseId(systemRandom),
      holder: "one",
      ttlMs: 40_000,
    }));
    const granted = await leases.acquire(requests, { timeoutMs: 60_000 });
    expect(granted.filter(({ status }) => status === "acquired")).toHaveLength(2_000);
    expect(sent.filter((text) => text.startsWith("/v1/session/create"))).toHaveLength(1);
    sent.length = 0;
    const renewed = await leases.renew(requests, { timeoutMs: 60_000 });
    expect(renewed.filter(({ status }) => status === "renewed")).toHaveLength(2_000);
    const isWrite = (text: string) => /"Verb":"(lock|cas|delete)/.test(text);
    const transactions = sent.filter((text) => text.startsWith("/v1/txn"));
    expect(transactions.filter(isWrite)).toHaveLength(1);
    expect(transactions.filter((text) => !isWrite(text))).toHaveLength(Math.ceil(2_000 / 64));
    const renewals = sent.filter((text) => text.startsWith("/v1/session/renew"));
    expect(renewals.length).toBeLessThanOrEqual(2);
    await close();
  });

  it("more waiters of one resource than a transaction has room for join and leave in one call", async () => {
    const { leases, close } = await consul({ url: `${server.url}/queue` }).open(systemEnv);
    const request = () => ({
      namespace: "default",
      resource: "report",
      leaseId: newLeaseId(systemRandom),
      holder: "one",
      ttlMs: 10_000,
    });
    const holder = request();
    const [granted] = await leases.acquire([holder]);
    expect(granted).toMatchObject({ status: "acquired" });
    const waiters = Array.from({ length: 40 }, () => ({ ...request(), queueMs: 60_000 }));
    const refused = await leases.acquire(waiters, { timeoutMs: 20_000 });
    expect(refused).toMatchObject(waiters.map((_, ahead) => ({ status: "held", ahead })));
    const left = await leases.release([...waiters, holder], { timeoutMs: 20_000 });
    expect(left.map(({ status }) => status)).toEqual([...waiters.map(() => "notHeld"), "released"]);
    const [next] = await leases.acquire([request()]);
    expect(next).toMatchObject({ status: "acquired" });
    await close();
  });
});
