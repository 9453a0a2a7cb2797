/**
 * Where measurements and traces go, as a value: `leasehold/telemetry` makes one of OpenTelemetry.
 * No code here imports that package, so a program without it loads none of it and only pays for the
 * test of an absent property.
 */
import type { Clock } from "./clock.js";
import { guarded, isPromise } from "./guarded.js";
import type { LabelsOf, MetricName, MetricOf } from "./metrics.js";
import { warningLogger } from "./warnings.js";

/** One value of a metric that is asked for when it is collected. */
export interface Observation<Name extends MetricName> {
  readonly value: number;
  readonly labels: LabelsOf<Name>;
}

/** What a span is known to say. Never a lease id, a key, a resource or a holder. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** Options of a new span. */
export interface SpanOptions {
  /** `client` and `server` are the two ends of a call over the network. Default `internal`. */
  readonly kind?: "internal" | "client" | "server" | "consumer";
  /** What it says. Default: nothing. */
  readonly attributes?: SpanAttributes;
  /** What it belongs to, of `here()`; default what is current. */
  readonly parent?: TraceContext;
}

/** A span while its work runs. */
export interface OpenSpan {
  /** By what it turned out to be. */
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** It did not come to what it was for, though it threw nothing. */
  fail(): void;
}

/** Of what is current: opaque, to be handed on. */
export type TraceContext = object;

/** What is counted by resource. */
export type Tallied = "contended" | "endangered" | "terms";

/** How a store is measured. */
export interface MeasureOptions {
  /**
   * Whether the holders are in other processes, so that their losses and hold times are derived from
   * their requests. Default false: the leases of this process report them.
   */
  readonly serves?: boolean;
  /** The only namespace whose resources may appear in metrics. Default: all. */
  readonly namesOf?: string;
}

/** What measures a client or a server: a value of `openTelemetry()` from `leasehold/telemetry`. */
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
  /** One duration, given in milliseconds and exported in seconds. */
  measure<Name extends MetricOf<"histogram">>(
    name: Name,
    labels: LabelsOf<Name>,
    durationMs: number,
  ): void;
  /**
   * Reads at each collection of metrics, until the returned function is called. A rejected read is skipped.
   */
  observe<Name extends MetricOf<"gauge" | "total">>(
    name: Name,
    read: () => readonly Observation<Name>[] | Promise<readonly Observation<Name>[]>,
  ): () => void;
  /**
   * Counts one event of a resource: a refused attempt, a failed renewal, the term of an election. Only the
   * resources and prefixes with the largest counts are exported; `""` counts as none of them.
   */
  tally(what: Tallied, resource: string): void;
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

const NO_SPAN: OpenSpan = { rename() {}, set() {}, fail() {} };

/** By the telemetry of the program. One that is guarded already is its own. */
const GUARDED = new WeakMap<Telemetry, Telemetry>();

/** The same telemetry, which never throws: what it measures goes on without it. A warning of the process says so, once. */
export function guardedTelemetry(telemetry: Telemetry): Telemetry {
  const known = GUARDED.get(telemetry);
  if (known) return known;
  const logger = warningLogger();
  const failed = (err: unknown) => logger.warn({ err }, "the telemetry threw");
  const did = (call: () => unknown) => guarded(call, failed);
  const asked = <T>(call: () => T, otherwise: T): T => {
    let answer = otherwise;
    did(() => {
      const given = call();
      // A method that should not be async has one: its answer comes too late.
      if (isPromise(given)) return given;
      answer = given;
    });
    return answer;
  };
  const made: Telemetry = {
    measured: (what, store, clock, options) =>
      asked(() => telemetry.measured(what, store, clock, options), store),
    count: (name, labels, by) => did(() => telemetry.count(name, labels, by)),
    change: (name, labels, by) => did(() => telemetry.change(name, labels, by)),
    measure: (name, labels, durationMs) => did(() => telemetry.measure(name, labels, durationMs)),
    observe(name, read) {
      const stop = asked(() => telemetry.observe(name, read), undefined);
      return () => did(() => stop?.());
    },
    tally: (what, resource) => did(() => telemetry.tally(what, resource)),
    async span<T>(name: string, options: SpanOptions, work: (span: OpenSpan) => Promise<T>) {
      let result: Promise<T> | undefined;
      // Asynchronous, so that an error of the work is in its result, and the work runs once.
      const begin = async (span: OpenSpan) => work(span);
      const run = (span: OpenSpan) => (result ??= begin(guardedSpan(span, did)));
      try {
        await telemetry.span(name, options, run);
      } catch (error) {
        if (!result) failed(error);
      }
      return result ?? work(NO_SPAN);
    },
    here: () => asked(() => telemetry.here(), {}),
    within<T>(contexts: readonly TraceContext[], work: () => T): T {
      let result: (() => T) | undefined;
      const run = () => {
        result = outcomeOf(work);
      };
      did(() => telemetry.within(contexts, run));
      return (result ?? work)();
    },
    outgoing: () => asked(() => telemetry.outgoing(), {}),
    incoming: (header) => asked(() => telemetry.incoming(header), {}),
  };
  GUARDED.set(telemetry, made);
  GUARDED.set(made, made);
  return made;
}

function guardedSpan(span: OpenSpan, did: (call: () => void) => void): OpenSpan {
  return {
    rename: (name) => did(() => span.rename(name)),
    set: (attributes) => did(() => span.set(attributes)),
    fail: () => did(() => span.fail()),
  };
}

/** Does it now. What it returned or threw comes later. */
function outcomeOf<T>(work: () => T): () => T {
  try {
    const value = work();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}
