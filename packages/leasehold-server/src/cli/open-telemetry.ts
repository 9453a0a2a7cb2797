/**
 * OpenTelemetry's SDK for servers and holders: metrics for the scraper of /metrics, and metrics and traces for
 * the collector that the OTEL_* variables name. The operator installs the exporters for a collector. Only
 * commands that serve or send metrics load this file.
 */
import { context, propagation } from "@opentelemetry/api";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BOUNDARIES,
  METRICS,
  type MetricName,
  seriesOf,
  systemClock,
  withTimeout,
} from "leasehold/internal";
import { type OpenTelemetryOptions, openTelemetry, type Telemetry } from "leasehold/telemetry";
import { collectorIsNamed, isSent } from "./collector.js";
import { exportsAsNotices, type NotifyExport, noticing } from "./export-notices.js";
import { UsageError } from "./failures.js";
import { notifier } from "./notices.js";
import { type Announced, prometheusText } from "./prometheus.js";

export interface Exporting {
  readonly telemetry: Telemetry;
  /** All metrics in Prometheus's text format. */
  readonly metrics: () => Promise<string>;
  /** Sends the metrics and traces that are still buffered. */
  close(): Promise<void>;
}

const announced: readonly Announced[] = (Object.keys(METRICS) as MetricName[])
  .filter((name) => METRICS[name].kind === "histogram")
  .map((name) => {
    const { unit, about: description } = METRICS[name];
    const boundaries = [...BOUNDARIES];
    return { descriptor: { name, unit, description }, boundaries, series: seriesOf(name) };
  });

/** Collects on request. */
class ManualReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/**
 * @param names which names appear in metrics
 * @param options.collector whether to send to it; default: if the environment names one
 * @param options.notify is called when the collector stops taking what is sent; default: writes to stderr
 * @throws UsageError if a collector is named and its exporters are not installed
 */
export async function startOpenTelemetry(
  names: Pick<OpenTelemetryOptions, "prefixDepth" | "names"> = {},
  {
    collector = collectorIsNamed(),
    notify = exportsAsNotices(notifier(false)),
  }: { readonly collector?: boolean; readonly notify?: NotifyExport } = {},
): Promise<Exporting> {
  const reader = new ManualReader();
  const otlp = collector ? await openOtlp(notify) : undefined;
  const meterProvider = new MeterProvider({
    readers: [reader, ...(otlp && isSent("METRICS") ? [otlp.reader()] : [])],
    ...(otlp && { resource: otlp.resource }),
  });
  const tracerProvider = otlp && isSent("TRACES") ? otlp.tracerProvider() : undefined;
  const telemetry = openTelemetry({
    meterProvider,
    ...names,
    ...(tracerProvider && { tracerProvider }),
  });
  return {
    telemetry,
    async metrics() {
      const { resourceMetrics } = await reader.collect();
      return prometheusText(resourceMetrics, announced);
    },
    async close() {
      // An unavailable collector must neither make the shutdown fail nor delay the exit of a command.
      const sent = Promise.allSettled([meterProvider.shutdown(), tracerProvider?.shutdown()]);
      await withTimeout(systemClock, CLOSE_TIMEOUT_MS, sent, () => {
        const err = new Error(`no answer within ${CLOSE_TIMEOUT_MS / 1_000} s`);
        const message = "the collector did not take the last metrics and traces";
        notify({ event: "export_failed", message, err });
      });
    },
  };
}

const CLOSE_TIMEOUT_MS = 2_000;

const PACKAGES = [
  "context-async-hooks",
  "core",
  "exporter-metrics-otlp-http",
  "exporter-trace-otlp-http",
  "resources",
  "sdk-trace-base",
].map((name) => `@opentelemetry/${name}`);

/** OpenTelemetry's reader does not read its variable. */
function interval(): { readonly exportIntervalMillis?: number } {
  const exportIntervalMillis = Number(process.env["OTEL_METRIC_EXPORT_INTERVAL"]);
  return exportIntervalMillis > 0 ? { exportIntervalMillis } : {};
}

/** Exports over HTTP with JSON. The exporters read the other OTEL_EXPORTER_OTLP_* variables themselves. */
async function openOtlp(notify: NotifyExport) {
  const [hooks, core, metricsOtlp, tracesOtlp, resources, tracing] = await Promise.all([
    import("@opentelemetry/context-async-hooks"),
    import("@opentelemetry/core"),
    import("@opentelemetry/exporter-metrics-otlp-http"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/sdk-trace-base"),
  ]).catch((cause: unknown) => {
    throw new UsageError(
      `the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT), but its exporters are not installed: npm install ${PACKAGES.join(" ")}`,
      { cause },
    );
  });
  const { PeriodicExportingMetricReader } = await import("@opentelemetry/sdk-metrics");
  const resource = resources.defaultResource().merge(
    resources.resourceFromAttributes({
      "service.name": process.env.OTEL_SERVICE_NAME ?? "leasehold",
    }),
  );
  context.setGlobalContextManager(new hooks.AsyncLocalStorageContextManager());
  propagation.setGlobalPropagator(new core.W3CTraceContextPropagator());
  return {
    resource,
    reader() {
      const exporter = noticing(new metricsOtlp.OTLPMetricExporter(), "metrics", notify);
      return new PeriodicExportingMetricReader({ exporter, ...interval() });
    },
    tracerProvider() {
      const exporter = noticing(new tracesOtlp.OTLPTraceExporter(), "traces", notify);
      const processor = new tracing.BatchSpanProcessor(exporter);
      return new tracing.BasicTracerProvider({ resource, spanProcessors: [processor] });
    },
  };
}
