/** A server behind a proxy that fails, its client, and the store behind the server, where a test reads what was done. */
import { afterAll, afterEach, beforeEach, expect } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import type {
  AcquireRequest,
  Grant,
  LeaseView,
} from "../../../packages/leasehold/src/lease/index.js";
import { http } from "../../../packages/leasehold/src/stores/http/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import { openPostgres } from "../../../packages/leasehold/src/stores/postgres/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { DEFAULTS } from "../../../packages/leasehold/src/tasks/index.js";
import type {
  ClaimedTask,
  NewTask,
  TaskDetails,
  TaskGrant,
} from "../../../packages/leasehold/src/tasks/port.js";
import { only } from "../../../packages/leasehold/src/testing/calls.js";
import { until as waitUntil } from "../../../packages/leasehold/src/testing/waiting.js";
import { createApp, listen } from "../../../packages/leasehold-server/src/http/index.js";
import { freshDatabase } from "../engines/postgres.js";
import { endAll } from "../processes/cli.js";
import { TEST_LIMITS } from "../server/test-limits.js";
import { type FaultProxy, openFaultProxy } from "./fault-proxy.js";

/** Fresh in each test, so that they may share a database. */
export let namespace = "";
/** Of what serves one that is not fresh, such as a server that is a process of its own. */
export function useNamespace(name: string): void {
  namespace = name;
}
export const TTL_MS = 60_000;
export const until = (what: string, isTrue: () => boolean | Promise<boolean>) =>
  waitUntil(expect, what, isTrue);

const closing: (() => Promise<unknown>)[] = [];
/** Closes it when the test ends. */
export const later = <T extends { close(): Promise<unknown> }>(opened: T): T => {
  closing.unshift(() => opened.close());
  return opened;
};

/** For files that open worlds: what each test gets, and what ends with it. */
export function httpWorlds(): void {
  beforeEach(() => useNamespace(`faults-${newLeaseId(systemRandom)}`));
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    await endAll();
  });
  afterAll(async () => {
    const opened = await database;
    database = undefined;
    await opened?.stores.close();
    await opened?.drop();
  });
}

export interface World {
  /** What the server works with. */
  readonly behind: Stores;
  readonly proxy: FaultProxy;
  /** Through the proxy. */
  readonly client: Stores;
}

/** Shared by the tests of a file: to open it takes longer than most of them. */
let database: Promise<{ readonly stores: Stores; drop(): Promise<void> }> | undefined;

async function openDatabase() {
  const { url, drop } = await freshDatabase();
  return { stores: await openPostgres({ url }, systemEnv), drop };
}

const ENGINES = {
  memory: async () => later(await memory().open(systemEnv)),
  async PostgreSQL() {
    database ??= openDatabase();
    return (await database).stores;
  },
};

export async function openWorld(engine: keyof typeof ENGINES): Promise<World> {
  const behind = await ENGINES[engine]();
  const app = createApp({
    ...behind,
    namespace,
    auth: "none",
    version: "test",
    limits: TEST_LIMITS,
  });
  const server = later(await listen({ app, port: 0 }));
  return { behind, ...(await openProxied(server.port)) };
}

export async function openProxied(port: number): Promise<Pick<World, "proxy" | "client">> {
  const proxy = later(await openFaultProxy(port));
  return { proxy, client: later(await http({ url: proxy.url }).open(systemEnv)) };
}

export function requestOf(resource: string): AcquireRequest {
  const leaseId = newLeaseId(systemRandom);
  return { namespace, resource, leaseId, holder: "holder", ttlMs: TTL_MS };
}
export function grantOf({ namespace, resource, leaseId }: Grant): Grant {
  return { namespace, resource, leaseId };
}
export async function hold({ behind }: Pick<World, "behind">, resource = "r") {
  const request = requestOf(resource);
  const outcome = only(await behind.leases.acquire([request]));
  if (outcome.status !== "acquired") throw new Error(outcome.status);
  return { ...request, token: outcome.token };
}
export async function viewOf(
  { behind }: Pick<World, "behind">,
  resource = "r",
): Promise<LeaseView> {
  const { items } = await behind.leases.list({ namespace });
  expect(items).toHaveLength(1);
  const view = only(await behind.leases.get([{ namespace, resource }]));
  if (!view) throw new Error("there is such a lease");
  return view;
}

export const newTask = (task: Partial<NewTask> = {}): NewTask => ({
  ...DEFAULTS,
  namespace,
  id: newTaskId(),
  kind: "k",
  data: { n: 1 },
  scheduledAt: null,
  dedupeKey: null,
  ...task,
});
let tasksMade = 0;
function newTaskId(): string {
  tasksMade += 1;
  return `01890000-0000-7000-8000-${String(tasksMade).padStart(12, "0")}`;
}
export const claimRequest = () => ({
  namespace,
  claimId: newLeaseId(systemRandom),
  holder: "holder",
  queues: ["default"],
  kinds: null,
  limit: 2,
  ttlMs: TTL_MS,
});
export async function claim(world: Pick<World, "behind">): Promise<TaskGrant> {
  await world.behind.tasks.enqueue([newTask()]);
  const outcome = await world.behind.tasks.claim(claimRequest());
  if (outcome.status !== "claimed") throw outcome.error;
  return taskGrantOf(only(outcome.tasks));
}
export function taskGrantOf({ id, leaseId, token }: ClaimedTask): TaskGrant {
  return { namespace, id, leaseId, token };
}
export async function detailsOf({ behind }: World, id: string): Promise<TaskDetails> {
  const details = await behind.tasks.get({ namespace, id });
  if (!details) throw new Error("there is such a task");
  return details;
}
