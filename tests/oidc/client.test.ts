/** A client whose token ends again and again: it loses no lease, and its streams go on. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/node.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { createApp, listen } from "../../packages/leasehold-server/src/http/index.js";
import { AUDIENCE, describeIssuer, openIssuer } from "../support/server/oidc-issuer.js";

const TOKEN_SECONDS = 5;
const TTL_MS = 60_000;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const isRefusal = (failure: unknown) =>
  (failure as { err?: { code?: string } }).err?.code === "STORE_MISCONFIGURED";

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
  const server = await listen({ app: createApp({ ...stores, version: "1", oidc }), port: 0 });
  closing.push(() => server.close());
  const failures: unknown[] = [];
  const note = (fields: object, message: string) => {
    if (message === "renewal failed") failures.push(fields);
  };
  const logger = { debug() {}, info() {}, warn: note, error: note };
  const connectBy = async (
    token: (() => Promise<string>) | undefined,
    holder: string,
  ): Promise<Leasehold> => {
    const source = http({ url: server.url, ...(token && { token }) });
    const client = await connect(source, { holder, logger });
    closing.push(() => client.close());
    return client;
  };
  return { issuer, connectBy, failures };
}

describeIssuer("a client whose token ends", () => {
  it("renews a lease for more than two lives of its token, and waits on by a stream", async () => {
    const { issuer, connectBy, failures } = await open();
    let asked = 0;
    const token = () => {
      asked += 1;
      return issuer.token();
    };
    const holder = await connectBy(token, "holder");
    const lease = await holder.acquire("billing", { ttlMs: TTL_MS, renewIntervalMs: 200 });
    const waiting = await connectBy(token, "waiter");
    const next = waiting.acquire("billing", { waitMs: 100_000, ttlMs: TTL_MS });
    await delay(2.5 * TOKEN_SECONDS * 1_000);
    expect(lease.checkAlive()).toBe(true);
    // No renewal was refused for its token.
    expect(failures.filter(isRefusal)).toEqual([]);
    await lease.renew();
    expect(asked).toBeGreaterThanOrEqual(6);
    await lease.release();
    const second = await next;
    expect(second.token).toBeGreaterThan(lease.token);
    await second.release();
  });

  it("keeps its lease while the issuer is down for less than the lease lasts", async () => {
    const { issuer, connectBy } = await open();
    let failed = 0;
    const token = () =>
      issuer.token().catch((error: unknown) => {
        failed += 1;
        throw error;
      });
    const client = await connectBy(token, "holder");
    const lease = await client.acquire("billing", { ttlMs: TTL_MS, renewIntervalMs: 200 });
    issuer.down();
    await delay(1.2 * TOKEN_SECONDS * 1_000);
    await expect.poll(() => failed, { timeout: 60_000 }).toBeGreaterThan(1);
    expect(lease.checkAlive()).toBe(true);
    issuer.up();
    await lease.renew();
    await lease.release();
  });

  it("reads a token again from the file that the environment names", async () => {
    const { issuer, connectBy, failures } = await open();
    const folder = await mkdtemp(join(tmpdir(), "leasehold-token-"));
    closing.push(() => rm(folder, { recursive: true }));
    const file = join(folder, "token");
    await writeFile(file, `${await issuer.token()}\n`);
    process.env["LEASEHOLD_TOKEN_FILE"] = file;
    try {
      const client = await connectBy(undefined, "holder");
      const lease = await client.acquire("billing", { ttlMs: TTL_MS, renewIntervalMs: 200 });
      for (let second = 0; second < 1.5 * TOKEN_SECONDS; second += 1) {
        await delay(1_000);
        await writeFile(file, await issuer.token());
      }
      expect(lease.checkAlive()).toBe(true);
      expect(failures.filter(isRefusal)).toEqual([]);
      await lease.renew();
      await lease.release();
    } finally {
      delete process.env["LEASEHOLD_TOKEN_FILE"];
    }
  });
});
