/** Metrics as Prometheus would scrape them. */

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
