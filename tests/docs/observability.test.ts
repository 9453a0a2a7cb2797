/** docs/observability.md describes each metric as the catalogue does. */
import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { METRICS, type MetricName } from "../../packages/leasehold/src/env/index.js";
import { prometheusBase } from "../support/server/metrics.js";

it("has a row for each metric", async () => {
  const page = await readFile(new URL("../../docs/observability.md", import.meta.url), "utf8");
  for (const name of Object.keys(METRICS) as MetricName[]) expect(page).toContain(rowOf(name));
});

const KINDS = { counter: "counter", total: "counter", upDown: "gauge" } as const;

function rowOf(name: MetricName): string {
  const { kind, unit, about, labels } = METRICS[name];
  const shown = Object.entries(labels as Record<string, readonly string[] | null>).map(
    ([label, values]) => {
      const listed = values ? `: ${values.map((value) => `\`${value}\``).join(" ")}` : "";
      return `\`${label.replaceAll(".", "_")}\`${listed}`;
    },
  );
  const type = kind in KINDS ? KINDS[kind as keyof typeof KINDS] : kind;
  return `| \`${name}\` | \`${prometheusBase(name)}\` | ${type} | ${unit.replaceAll(/[{}]/g, "")} | ${shown.join("; ") || "-"} | ${about} |`;
}
