/**
 * The alerts and the dashboard of deploy/. Prometheus's own tool evaluates the rules over series that a server
 * exports, and each selector names a metric and labels that exist.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { METRICS, type MetricName } from "../../packages/leasehold/src/env/index.js";
import { connect, openStores } from "../../packages/leasehold/src/index.js";
import { startOpenTelemetry } from "../../packages/leasehold-server/src/cli/open-telemetry.js";
import { prometheusName } from "../../packages/leasehold-server/src/cli/prometheus.js";
import { createApp, listen } from "../../packages/leasehold-server/src/http/index.js";
import { parseMetrics, type Sample } from "../support/server/metrics.js";
import { type AlertCase, CASES, ELECTION, RESOURCE } from "./alert-cases.js";

const run = promisify(execFile);
const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));
const PROMETHEUS = join(DEPLOY, "prometheus");
const read = (path: string) => readFile(join(DEPLOY, path), "utf8");

const found = await run("promtool", ["--version"]).then(
  () => true,
  () => false,
);
const NAME = "by promtool";
// CI must have promtool, so the tests fail there if it is missing.
if (found || process.env.CI === "true") describe(NAME, exercise);
else {
  const reason = "there is no promtool; Debian has it in the package prometheus";
  console.info(`${NAME}: skipped, ${reason}`);
  describe.skip(`${NAME} (skipped: ${reason})`, exercise);
}

function exercise() {
  const promtool = (...given: string[]) => run("promtool", given, { cwd: PROMETHEUS });

  it("the example configuration and the rules are well-formed", async () => {
    const { stdout } = await promtool("check", "config", "prometheus.yml");
    expect(stdout).toContain("is valid prometheus config file");
  });

  it("each alert fires by its own cause alone, and on a healthy day none does", async () => {
    const rules = await read("prometheus/alerts.yml");
    expect(await judge(rules)).toContain("SUCCESS");
  });

  it("finds a rule that never fires", async () => {
    const rules = await read("prometheus/alerts.yml");
    const broken = rules.replace("> 3600", "> 36000000");
    expect(broken).not.toBe(rules);
    await expect(judge(broken)).rejects.toThrow("LeaseholdLongHeld");
  });

  it("the dashboard's expressions are well-formed", async () => {
    const place = await mkdtemp(join(tmpdir(), "leasehold-dashboard-"));
    const rules = (await expressions()).map((expr, index) => ({ record: `panel:${index}`, expr }));
    // JSON is YAML.
    await writeFile(join(place, "rules.json"), JSON.stringify({ groups: [{ name: "d", rules }] }));
    const { stdout } = await run("promtool", ["check", "rules", "rules.json"], { cwd: place });
    expect(stdout).toContain(`${rules.length} rules found`);
    await rm(place, { recursive: true });
  });
}

/** Once for all cases. */
let scraped: Promise<Sample[]> | undefined;

/** Evaluates the rules over all cases. Rejects with promtool's report if one comes out differently. */
async function judge(rules: string): Promise<string> {
  scraped ??= scrapedSeries();
  const samples = await scraped;
  const place = await mkdtemp(join(tmpdir(), "leasehold-alerts-"));
  const tests = {
    rule_files: ["alerts.yml"],
    evaluation_interval: "1m",
    tests: CASES.map((one) => testOf(one, samples)),
  };
  await writeFile(join(place, "alerts.yml"), rules);
  // JSON is YAML.
  await writeFile(join(place, "tests.yml"), JSON.stringify(tests));
  try {
    return (await run("promtool", ["test", "rules", "tests.yml"], { cwd: place })).stdout;
  } finally {
    await rm(place, { recursive: true });
  }
}

/** All series of a server stand still, but for those that the case changes. */
function testOf({ name, changes, minute = 20, firing }: AlertCase, scraped: readonly Sample[]) {
  const series = new Map(
    scraped.map((sample) => [seriesOf(sample.name, sample.labels), `${sample.value}+0x60`]),
  );
  for (const { metric, labels = {}, values } of changes) {
    const { instance = "a", ...own } = labels;
    expect([...series.keys()], name).toContain(seriesOf(metric, own));
    series.set(seriesOf(metric, own, instance), values);
  }
  const labels = Object.entries(firing ?? {}).map(([label, value]) => `${label}="${value}"`);
  return {
    name,
    interval: "1m",
    input_series: [...series].map(([key, values]) => ({ series: key, values })),
    promql_expr_test: [
      {
        expr: 'ALERTS{alertstate="firing"}',
        eval_time: `${minute}m`,
        exp_samples: firing
          ? [{ labels: `ALERTS{alertstate="firing",${labels.join(",")}}`, value: 1 }]
          : [],
      },
    ],
  };
}

/** In the notation of PromQL, with the labels that Prometheus adds. */
function seriesOf(name: string, labels: Sample["labels"], instance = "a"): string {
  const all = Object.entries({ ...labels, job: "leasehold", instance });
  const shown = all.map(([label, value]) => `${label}=${JSON.stringify(value)}`).sort();
  return `${name}{${shown.join(",")}}`;
}

/** What a server exports after it has refused two renewals and granted a term. */
async function scrapedSeries(): Promise<Sample[]> {
  const { telemetry, metrics, close } = await startOpenTelemetry();
  const stores = await openStores("memory:alerts-scraped");
  const app = createApp({ ...stores, env: { telemetry }, metrics, auth: "ifAny", version: "test" });
  const server = await listen({ app, port: 0 });
  const client = await connect(server.url);
  try {
    for (const resource of [RESOURCE, "other"]) {
      const lease = await client.acquire(resource);
      await client.revoke(resource);
      await expect(lease.renew()).rejects.toThrow("revoked");
    }
    const over = new AbortController();
    await client.elector(ELECTION).lead(async () => over.abort(), { signal: over.signal });
    const samples = parseMetrics(await (await fetch(`${server.url}/metrics`)).text());
    // Prometheus adds it to each scrape.
    return [...samples, { name: "up", labels: {}, value: 1 }];
  } finally {
    await client.close();
    await server.close();
    await stores.close();
    await close();
  }
}

/** Of the dashboard, with its variables filled in. */
async function expressions(): Promise<string[]> {
  const { panels } = JSON.parse(await read("grafana/leasehold.json")) as {
    panels: { targets?: { expr: string }[] }[];
  };
  const filled = (expr: string) => expr.replaceAll("$__rate_interval", "5m");
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => filled(expr)));
}

/** Names as they are queried, and the labels of each. */
const KNOWN = new Map(
  (Object.keys(METRICS) as MetricName[]).flatMap((name) => {
    const { kind, unit, labels } = METRICS[name];
    const base = prometheusName(name, unit, kind === "counter" || kind === "total");
    const own = Object.keys(labels).map((label) => label.replaceAll(".", "_"));
    const suffixes = kind === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
    return suffixes.map(
      (suffix) => [base + suffix, suffix === "_bucket" ? [...own, "le"] : own] as const,
    );
  }),
);
/** What Prometheus itself puts onto every series. */
const ADDED = ["instance", "job"];

function checkSelectors(text: string): Set<string> {
  const used = new Set<string>();
  for (const [, name = "", inner = ""] of text.matchAll(
    /\b((?:leasehold|http)_[a-z_]+)(?:\{([^}]*)\})?/g,
  )) {
    // Labels have the same looks.
    if (/^http_(request_method|route|response_status_code)$/.test(name)) continue;
    const labels = KNOWN.get(name);
    expect(labels, name).toBeDefined();
    used.add(name);
    for (const [, label = ""] of inner.matchAll(/(\w+)\s*(?:=~|!=|!~|=)/g)) {
      expect([...(labels ?? []), ...ADDED], `${name}{${label}}`).toContain(label);
    }
  }
  return used;
}

it("alerts and the dashboard are over metrics and labels that exist", async () => {
  expect(checkSelectors(await read("prometheus/alerts.yml")).size).toBeGreaterThan(8);
  const all = await expressions();
  expect(all.length).toBeGreaterThan(20);
  const used = checkSelectors(all.join("\n"));
  // Everything that is measured can be seen.
  for (const [name] of KNOWN) {
    const others = name.replace(/_(bucket|sum|count)$/, "");
    expect(
      [...used].some((one) => one.startsWith(others)),
      name,
    ).toBe(true);
  }
});

it("every alert has a case that makes it fire", async () => {
  const alerts = [...(await read("prometheus/alerts.yml")).matchAll(/alert: (\w+)/g)];
  expect(alerts.length).toBeGreaterThan(5);
  const raised = CASES.map(({ firing }) => firing?.["alertname"]);
  expect(raised).toEqual(expect.arrayContaining(alerts.map(([, name]) => name)));
});
