/** Telemetry that keeps what it is given, without OpenTelemetry. */
import type { SpanAttributes, Telemetry } from "../../../packages/leasehold/src/env/index.js";

interface RecordedSpan {
  name: string;
  attributes: SpanAttributes;
  outcome: "open" | "ok" | "failed";
}

export function recordedTelemetry() {
  /** In their order: `count`, `change` and `measure` by metric, `tally` by what is tallied. */
  const figures: (readonly [name: string, of: object | string, value: number])[] = [];
  const spans: RecordedSpan[] = [];
  const reads = new Map<string, () => unknown>();
  const telemetry: Telemetry = {
    measured: (_what, store) => store,
    count: (name, labels, by = 1) => void figures.push([name, labels, by]),
    change: (name, labels, by) => void figures.push([name, labels, by]),
    measure: (name, labels, durationMs) => void figures.push([name, labels, durationMs]),
    tally: (what, resource) => void figures.push([what, resource, 1]),
    observe(name, read) {
      reads.set(name, read);
      return () => reads.delete(name);
    },
    async span(name, { attributes = {} }, work) {
      const span: RecordedSpan = { name, attributes, outcome: "open" };
      spans.push(span);
      try {
        const value = await work({
          rename: (renamed) => (span.name = renamed),
          set: (more) => (span.attributes = { ...span.attributes, ...more }),
          fail: () => (span.outcome = "failed"),
        });
        if (span.outcome === "open") span.outcome = "ok";
        return value;
      } catch (error) {
        span.outcome = "failed";
        throw error;
      }
    },
    here: () => ({}),
    within: (_contexts, work) => work(),
    outgoing: () => ({}),
    incoming: () => ({}),
  };
  /** The values of one figure, with its labels. */
  const valuesOf = (wanted: string) =>
    figures.flatMap(([name, of, value]) => (name === wanted ? [[of, value] as const] : []));
  /** What a collection of metrics reads now. */
  const collect = async (wanted: string) => await reads.get(wanted)?.();
  return { telemetry, spans, valuesOf, collect };
}
