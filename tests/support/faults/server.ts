/** A server that the tests of a file share, and stores on it that end with their test. */
import { afterAll, beforeAll, beforeEach, expect, type TestContext } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import type {
  AcquireRequest,
  Failed,
  LeaseStore,
} from "../../../packages/leasehold/src/lease/index.js";
import { ENGINES } from "../../../packages/leasehold/src/stores/open.js";
import { openBy } from "../../../packages/leasehold/src/stores/opening.js";
import { only } from "../../../packages/leasehold/src/testing/calls.js";
import { until } from "../../../packages/leasehold/src/testing/waiting.js";
import { endAll } from "../processes/processes.js";
import type { FaultyServer, LeaseEngine } from "./engines.js";
import { LONG_MS } from "./fault-site.js";
import { openTcpProxy, type TcpProxy } from "./tcp-proxy.js";

/** Runs throughout the tests of a `describe`, but for what a test does to it. */
export function sharedServer(engine: LeaseEngine): () => FaultyServer {
  let server: FaultyServer;
  beforeAll(async () => {
    server = await engine.start();
  });
  // A test that failed may have left it stopped or dead.
  beforeEach(async () => {
    if (!server.isRunning) await server.start();
    server.process?.cont();
  });
  afterAll(async () => {
    await server?.remove();
    await endAll();
  });
  return () => server;
}

/** Closes what is opened when the test ends, the last one first. */
export type Later = <T extends { close(): Promise<unknown> }>(opened: T) => T;

export function laterIn({ onTestFinished }: TestContext): Later {
  return (opened) => {
    onTestFinished(async () => void (await opened.close()));
    return opened;
  };
}

/** @param port the server's own, or that of a proxy before it */
export async function openStore(
  server: FaultyServer,
  later: Later,
  { port = server.port, ttlMs = LONG_MS } = {},
): Promise<LeaseStore> {
  const url = await server.url(port, ttlMs);
  return later(await openBy(ENGINES, url, systemEnv, OPEN_WITHIN_MS)).leases;
}

const OPEN_WITHIN_MS = 20_000;

/** A store behind a proxy. */
export async function openBehind(
  server: FaultyServer,
  later: Later,
  ttlMs = LONG_MS,
): Promise<{ proxy: TcpProxy; store: LeaseStore }> {
  const proxy = later(await openTcpProxy({ port: server.port }));
  return { proxy, store: await openStore(server, later, { port: proxy.port, ttlMs }) };
}

/** Of a time limit that a stopped server exceeds. */
export const BRIEF = { timeoutMs: 400 };

export function request(ttlMs = LONG_MS): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  const resource = newLeaseId(systemRandom);
  return { namespace: "default", resource, leaseId, holder: "h", ttlMs };
}
/** Of another contender. */
export function rivalOf({ resource }: AcquireRequest): AcquireRequest {
  return { ...request(), resource };
}

export async function acquired(store: LeaseStore, asked: AcquireRequest) {
  const outcome = only(await store.acquire([asked]));
  if (outcome.status !== "acquired") throw new Error(outcome.status);
  return outcome;
}

/** The same call, until it is answered. */
export async function settled<Outcome extends { readonly status: string }>(
  call: () => Promise<readonly Outcome[]>,
): Promise<Exclude<Outcome, Failed>> {
  let outcome: Outcome | undefined;
  await until(expect, "an answer", async () => {
    outcome = only(await call());
    return outcome.status !== "failed";
  });
  return outcome as Exclude<Outcome, Failed>;
}

export async function view(store: LeaseStore, asked: AcquireRequest) {
  return only(await store.get([asked]));
}

/** Drops all traffic, but leaves the connections open. */
export function blackhole(proxy: TcpProxy): void {
  proxy.blackhole("toServer");
  proxy.blackhole("toClient");
}
