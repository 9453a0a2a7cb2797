/** A client whose token ends again and again: it loses no lease, and its streams go on. */
import { afterEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import {
  createApp,
  type Listening,
  listen,
} from "../../packages/leasehold-server/src/http/index.js";
import { AUDIENCE, describeIssuer, openIssuer } from "../support/oidc-issuer.js";

const TOKEN_SECONDS = 6;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open() {
  const issuer = await openIssuer({ tokenSeconds: TOKEN_SECONDS, claims: { role: "worker" } });
  closing.push(() => issuer.close());
  const stores = await memory().open(systemEnv);
  closing.push(() => stores.close());
  const oidc = {
    issuer: issuer.url,
    audience: AUDIENCE,
    roles: ["role:worker=holder"],
    leewayMs: 0,
  };
  const server: Listening = await listen({
    app: createApp({ ...stores, version: "1", oidc }),
    port: 0,
  });
  closing.push(() => server.close());
  const connectBy = async (token: () => Promise<string>, holder: string): Promise<Leasehold> => {
    const client = await connect(http({ url: server.url, token }), { holder });
    closing.push(() => client.close());
    return client;
  };
  return { issuer, server, connectBy };
}

describeIssuer("a client with a token function", () => {
  it("renews a lease for longer than two lives of its token, and waits on by a stream", async () => {
    const { issuer, connectBy } = await open();
    let asked = 0;
    const token = () => {
      asked += 1;
      return issuer.token();
    };
    const holder = await connectBy(token, "holder");
    const lease = await holder.acquire("billing", { ttlMs: 4_000 });
    const waiting = await connectBy(token, "waiter");
    const next = waiting.acquire("billing", { waitMs: 120_000, ttlMs: 4_000 });
    const untilMs = Date.now() + 2.5 * TOKEN_SECONDS * 1_000;
    while (Date.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(lease.signal.aborted).toBe(false);
    }
    expect(lease.checkAlive()).toBe(true);
    expect(asked).toBeGreaterThanOrEqual(4);
    await lease.release();
    const second = await next;
    expect(second.token).toBeGreaterThan(lease.token);
    await second.release();
  });
});
