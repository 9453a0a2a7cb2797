/** Which signals the environment asks to send to a collector, by the variables of OpenTelemetry. */

/** Whether the variables name a collector of metrics or of traces. */
export function collectorIsNamed(): boolean {
  return isSent("METRICS") || isSent("TRACES");
}

/** Whether metrics, or traces, have an endpoint: one of their own, or that of all signals. */
export function isSent(signal: "METRICS" | "TRACES"): boolean {
  const { env } = process;
  if (env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  // A list of exporters, of which this program has one.
  const wanted = env[`OTEL_${signal}_EXPORTER`]?.toLowerCase().match(/[^\s,]+/g);
  if (wanted && !wanted.includes("otlp")) return false;
  const own = env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] ?? "";
  return own !== "" || (env["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "") !== "";
}
