/** What a trace shows of a call: from a caller through the network and the server to the store. */
import { context, propagation, SpanStatusCode } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import {
  connect,
  defineTask,
  type Leasehold,
  openStores,
  type Stores,
  type Tasks,
} from "../../packages/leasehold/src/index.js";
import {
  openTelemetry,
  type Telemetry,
} from "../../packages/leasehold/src/instrumentation/index.js";
import {
  createApp,
  type Listening,
  listen,
} from "../../packages/leasehold-server/src/http/index.js";

const CANARY = "canary-9b77";
const exporter = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
let telemetry: Telemetry;
let stores: Stores;
let server: Listening;
let leases: Leasehold;
let tasks: Tasks;

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  telemetry = openTelemetry({ tracerProvider });
  stores = await openStores("memory:traces");
  const app = createApp({ ...stores, env: { telemetry }, auth: "ifAny", version: "test" });
  server = await listen({ app, port: 0 });
  const options = { env: { telemetry }, holder: `${CANARY}-holder` };
  leases = await connect(server.url, options);
  tasks = leases.tasks;
});
afterAll(async () => {
  await leases.close();
  await server.close();
  await stores.close();
  await tracerProvider.shutdown();
  context.disable();
  propagation.disable();
});
beforeEach(() => exporter.reset());

/** The span that ended with this name, whose ancestor, if one is given, is that. */
function spanOf(name: string, above?: ReadableSpan): ReadableSpan {
  const spans = exporter.getFinishedSpans();
  const found = spans.filter((span) => span.name === name && (!above || isBelow(span, above)));
  expect(found.length, `${name} of ${spans.map((span) => span.name).join(", ")}`).toBe(1);
  return found[0] as ReadableSpan;
}
function parentOf(span: ReadableSpan): ReadableSpan | undefined {
  const id = span.parentSpanContext?.spanId;
  return exporter.getFinishedSpans().find((other) => other.spanContext().spanId === id);
}
function isBelow(span: ReadableSpan, above: ReadableSpan): boolean {
  const parent = parentOf(span);
  return parent !== undefined && (parent === above || isBelow(parent, above));
}
/** Its own name, and those of its ancestors up to the root. */
function lineOf(span: ReadableSpan | undefined): string[] {
  return span ? [...lineOf(parentOf(span)), span.name] : [];
}

it("an acquire goes from the caller over HTTP to the server's store", async () => {
  const lease = await leases.acquire(`${CANARY}/a`);
  const root = spanOf("leasehold acquire");
  expect(root.attributes).toEqual({ "leasehold.outcome": "acquired" });
  const served = spanOf("POST /v1/leases/acquire");
  const [inner] = exporter.getFinishedSpans().filter((span) => parentOf(span) === served);
  expect(lineOf(inner)).toEqual([
    "leasehold acquire",
    "leasehold.store acquire",
    "POST",
    "POST /v1/leases/acquire",
    "leasehold.store acquire",
  ]);
  expect(served.spanContext().traceId).toBe(root.spanContext().traceId);
  expect(served.attributes).toEqual({
    "http.request.method": "POST",
    "http.route": "/v1/leases/acquire",
    "http.response.status_code": 200,
  });
  await lease.release();
});

it("who asks under a span of the program's own is below it", async () => {
  const own = tracerProvider.getTracer("program");
  await own.startActiveSpan("order", async (span) => {
    await leases.run(`${CANARY}/b`, async () => {});
    span.end();
  });
  const order = spanOf("order");
  expect(spanOf("leasehold acquire").parentSpanContext?.spanId).toBe(order.spanContext().spanId);
  expect(isBelow(spanOf("POST /v1/leases/release"), order)).toBe(true);
});

it("callers whose requests share a batch are linked to it, the first being above it", async () => {
  const before = Promise.all([leases.tryAcquire(`${CANARY}/c`), leases.tryAcquire(`${CANARY}/d`)]);
  for (const lease of await before) await lease?.release();
  const callers = exporter.getFinishedSpans().filter(({ name }) => name === "leasehold acquire");
  const batch = exporter
    .getFinishedSpans()
    .find((span) => callers.includes(parentOf(span) as ReadableSpan)) as ReadableSpan;
  expect(batch.attributes["leasehold.requests"]).toBe(2);
  const related = [parentOf(batch)?.spanContext().spanId, ...batch.links.map(linkedTo)];
  expect(related).toEqual(callers.map((span) => span.spanContext().spanId));
});

it("a batch shows how many requests it has, and how many are in flight", async () => {
  const names = Array.from({ length: 90 }, (_, at) => `${CANARY}/many-${at}`);
  const held = await Promise.all(names.map((name) => leases.tryAcquire(name)));
  const spans = exporter.getFinishedSpans();
  const callers = spans.filter(({ name }) => name === "leasehold acquire");
  const batches = spans.filter((span) => callers.includes(parentOf(span) as ReadableSpan));
  const valuesOf = (name: string) => batches.map(({ attributes }) => attributes[name]);
  expect(valuesOf("leasehold.requests")).toEqual([45, 45]);
  expect(valuesOf("leasehold.in_flight").sort()).toEqual([1, 2]);
  for (const lease of held) await lease?.release();
});

it("a batch has one link for all requests of another caller, and none to the one that is above it", async () => {
  const ids = ["g", "h", "i", "j"].map((id) => `${CANARY}/${id}`);
  const held = await Promise.all(ids.map((id) => leases.acquire(id)));
  const release = (at: number) => held[at]?.release() ?? Promise.reject(new Error("not held"));
  exporter.reset();
  await Promise.all([
    telemetry.span("one caller", {}, () => Promise.all([release(0), release(1)])),
    telemetry.span("another caller", {}, () => Promise.all([release(2), release(3)])),
  ]);
  const first = spanOf("one caller");
  const batches = exporter.getFinishedSpans().filter((span) => parentOf(span) === first);
  expect(batches.map(({ name, links }) => [name, links.map(linkedTo)])).toEqual([
    ["leasehold.store release", [spanOf("another caller").spanContext().spanId]],
  ]);
});

it("a failed call fails its span, and says no more than a code", async () => {
  const held = await leases.acquire(`${CANARY}/e`);
  await expect(leases.acquire(`${CANARY}/e`, { waitMs: 0 })).rejects.toThrow(CANARY);
  await held.release();
  const [failed] = exporter
    .getFinishedSpans()
    .filter(({ status }) => status.code === SpanStatusCode.ERROR);
  expect(failed?.name).toBe("leasehold acquire");
  expect(failed?.status.message).toBe("LEASE_UNAVAILABLE");
});

it("a task runs below its claim, and its handler's own calls below that", async () => {
  const kind = defineTask("trace");
  const worked = new Promise<void>((resolve) => {
    tasks.work(
      [
        kind.handle(async () => {
          await leases.run(`${CANARY}/f`, async () => {});
          resolve();
        }),
      ],
      { concurrency: 1 },
    );
  });
  const { id } = await tasks.enqueue(kind, { canary: CANARY });
  await worked;
  await expect.poll(() => names().includes("leasehold.task run")).toBe(true);
  const run = spanOf("leasehold.task run");
  expect(run.attributes).toEqual({ "leasehold.task.id": id, "leasehold.task.kind": "trace" });
  expect(lineOf(run)).toEqual(["leasehold.task claim", "leasehold.task run"]);
  expect(isBelow(spanOf("leasehold acquire"), run)).toBe(true);
  const reported = exporter
    .getFinishedSpans()
    .filter(({ name }) => name === "leasehold.store complete");
  expect(reported.map((span) => isBelow(span, run))).toEqual([true, true]);
  // No task carries a trace: who enqueued it is found by its id.
  const enqueued = spanOf("leasehold.task enqueue");
  expect(enqueued.attributes).toEqual(run.attributes);
  expect(enqueued.spanContext().traceId).not.toBe(run.spanContext().traceId);
});

it("no span names a lease, a resource, a holder or what a task carries", async () => {
  const lease = await leases.acquire(`${CANARY}/g`);
  await lease.renew();
  const { leaseId } = lease;
  await lease.release();
  await fetch(`${server.url}/v1/locks/${leaseId}`, { method: "DELETE" });
  const all = exporter.getFinishedSpans().map(({ name, attributes, status, events, links }) => ({
    name,
    attributes,
    status,
    events,
    links: links.map(({ attributes: of }) => of),
  }));
  expect(all.length).toBeGreaterThan(5);
  const text = JSON.stringify(all);
  expect(text).not.toContain(CANARY);
  expect(text).not.toContain(leaseId);
  expect(text).toContain("/v1/locks/{leaseId}");
});

function names(): string[] {
  return exporter.getFinishedSpans().map(({ name }) => name);
}

function linkedTo({ context: { spanId } }: ReadableSpan["links"][number]): string {
  return spanId;
}
