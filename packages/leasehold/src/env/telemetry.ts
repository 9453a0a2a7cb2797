/**
 * Where measurements and traces go, as a value: `leasehold/telemetry` makes one of OpenTelemetry.
 * Nothing here knows that package, so whoever has no use for it loads nothing of it and pays the
 * test of an absent property.
 */
import type { Clock } from "./clock.js";
import type { LabelsOf, MetricName, MetricOf } from "./metrics.js";

/** One value of a metric that is asked for when it is collected. */
export interface Observation<Name extends MetricName> {
  readonly value: number;
  readonly labels: LabelsOf<Name>;
}

/** What a span is known to say. Never a lease id, a key, a resource or a holder. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

export interface SpanOptions {
  /** `client` and `server` are the two ends of a call over the network. Default `internal`. */
  readonly kind?: "internal" | "client" | "server" | "consumer";
  readonly attributes?: SpanAttributes;
  /** What it belongs to, of `here()`; default what is current. */
  readonly parent?: TraceContext;
}

/** The work that a span stands for, while it runs. */
export interface OpenSpan {
  /** By what it turned out to be. */
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** It did not come to what it was for, though it threw nothing. */
  fail(): void;
}

/** Of what is current: opaque, to be handed on. */
export type TraceContext = object;

/** How a store is measured. */
export interface MeasureOptions {
  /**
   * The holders are elsewhere, and their losses and how long they held are told by what they ask for.
   * Default false: they are told by the leases themselves.
   */
  readonly serves?: boolean;
  /** Of resources of other namespaces nothing is told to those who read metrics. Default: of none. */
  readonly prefixesOf?: string;
}

export interface Telemetry {
  /**
   * The same store, whose calls are counted, timed and traced. Its type is its user's business: this
   * knows of no stores.
   */
  measured<Store extends object>(
    what: "leases" | "tasks",
    store: Store,
    clock: Clock,
    options?: MeasureOptions,
  ): Store;
  /** Adds to a counter. */
  count<Name extends MetricOf<"counter">>(name: Name, labels: LabelsOf<Name>, by?: number): void;
  /** Adds to, or takes from, what there is now. */
  change<Name extends MetricOf<"upDown">>(name: Name, labels: LabelsOf<Name>, by: 1 | -1): void;
  /** One duration, in milliseconds as all of ours; told in seconds. */
  measure<Name extends MetricOf<"histogram">>(
    name: Name,
    labels: LabelsOf<Name>,
    durationMs: number,
  ): void;
  /**
   * Asks whenever metrics are collected, until the returned function is called. What rejects is not told.
   */
  observe<Name extends MetricOf<"gauge" | "total">>(
    name: Name,
    read: () => readonly Observation<Name>[] | Promise<readonly Observation<Name>[]>,
  ): () => void;
  /** One more attempt or renewal that went wrong for a resource, of which only its beginning is told. */
  blame(what: "contended" | "endangered", resource: string): void;
  /** Does the work under a span of its own. What it throws fails the span. */
  span<T>(name: string, options: SpanOptions, work: (span: OpenSpan) => Promise<T>): Promise<T>;
  /** What is current, for work that is done later or by others. */
  here(): TraceContext;
  /** Does the work as if in the first of these; its first span is linked to the others. */
  within<T>(contexts: readonly TraceContext[], work: () => T): T;
  /** Headers that carry what is current to whom we call (W3C `traceparent`). */
  outgoing(): Readonly<Record<string, string>>;
  /** What a caller's headers say of it. */
  incoming(header: (name: string) => string | null): TraceContext;
}
