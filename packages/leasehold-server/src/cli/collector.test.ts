import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { collectorIsNamed, isSent } from "./collector.js";

const ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
const NAMES = [
  ENDPOINT,
  "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
  "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
  "OTEL_METRICS_EXPORTER",
  "OTEL_TRACES_EXPORTER",
  "OTEL_SDK_DISABLED",
];

beforeEach(() => {
  for (const name of NAMES) vi.stubEnv(name, undefined);
});
afterEach(() => vi.unstubAllEnvs());

const URL = "http://collector:4318";
const ALL = { [ENDPOINT]: URL };

it.each<[object, metrics: boolean, traces: boolean]>([
  [{}, false, false],
  [ALL, true, true],
  [{ [ENDPOINT]: "" }, false, false],
  [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: URL }, true, false],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: URL }, false, true],
  [{ ...ALL, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "" }, true, true],
  [{ ...ALL, OTEL_METRICS_EXPORTER: "none" }, false, true],
  [{ ...ALL, OTEL_TRACES_EXPORTER: "NONE" }, true, false],
  [{ ...ALL, OTEL_METRICS_EXPORTER: "prometheus, OTLP", OTEL_TRACES_EXPORTER: "" }, true, true],
  [{ ...ALL, OTEL_METRICS_EXPORTER: "prometheus", OTEL_TRACES_EXPORTER: "zipkin" }, false, false],
  [{ OTEL_METRICS_EXPORTER: "otlp", OTEL_TRACES_EXPORTER: "otlp" }, false, false],
  [{ ...ALL, OTEL_SDK_DISABLED: "True" }, false, false],
  [{ ...ALL, OTEL_SDK_DISABLED: "false" }, true, true],
])("with %o, metrics are sent: %s, traces: %s", (env, metrics, traces) => {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value as string);
  expect([isSent("METRICS"), isSent("TRACES")]).toEqual([metrics, traces]);
  expect(collectorIsNamed()).toBe(metrics || traces);
});
