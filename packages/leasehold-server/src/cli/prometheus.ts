/**
 * Writes metrics in Prometheus's text format 0.0.4. The names follow OpenTelemetry's mapping, so that
 * scraped metrics and metrics sent over OTLP form the same series:
 *
 *   leasehold.lease.hold.duration, s  ─▶ leasehold_lease_hold_duration_seconds{_bucket,_sum,_count}
 *   leasehold.fence.refusals, {write} ─▶ leasehold_fence_refusals_total
 */
import { DataPointType, type MetricData, type ResourceMetrics } from "@opentelemetry/sdk-metrics";

export function prometheusText({ scopeMetrics }: ResourceMetrics): string {
  const metrics = scopeMetrics.flatMap(({ metrics }) => metrics);
  return metrics.map((metric) => `${linesOf(metric).join("\n")}\n`).join("");
}

/** Returns the name of a metric; a histogram appends `_bucket`, `_sum` and `_count` to it. @internal */
export function prometheusName(name: string, unit: string, isCounter: boolean): string {
  const base = name.replaceAll(/[^a-zA-Z0-9_]/g, "_");
  const seconds = unit === "s" ? "_seconds" : "";
  const perSecond = unit.endsWith("/s") ? "_per_second" : "";
  return `${base}${seconds}${perSecond}${isCounter ? "_total" : ""}`;
}

function linesOf(metric: MetricData): string[] {
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
    case DataPointType.HISTOGRAM:
      return [help, `# TYPE ${name} histogram`, ...metric.dataPoints.flatMap(histogramOf(name))];
    case DataPointType.EXPONENTIAL_HISTOGRAM:
      // The server records no exponential histograms.
      return [help];
  }
}

type HistogramPoint = Extract<
  MetricData,
  { dataPointType: DataPointType.HISTOGRAM }
>["dataPoints"][number];

function histogramOf(name: string): (point: HistogramPoint) => string[] {
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
