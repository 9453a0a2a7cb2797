/**
 * What the package promises its users' compilers. Only compiled, by tests/packaging/types.test.ts, against the
 * declarations that were built; nothing of it ever runs.
 */
import type { PGlite, Transaction } from "@electric-sql/pglite";
import {
  type AcquireOptions,
  type AdminResult,
  type AnyLease,
  connect,
  defineTask,
  type Elector,
  type ErrorCode,
  type GrantId,
  type Lease,
  type Leasehold,
  LeaseholdError,
  type LeaseId,
  LeaseLostError,
  type LeaseStore,
  type LeaseView,
  type Logger,
  type LostReason,
  openStores,
  type ReusableLease,
  type RevokeResult,
  type Shards,
  type Singleton,
  type TaskHandle,
  type TaskHandler,
  type Tasks,
  type TryRunResult,
  type UnfencedLease,
  type Worker,
} from "leasehold";
import { fence } from "leasehold/fence";
import { memory } from "leasehold/stores/memory";
import { pglite, postgres } from "leasehold/stores/postgres";
import { createApp } from "leasehold-server";
import type pg from "pg";
import type { Logger as Pino } from "pino";
import { expectTypeOf } from "vitest";
import { z } from "zod";

declare const leases: Leasehold;
declare const tasks: Tasks;
declare const held: Lease;

// Connecting.
expectTypeOf(connect("memory:")).resolves.toEqualTypeOf<Leasehold>();
expectTypeOf(connect(new URL("postgres://localhost/app"))).resolves.toEqualTypeOf<Leasehold>();
expectTypeOf(leases.tasks).toEqualTypeOf<Tasks>();
declare const store: LeaseStore;
declare const pool: pg.Pool;
declare const db: PGlite;
for (const source of [memory(), postgres({ pool }), pglite({ db }), pglite({ directory: "" })]) {
  void connect(source, { namespace: "tenant", closeOnSignals: true });
  void connect("redis://localhost", { tasks: source, closeOnSignals: ["SIGTERM"] });
}
void connect(store);
// @ts-expect-error A store of leases keeps no tasks.
void connect("memory:", { tasks: store });
// @ts-expect-error Misspelt.
void connect("memory:", { nameSpace: "tenant" });
// @ts-expect-error Cannot be handled.
void connect("memory:", { closeOnSignals: ["SIGKILL"] });
const stores = await openStores("memory:");
createApp({ ...stores, auth: "ifAny", version: "1.0.0" });

// Work under a lease: its type is the answer's.
expectTypeOf(leases.run("r", () => 1)).toEqualTypeOf<Promise<number>>();
expectTypeOf(leases.run("r", async (lease) => lease.token)).toEqualTypeOf<Promise<number>>();
expectTypeOf(leases.run("r", { ttlMs: 1_000 }, async () => ["a"])).resolves.toEqualTypeOf<
  string[]
>();
expectTypeOf(leases.run("r", () => {})).resolves.toBeVoid();
void leases.run("r", (lease) => expectTypeOf(lease).toEqualTypeOf<Lease>());
// @ts-expect-error Misspelt.
void leases.run("r", { ttl: 1_000 }, () => 1);
// @ts-expect-error There is work to be done.
void leases.run("r", { ttlMs: 1_000 });

// A store without tokens: what is acquired may have none.
const unfenced = await connect("redis://localhost?format=redlock", { unfenced: true });
expectTypeOf(unfenced).toEqualTypeOf<Leasehold<AnyLease>>();
expectTypeOf(unfenced.acquire("r")).resolves.toEqualTypeOf<AnyLease>();
// @ts-expect-error It must be narrowed by isFenced.
void unfenced.run("r", (lease) => lease.token);

// Work while the store is unavailable: it must check whether it has a lease.
const whileUnavailable = { onUnavailable: "unfenced" } as const;
void leases.run("r", whileUnavailable, (lease) => {
  expectTypeOf(lease).toEqualTypeOf<Lease | UnfencedLease>();
  // @ts-expect-error There may be no grant.
  void lease.grantId;
  if (lease.isFenced) expectTypeOf(lease).toEqualTypeOf<Lease>();
});
expectTypeOf(leases.tryRun("r", whileUnavailable, () => 1)).resolves.toEqualTypeOf<
  TryRunResult<number>
>();
const needsLease = (lease: Lease) => lease.grantId;
void leases.run("r", { onUnavailable: "fail" }, needsLease);
// @ts-expect-error It may be given none.
void leases.run("r", whileUnavailable, needsLease);
// @ts-expect-error It never waits.
void leases.tryRun("r", { onUnavailable: "wait" }, () => 1);
// @ts-expect-error There is no work to run.
void leases.acquire("r", whileUnavailable);

// Work if it is free.
expectTypeOf(leases.tryRun("r", async () => "a")).resolves.toEqualTypeOf<TryRunResult<string>>();
const result = await leases.tryRun("r", { ttlMs: 1_000 }, () => 1);
if (result.ran) {
  expectTypeOf(result.value).toEqualTypeOf<number>();
  // @ts-expect-error The work ran, so there is no other holder.
  void result.holder;
} else {
  expectTypeOf(result.holder).toEqualTypeOf<string>();
  expectTypeOf(result.remainingMs).toEqualTypeOf<number | null>();
  // @ts-expect-error It did not run.
  void result.value;
}

// A lease in the hand.
expectTypeOf(leases.acquire("r", { waitMs: 5_000 })).resolves.toEqualTypeOf<Lease>();
expectTypeOf(leases.tryAcquire("r")).resolves.toEqualTypeOf<Lease | null>();
expectTypeOf(held).toExtend<AsyncDisposable>();
expectTypeOf(leases).toExtend<AsyncDisposable>();
expectTypeOf<Worker>().toExtend<AsyncDisposable>();
expectTypeOf(held.token).toBeNumber();
expectTypeOf(held.leaseId).toEqualTypeOf<LeaseId>();
expectTypeOf(held.grantId).toEqualTypeOf<GrantId>();
expectTypeOf(held.grantId).not.toExtend<LeaseId>();
expectTypeOf(held.signal).toEqualTypeOf<AbortSignal>();
expectTypeOf(held.checkAlive).returns.toBeBoolean();
expectTypeOf(held.remainingMs).returns.toBeNumber();
expectTypeOf(held.onLost).parameter(0).parameter(0).toEqualTypeOf<LostReason>();
// @ts-expect-error For good.
held.token = 1;
export async function disposed(): Promise<void> {
  await using lease = await leases.acquire("r");
  await using client = await connect("memory:");
  void [lease.token, client.holder];
}

// The lease that comes and goes is the article's, to the letter.
interface ArticleLease {
  acquire(): Promise<boolean>;
  release(): Promise<void>;
  checkAlive(): boolean;
  onLost(handler: (reason: string) => void): () => void;
}
leases.reusableLease("r", { acquireRetries: 3, acquireRetryDelayMs: 200 }) satisfies ArticleLease;
expectTypeOf<ReusableLease>().toExtend<ArticleLease & AsyncDisposable>();
expectTypeOf<ReusableLease["held"]>().toEqualTypeOf<Lease | null>();
// @ts-expect-error It does not wait: it tries again.
leases.reusableLease("r", { waitMs: 1 });

// Looking and steering.
expectTypeOf(leases.get("r")).resolves.toEqualTypeOf<LeaseView | null>();
expectTypeOf(leases.list()).resolves.toExtend<{ items: readonly LeaseView[] }>();
expectTypeOf(leases.revoke("r", { free: "now" })).resolves.toEqualTypeOf<RevokeResult>();
// @ts-expect-error One of two.
void leases.revoke("r", { free: "soon" });
const revoked = await leases.revoke("r");
if (revoked.status === "revoked") expectTypeOf(revoked.token).toBeNumber();
expectTypeOf<LeaseView>().not.toHaveProperty("leaseId");

// Errors.
declare const error: unknown;
if (error instanceof LeaseholdError) {
  expectTypeOf(error.code).toEqualTypeOf<ErrorCode>();
  expectTypeOf(error.outcome).toEqualTypeOf<"none" | "unknown">();
}
if (error instanceof LeaseLostError) expectTypeOf(error.reason).toEqualTypeOf<LostReason>();

// Tasks: what goes in, what the handler gets, what comes out.
const report = defineTask("report", {
  schema: z.object({ pages: z.number(), day: z.iso.date().transform((day) => new Date(day)) }),
});
void tasks.enqueue(report, { pages: 1, day: "2026-11-21" });
// @ts-expect-error Neither is what the schema takes.
void tasks.enqueue(report, { pages: "1", day: new Date() });
// @ts-expect-error Misspelt.
void tasks.enqueue(report, { pages: 1, day: "2026-11-21" }, { dedupKey: "k" });
const handler = report.handle(async (data, { lease, task, signal, progress, log }) => {
  expectTypeOf(data).toEqualTypeOf<{ pages: number; day: Date }>();
  expectTypeOf(lease).toEqualTypeOf<Lease>();
  expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
  expectTypeOf(log).toEqualTypeOf<Logger>();
  expectTypeOf(task.attempt).toBeNumber();
  progress({ page: 1 });
  // @ts-expect-error JSON cannot say it.
  progress(1n);
  return { bytes: data.pages };
});
expectTypeOf(handler).toEqualTypeOf<TaskHandler>();
const plain = defineTask<{ file: string }>("plain");
expectTypeOf(tasks.enqueue(plain, { file: "a" })).resolves.toEqualTypeOf<TaskHandle<unknown>>();
// @ts-expect-error No file.
void tasks.enqueue(plain, {});
expectTypeOf(
  tasks.work([handler, plain.handle(({ file }) => file)], { concurrency: 2 }),
).toEqualTypeOf<Worker>();
// @ts-expect-error A definition is not yet a handler.
tasks.work([plain]);
// @ts-expect-error Misspelt.
tasks.work([handler], { parallel: 2 });
expectTypeOf(tasks.cancel("id")).resolves.toEqualTypeOf<AdminResult>();

// Clients of other packages, as they are.
declare const client: pg.Client;
declare const pooled: pg.PoolClient;
declare const tx: Transaction;
for (const own of [client, pooled, tx]) {
  void fence(own, "r", held.token);
  void tasks.enqueue(plain, { file: "a" }, { client: own });
}
// @ts-expect-error A pool commits each statement by itself.
void fence(pool, "r", held.token);
// @ts-expect-error The same.
void tasks.enqueue(plain, { file: "a" }, { client: pool });
// @ts-expect-error Resources are names, tokens numbers.
void fence(client, held.token, "r");
declare const pino: Pino;
expectTypeOf(pino).toExtend<Logger>();
void connect("memory:", { logger: pino });
expectTypeOf(console).toExtend<Logger>();

// Options that are put together elsewhere, also with undefined left out.
const options: AcquireOptions = { ttlMs: 5_000, ...(pool ? { waitMs: 0 } : {}) };
void leases.acquire("r", options);
expectTypeOf(leases.elector("leader")).toEqualTypeOf<Elector>();
expectTypeOf(leases.shards("parts", { count: 2, work: async () => {} })).toEqualTypeOf<Shards>();
const singleton = leases.singleton("leader", async (lease) => {
  expectTypeOf(lease).toEqualTypeOf<Lease>();
});
expectTypeOf(singleton.start()).toEqualTypeOf<Singleton>();
