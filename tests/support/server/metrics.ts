/** Metrics as Prometheus would scrape them. */
import { METRICS, type MetricName } from "../../../packages/leasehold/src/env/index.js";
import { prometheusName } from "../../../packages/leasehold-server/src/cli/prometheus.js";

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** @throws Error for a line that is none of the format */
export function parseMetrics(text: string): Sample[] {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [, name, inner, value] = /^([a-zA-Z_]\w*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) throw new Error(`no sample: ${line}`);
    const pairs = [...(inner ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    return {
      name,
      labels: Object.fromEntries(pairs.map(([, label = "", of = ""]) => [label, of])),
      value: Number(value),
    };
  });
}

/** The sum of all samples of the name with these labels. */
export function valueOf(
  samples: readonly Sample[],
  name: string,
  labels: Sample["labels"] = {},
): number {
  return samples
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([key, of]) => sample.labels[key] === of))
    .reduce((sum, { value }) => sum + value, 0);
}

/** The metric's name in Prometheus, without the suffixes of a histogram. */
export function prometheusBase(name: MetricName): string {
  const { kind, unit } = METRICS[name];
  return prometheusName(name, unit, kind === "counter" || kind === "total");
}

/** The name of the sample that counts the metric's events, or has its value. */
export function sampleNameOf(name: MetricName): string {
  return prometheusBase(name) + (METRICS[name].kind === "histogram" ? "_count" : "");
}
