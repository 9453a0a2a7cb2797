/**
 * OpenTelemetry's SDK for a server of our own: metrics for whoever scrapes /metrics, and both metrics
 * and traces for the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, whose exporters are installed
 * by those who use one. Loaded when a server starts, and by nothing else.
 */
import { context, propagation } from "@opentelemetry/api";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { openTelemetry, type Telemetry } from "leasehold/telemetry";
import { UsageError } from "./failures.js";
import { prometheusText } from "./prometheus.js";

export interface Exporting {
  readonly telemetry: Telemetry;
  /** All metrics in Prometheus's text format. */
  readonly metrics: () => Promise<string>;
  /** Sends what has not been sent yet. */
  close(): Promise<void>;
}

/** Collects when asked to. */
class Asked extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** @throws UsageError when a collector is named and its exporters are not installed */
export async function startOpenTelemetry(): Promise<Exporting> {
  const reader = new Asked();
  const otlp = endpointIsNamed() ? await openOtlp() : undefined;
  const meterProvider = new MeterProvider({
    readers: [reader, ...(otlp ? [otlp.reader] : [])],
    ...(otlp && { resource: otlp.resource }),
  });
  const telemetry = openTelemetry({
    meterProvider,
    ...(otlp && { tracerProvider: otlp.tracerProvider }),
  });
  return {
    telemetry,
    async metrics() {
      const { resourceMetrics } = await reader.collect();
      return prometheusText(resourceMetrics);
    },
    async close() {
      // A collector that does not answer must not make a server fail that has served.
      await Promise.allSettled([meterProvider.shutdown(), otlp?.tracerProvider.shutdown()]);
    },
  };
}

function endpointIsNamed(): boolean {
  return (process.env.OTEL_EXPORTER_OTLP_ENDPOINT ?? "") !== "";
}

const PACKAGES = [
  "context-async-hooks",
  "core",
  "exporter-metrics-otlp-http",
  "exporter-trace-otlp-http",
  "resources",
  "sdk-trace-base",
].map((name) => `@opentelemetry/${name}`);

/** By HTTP with JSON; the exporters read the rest of OTEL_EXPORTER_OTLP_* themselves. */
async function openOtlp() {
  const [hooks, core, metricsOtlp, tracesOtlp, resources, tracing] = await Promise.all([
    import("@opentelemetry/context-async-hooks"),
    import("@opentelemetry/core"),
    import("@opentelemetry/exporter-metrics-otlp-http"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/sdk-trace-base"),
  ]).catch((cause: unknown) => {
    throw new UsageError(
      `OTEL_EXPORTER_OTLP_ENDPOINT is set, but its exporters are not installed: npm install ${PACKAGES.join(" ")}`,
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
  const processor = new tracing.BatchSpanProcessor(new tracesOtlp.OTLPTraceExporter());
  return {
    resource,
    reader: new PeriodicExportingMetricReader({ exporter: new metricsOtlp.OTLPMetricExporter() }),
    tracerProvider: new tracing.BasicTracerProvider({ resource, spanProcessors: [processor] }),
  };
}
