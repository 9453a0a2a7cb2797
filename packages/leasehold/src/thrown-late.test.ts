/** What work throws after it was asked to stop: no call rejects with it, so that the log or the loss has to say it. */
import { expect, it, vi } from "vitest";
import { faultyStore } from "../../../tests/support/faults/faulty-store.js";
import { connect, defineTask, type Leasehold } from "./index.js";
import { LeaseClient } from "./lease/index.js";
import { manualEnv } from "./testing/index.js";

const TTL_MS = 3_000;
const REASON = new Error("the disk is full");
const THREW = "the work threw after it was asked to stop";

/** How work ends once it is asked to stop. */
type Ending = (reason: unknown) => unknown;
type Stopping = (leasehold: Leasehold, stop: () => unknown) => unknown;

function open() {
  const lines: [level: string, err: unknown][] = [];
  const line = (level: string) => (fields: object, message: string) => {
    if (message === THREW) lines.push([level, (fields as { err: unknown }).err]);
  };
  const [debug, info, warn, error] = ["debug", "info", "warn", "error"].map(line);
  const env = manualEnv({ logger: { debug, info, warn, error } as never });
  return { env, clock: env.clock, lines };
}

/** Work that ends by throwing, once its signal aborts. */
function work({ signal }: { signal: AbortSignal }, ending: Ending): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(ending(signal.reason))),
  );
}

const revoke = (resource: string) => (leasehold: Leasehold) => leasehold.revoke(resource);
const close: Stopping = (leasehold) => leasehold.close();
const stop: Stopping = (_, own) => own();
const mail = defineTask("mail");

/** Starts the work; returns what stops it alone. */
const STARTS: Record<string, (leasehold: Leasehold, ending: Ending) => () => unknown> = {
  singleton(leasehold, ending) {
    const singleton = leasehold.singleton("r", (lease) => work(lease, ending), { ttlMs: TTL_MS });
    singleton.start();
    return () => singleton.close();
  },
  elector(leasehold, ending) {
    const leaving = new AbortController();
    const elector = leasehold.elector("r", { ttlMs: TTL_MS });
    void elector.lead((term) => work(term, ending), { signal: leaving.signal });
    return () => leaving.abort();
  },
  resigning(leasehold, ending) {
    const elector = leasehold.elector("r", { ttlMs: TTL_MS });
    void elector.lead((term) => work(term, ending), new AbortController());
    return () => elector.resign();
  },
  shards(leasehold, ending) {
    const own = (_: number, lease: { signal: AbortSignal }) => work(lease, ending);
    const shards = leasehold.shards("g", { count: 1, work: own, ttlMs: TTL_MS }).start();
    return () => shards.close();
  },
  worker(leasehold, ending) {
    const handler = mail.handle((_, context) => work(context, ending));
    const worker = leasehold.tasks.work([handler], { ttlMs: TTL_MS, graceMs: 0 });
    void leasehold.tasks.enqueue(mail, null, { id: "0199aaaa-0000-7000-8000-000000000001" });
    return () => worker.close();
  },
};
const cancel: Stopping = ({ tasks }) => tasks.cancel("0199aaaa-0000-7000-8000-000000000001");

async function linesOf(kind: string, stopping: Stopping, ending: Ending) {
  const { env, clock, lines } = open();
  const leasehold = await connect("memory:", { env });
  const own = STARTS[kind]?.(leasehold, ending) ?? expect.fail(kind);
  await clock.advance(TTL_MS);
  void stopping(leasehold, own);
  await clock.advance(TTL_MS);
  const found = [...lines];
  const closed = leasehold.close();
  await clock.advance(10_000);
  await closed;
  return found;
}

it.each<[string, string, Stopping]>([
  ["singleton", "closes", stop],
  ["singleton", "loses its lease", revoke("r")],
  ["singleton", "ends with its client", close],
  ["elector", "leaves", stop],
  ["elector", "loses its lease", revoke("r")],
  ["resigning", "resigns", stop],
  ["shards", "leaves", stop],
  ["shards", "loses a shard", revoke("g/shards/0")],
  ["worker", "closes", stop],
  ["worker", "is cancelled", cancel],
])("is a warning of a %s that %s, and a debug line if it is the abort's own", async (...given) => {
  const [kind, , stopping] = given;
  expect(await linesOf(kind, stopping, () => REASON)).toEqual([["warn", REASON]]);
  const own = await linesOf(kind, stopping, (reason) => reason);
  expect(own).toEqual([["debug", expect.objectContaining({ name: expect.any(String) as string })]]);
  const passedOn = (cause: unknown) => new Error("stopped", { cause });
  expect(await linesOf(kind, stopping, passedOn)).toMatchObject([["debug", { name: "Error" }]]);
  const aborted = new DOMException("stopped", "AbortError");
  expect(await linesOf(kind, stopping, () => aborted)).toEqual([["debug", aborted]]);
});

it("is no line of work that stops without an error", async () => {
  const { env, clock, lines } = open();
  const leasehold = await connect("memory:", { env });
  const returning = ({ signal }: { signal: AbortSignal }) =>
    new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  leasehold.singleton("r", returning).start();
  await clock.advance(100);
  await leasehold.close();
  expect(lines).toEqual([]);
});

it.each([
  ["an error", () => REASON, REASON],
  ["a text", () => "full", "full"],
  ["the loss itself", (loss: unknown) => loss, undefined],
  ["an error caused by the loss", (cause: unknown) => new Error("", { cause }), undefined],
])("is the cause of the loss that run rejects with: %s", async (_, ending, cause) => {
  const { env, clock, lines } = open();
  const leasehold = await connect("memory:", { env });
  let signal: AbortSignal | undefined;
  const run = leasehold.run("r", { ttlMs: TTL_MS }, (lease) => {
    ({ signal } = lease);
    return work(lease, ending);
  });
  const rejected = run.catch((error: unknown) => error);
  await clock.advance(100);
  await leasehold.revoke("r");
  await clock.advance(TTL_MS);
  const error = await rejected;
  expect(error).toBe(signal?.reason);
  expect(error).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
  expect((error as Error).cause).toBe(cause);
  expect(Object.keys(error as Error)).not.toContain("cause");
  expect(lines).toEqual([]);
  await leasehold.close();
});

it("is the cause of the loss that runIfLeader rejects with", async () => {
  const { env, clock, lines } = open();
  const leasehold = await connect("memory:", { env });
  const elector = leasehold.elector("r", { ttlMs: TTL_MS });
  const leaving = new AbortController();
  const write = vi.fn(() =>
    elector
      .runIfLeader((signal) => work({ signal }, () => REASON))
      .catch((error: unknown) => error),
  );
  const leading = elector.lead(async () => void (await write()), leaving);
  await clock.advance(100);
  await leasehold.revoke("r");
  await clock.advance(TTL_MS);
  expect(await write.mock.results[0]?.value).toMatchObject({ code: "LEASE_LOST", cause: REASON });
  expect(lines).toEqual([]);
  leaving.abort();
  await clock.advance(10_000);
  await leading;
  await leasehold.close();
});

it("is a warning where the loss has the failure of a renewal as its cause", async () => {
  const { env, clock, lines } = open();
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env, holder: "a" }, { close: undefined });
  const run = leases.run("r", { ttlMs: TTL_MS }, (lease) => work(lease, () => REASON));
  const rejected = run.catch((error: unknown) => error);
  await clock.advance(100);
  store.faults.renew = "refuse";
  await clock.advance(TTL_MS);
  expect(await rejected).toMatchObject({ reason: "expired", cause: { code: "STORE_UNAVAILABLE" } });
  expect(lines).toEqual([["warn", REASON]]);
  await leases.close();
});
