import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { expect, it } from "vitest";
import { prometheusText } from "./prometheus.js";

class ManualReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

it("writes counters, gauges and histograms in the format of Prometheus", async () => {
  const reader = new ManualReader();
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  meter.createCounter("a.count", { unit: "{thing}", description: "Of\nthings." }).add(2, {
    "http.route": 'say "\\"',
  });
  meter.createUpDownCounter("b.now").add(-1);
  meter
    .createHistogram("c.duration", { unit: "s", advice: { explicitBucketBoundaries: [0.1, 1] } })
    .record(0.5);
  meter.createObservableGauge("d.rate", { unit: "{task}/s" }).addCallback((to) => to.observe(1.5));
  const { resourceMetrics } = await reader.collect();
  expect(prometheusText(resourceMetrics)).toBe(`# HELP a_count_total Of\\nthings.
# TYPE a_count_total counter
a_count_total{http_route="say \\"\\\\\\""} 2
# HELP b_now 
# TYPE b_now gauge
b_now -1
# HELP c_duration_seconds 
# TYPE c_duration_seconds histogram
c_duration_seconds_bucket{le="0.1"} 0
c_duration_seconds_bucket{le="1"} 1
c_duration_seconds_bucket{le="+Inf"} 1
c_duration_seconds_sum 0.5
c_duration_seconds_count 1
# HELP d_rate_per_second 
# TYPE d_rate_per_second gauge
d_rate_per_second 1.5
`);
});

it("writes each announced series of a histogram once, with zeros until it has values", async () => {
  const reader = new ManualReader();
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  const descriptor = { name: "c.duration", unit: "s", description: "" };
  const never = { ...descriptor, name: "never.duration" };
  const boundaries = [1, 2];
  const series = [
    { of: "a", to: "x" },
    { of: "b", to: "x" },
  ];
  const announced = [descriptor, never].map((one) => ({ descriptor: one, boundaries, series }));
  const countsOf = async () => {
    const { resourceMetrics } = await reader.collect();
    const text = prometheusText(resourceMetrics, announced);
    return text.split("\n").filter((line) => /_count|le="2"/.test(line));
  };
  const zeros = (name: string, of: string) => [
    `${name}_bucket{of="${of}",to="x",le="2"} 0`,
    `${name}_count{of="${of}",to="x"} 0`,
  ];
  const ofNever = ["a", "b"].flatMap((of) => zeros("never_duration_seconds", of));
  const none = ["a", "b"].flatMap((of) => zeros("c_duration_seconds", of));
  expect(await countsOf()).toEqual([...none, ...ofNever]);
  const histogram = meter.createHistogram("c.duration", {
    unit: "s",
    advice: { explicitBucketBoundaries: boundaries },
  });
  for (const value of [0.5, 1.5, 3]) histogram.record(value, { to: "x", of: "b" });
  expect(await countsOf()).toEqual([
    'c_duration_seconds_bucket{to="x",of="b",le="2"} 2',
    'c_duration_seconds_count{to="x",of="b"} 3',
    ...zeros("c_duration_seconds", "a"),
    ...ofNever,
  ]);
});
