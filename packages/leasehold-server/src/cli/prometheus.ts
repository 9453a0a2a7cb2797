/**
 * Writes metrics in Prometheus's text format 0.0.4. The names follow OpenTelemetry's mapping, so that
 * scraped metrics and metrics sent over OTLP form the same series:
 *
 *   leasehold.lease.hold.duration, s  ─▶ leasehold_lease_hold_duration_seconds{_bucket,_sum,_count}
 *   leasehold.fence.refusals, {write} ─▶ leasehold_fence_refusals_total
 */
import { DataPointType, type MetricData, type ResourceMetrics } from "@opentelemetry/sdk-metrics";

/** A histogram with the label sets that it may have. */
export interface Announced {
  readonly descriptor: Pick<MetricData["descriptor"], "name" | "unit" | "description">;
  readonly boundaries: number[];
  readonly series: readonly object[];
}

/**
 * @param announced histograms whose missing series are written with zero. The SDK does that for counters that
 *   are added zero, but has no empty histogram. Default: none.
 */
export function prometheusText(
  { scopeMetrics }: ResourceMetrics,
  announced: readonly Announced[] = [],
): string {
  const metrics = scopeMetrics.flatMap(({ metrics }) => metrics);
  const names = new Set(metrics.map(({ descriptor }) => descriptor.name));
  const empty = announced.filter(({ descriptor }) => !names.has(descriptor.name));
  const lines = [
    ...metrics.flatMap((metric) => linesOf(metric, announced)),
    ...empty.flatMap((histogram) => histogramLines(histogram.descriptor, emptyPoints(histogram))),
  ];
  return lines.map((one) => `${one}\n`).join("");
}

/** Returns the name of a metric; a histogram appends `_bucket`, `_sum` and `_count` to it. @internal */
export function prometheusName(name: string, unit: string, isCounter: boolean): string {
  const base = name.replaceAll(/[^a-zA-Z0-9_]/g, "_");
  const seconds = unit === "s" ? "_seconds" : "";
  const perSecond = unit.endsWith("/s") ? "_per_second" : "";
  const ratio = unit === "1" ? "_ratio" : "";
  return `${base}${seconds}${perSecond}${ratio}${isCounter ? "_total" : ""}`;
}

function linesOf(metric: MetricData, announced: readonly Announced[]): string[] {
  const { descriptor } = metric;
  const isCounter = metric.dataPointType === DataPointType.SUM && metric.isMonotonic;
  const name = prometheusName(descriptor.name, descriptor.unit, isCounter);
  const help = `# HELP ${name} ${escaped(descriptor.description)}`;
  switch (metric.dataPointType) {
    case DataPointType.SUM:
    case DataPointType.GAUGE:
      return [
        help,
        `# TYPE ${name} ${isCounter ? "counter" : "gauge"}`,
        ...metric.dataPoints.map(({ attributes, value }) => line(name, attributes, value)),
      ];
    case DataPointType.HISTOGRAM: {
      const known = announced.find((one) => one.descriptor.name === descriptor.name);
      const seen = new Set(metric.dataPoints.map(({ attributes }) => keyOf(attributes)));
      const missing = (known ? emptyPoints(known) : []).filter(
        ({ attributes }) => !seen.has(keyOf(attributes)),
      );
      return histogramLines(descriptor, [...metric.dataPoints, ...missing]);
    }
    case DataPointType.EXPONENTIAL_HISTOGRAM:
      // The server records no exponential histograms.
      return [help];
  }
}

interface Point {
  readonly attributes: object;
  readonly value: {
    readonly buckets: { readonly boundaries: number[]; readonly counts: number[] };
    readonly sum?: number | undefined;
    readonly count: number;
  };
}

function emptyPoints({ boundaries, series }: Announced): Point[] {
  const value = { buckets: { boundaries, counts: [] }, sum: 0, count: 0 };
  return series.map((attributes) => ({ attributes, value }));
}

function keyOf(labels: object): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function histogramLines(
  { name, unit, description }: Announced["descriptor"],
  points: readonly Point[],
): string[] {
  const shown = prometheusName(name, unit, false);
  return [
    `# HELP ${shown} ${escaped(description)}`,
    `# TYPE ${shown} histogram`,
    ...points.flatMap(histogramOf(shown)),
  ];
}

function histogramOf(name: string): (point: Point) => string[] {
  return ({ attributes, value: { buckets, sum, count } }) => {
    let cumulative = 0;
    const lines = buckets.boundaries.map((boundary, index) => {
      cumulative += buckets.counts[index] ?? 0;
      return line(`${name}_bucket`, { ...attributes, le: boundary }, cumulative);
    });
    return [
      ...lines,
      line(`${name}_bucket`, { ...attributes, le: "+Inf" }, count),
      line(`${name}_sum`, attributes, sum ?? 0),
      line(`${name}_count`, attributes, count),
    ];
  };
}

function line(name: string, labels: object, value: number): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) =>
      `${label.replaceAll(/[^a-zA-Z0-9_]/g, "_")}="${escaped(String(text)).replaceAll('"', '\\"')}"`,
  );
  return `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${value}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
