/** Maps our metrics and spans to OpenTelemetry through its API alone. The user chooses the SDK. */
import {
  type BatchObservableResult,
  type Context,
  createContextKey,
  context as current,
  type Link,
  type Meter,
  type MeterProvider,
  metrics,
  type Observable,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import {
  BOUNDARIES,
  type Clock,
  classOf,
  guardedTelemetry,
  isError,
  type LabelsOf,
  METRICS,
  type MeasureOptions,
  type MetricName,
  type MetricOf,
  type Observation,
  type OpenSpan,
  propertyOf,
  type SpanOptions,
  seriesOf,
  type Tallied,
  type Telemetry,
  type TraceContext,
} from "../env/index.js";
import { InvalidOptionError, type LeaseStore } from "../lease/index.js";
import type { TaskStore } from "../tasks/index.js";
import { measuredLeases } from "./leases.js";
import { measuredTasks } from "./tasks.js";
import { prefixOf, TopNames } from "./top-names.js";

/** Options of `openTelemetry`. */
export interface OpenTelemetryOptions {
  /** Default: the provider that is registered with the API at the time of this call. Register it before. */
  meterProvider?: MeterProvider;
  /** Default: the provider that is registered with the API. */
  tracerProvider?: TracerProvider;
  /**
   * How many segments of a resource the label `prefix` has; `/` and `:` separate them. With 2,
   * `tenant:billing:2026-04` counts as `tenant:billing`. Default 1; choose more if the first segment is the
   * same for all.
   */
  prefixDepth?: number;
  /**
   * Whether the labels `resource` and `election` carry names: those of the 20 with the largest counts. Default
   * true; with false all count together under the empty name, for programs whose resources are named after people.
   * The label `prefix` stays, and is the whole name of a resource without `/` or `:`.
   */
  names?: boolean;
}

const SCOPE = "leasehold";
const KINDS = {
  internal: SpanKind.INTERNAL,
  client: SpanKind.CLIENT,
  server: SpanKind.SERVER,
  consumer: SpanKind.CONSUMER,
} as const;
const LINKS = createContextKey("leasehold links");

/**
 * Telemetry for `connect` and `createApp`, passed as `env: { telemetry }`. Without a registered SDK it does nothing.
 * @param options the providers; default: those that are registered with OpenTelemetry's API
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { openTelemetry } from "leasehold/telemetry";
 *
 * const leasehold = await connect("memory:", { env: { telemetry: openTelemetry() } });
 * await leasehold.run("billing", () => "measured");
 * await leasehold.close();
 * ```
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  const meter = (options.meterProvider ?? metrics).getMeter(SCOPE);
  const tracer = (options.tracerProvider ?? trace).getTracer(SCOPE);
  const made = instruments(meter);
  const tallies = talliesOf(options);
  const observe: Telemetry["observe"] = (name, read) => {
    const instrument = made(name) as Observable;
    const callback = async (result: Pick<BatchObservableResult, "observe">) => {
      const observations: readonly Observation<MetricName>[] = await Promise.resolve()
        .then(read)
        .catch(() => []);
      for (const { value, labels } of observations) result.observe(instrument, value, labels);
    };
    meter.addBatchObservableCallback(callback, [instrument]);
    return () => meter.removeBatchObservableCallback(callback, [instrument]);
  };
  for (const { metric, label, top } of tallies) {
    observe(metric, () =>
      top.totals().map(({ name, count }) => ({ value: count, labels: labelled(label, name) })),
    );
  }

  const telemetry = guardedTelemetry({
    observe,
    measured<Store extends object>(
      what: "leases" | "tasks",
      store: Store,
      clock: Clock,
      measure?: MeasureOptions,
    ): Store {
      const measuring = { clock, telemetry };
      // Who passes one of them gets the same back.
      const made: object =
        what === "leases"
          ? measuredLeases(store as unknown as LeaseStore, measuring, measure)
          : measuredTasks(store as unknown as TaskStore, measuring);
      return made as Store;
    },
    tally(what, resource) {
      for (const tally of tallies) if (tally.what === what) tally.top.add(resource);
    },
    count: (name, labels, by = 1) => made(name).add(by, labels),
    change: (name, labels, by) => made(name).add(by, labels),
    measure: (name, labels, durationMs) => made(name).record(durationMs / 1_000, labels),

    async span<T>(name: string, { kind = "internal", ...rest }: SpanOptions, work: Work<T>) {
      const parent = (rest.parent as Context | undefined) ?? current.active();
      const links = (parent.getValue(LINKS) as Link[] | undefined) ?? [];
      const span = tracer.startSpan(
        name,
        { kind: KINDS[kind], attributes: { ...rest.attributes }, links },
        parent,
      );
      const inside = trace.setSpan(parent.deleteValue(LINKS), span);
      try {
        return await current.with(inside, () => work(opened(span)));
      } catch (error) {
        // Without the message: it may name a resource, and spans leave the system.
        span.setStatus({ code: SpanStatusCode.ERROR, message: codeOf(error) });
        throw error;
      } finally {
        span.end();
      }
    },
    here: () => current.active(),
    within(contexts, work) {
      const [first = ROOT_CONTEXT, ...others] = contexts as readonly Context[];
      return current.with(first.setValue(LINKS, linksOf(first, others)), work);
    },
    outgoing() {
      const headers: Record<string, string> = {};
      propagation.inject(current.active(), headers);
      return headers;
    },
    incoming: (header): TraceContext =>
      propagation.extract(ROOT_CONTEXT, header, {
        keys: () => ["traceparent", "tracestate"],
        get: (carrier, key) => carrier(key) ?? undefined,
      }),
  });
  return telemetry;
}

interface Tally {
  readonly what: Tallied;
  readonly metric: MetricOf<"total">;
  readonly label: "prefix" | "resource" | "election";
  readonly top: TopNames;
}

function talliesOf({ prefixDepth = 1, names = true }: OpenTelemetryOptions): Tally[] {
  if (!Number.isSafeInteger(prefixDepth) || prefixDepth < 1) {
    throw new InvalidOptionError("prefixDepth", "must be a whole number from 1 on");
  }
  const prefix = (resource: string) => prefixOf(resource, prefixDepth);
  const whole = (resource: string) => (names ? resource : "");
  const tally = (
    what: Tallied,
    metric: Tally["metric"],
    label: Tally["label"],
    nameOf: (resource: string) => string,
  ) => ({ what, metric, label, top: new TopNames(nameOf) });
  return [
    tally("contended", "leasehold.lease.contended", "prefix", prefix),
    tally("endangered", "leasehold.lease.endangered", "prefix", prefix),
    tally("contended", "leasehold.resource.contended", "resource", whole),
    tally("endangered", "leasehold.resource.endangered", "resource", whole),
    tally("terms", "leasehold.election.terms", "election", whole),
  ];
}

/** The labels of any metric of a {@link Tally}. */
function labelled(label: Tally["label"], name: string): LabelsOf<Tally["metric"]> {
  return { [label]: name };
}

type Work<T> = (span: OpenSpan) => Promise<T>;

interface Instruments {
  (name: MetricOf<"counter" | "upDown">): { add(by: number, labels: object): void };
  (name: MetricOf<"histogram">): { record(value: number, labels: object): void };
  (name: MetricName): Observable | object;
}

/**
 * Creates all instruments of the catalogue at once, and announces each series of a counter with zero: so
 * collectors see the increase of its first event.
 */
function instruments(meter: Meter): Instruments {
  const make = (name: MetricName) => {
    const { kind, unit, about: description } = METRICS[name];
    const described = { unit, description };
    switch (kind) {
      case "counter":
        return meter.createCounter(name, described);
      case "upDown":
        return meter.createUpDownCounter(name, described);
      case "histogram":
        return meter.createHistogram(name, {
          ...described,
          advice: { explicitBucketBoundaries: [...BOUNDARIES] },
        });
      case "gauge":
        return meter.createObservableGauge(name, described);
      case "total":
        return meter.createObservableCounter(name, described);
    }
  };
  const names = Object.keys(METRICS) as MetricName[];
  const byName = new Map<MetricName, object>(names.map((name) => [name, make(name)]));
  const made = ((name: MetricName) => byName.get(name)) as Instruments;
  for (const name of names)
    if (isAdded(name)) for (const labels of seriesOf(name)) made(name).add(0, labels);
  return made;
}

function isAdded(name: MetricName): name is MetricOf<"counter" | "upDown"> {
  return METRICS[name].kind === "counter" || METRICS[name].kind === "upDown";
}

/** Callers share a batched call. Its span is a child of the first caller's span, with links to the others. */
function linksOf(first: Context, others: readonly Context[]): Link[] {
  const links = new Map<string, Link>();
  for (const one of others) {
    const context = trace.getSpanContext(one);
    if (context) links.set(context.spanId, { context });
  }
  // Other requests of the first caller are below its span already.
  links.delete(trace.getSpanContext(first)?.spanId ?? "");
  return [...links.values()];
}

function opened(span: Span): OpenSpan {
  return {
    rename: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes({ ...attributes }),
    fail: () => void span.setStatus({ code: SpanStatusCode.ERROR }),
  };
}

function codeOf(error: unknown): string {
  if (!isError(error)) return "error";
  const code = propertyOf(error, "code");
  return typeof code === "string" ? code : classOf(error);
}
