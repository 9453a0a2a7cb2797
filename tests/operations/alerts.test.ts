/** The alerts and the dashboard of deploy/: Prometheus's own tool judges them, and they name what is there. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { METRICS, type MetricName } from "../../packages/leasehold/src/env/index.js";
import { prometheusName } from "../../packages/leasehold-server/src/cli/prometheus.js";

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

  it("each alert fires by its own cause, and on a healthy day none", async () => {
    const { stdout } = await promtool("test", "rules", "alerts.test.yml");
    expect(stdout).toContain("SUCCESS");
  });

  it("a rule that never fires is found out", async () => {
    const place = await mkdtemp(join(tmpdir(), "leasehold-alerts-"));
    const rules = await read("prometheus/alerts.yml");
    const broken = rules.replace("> 3600", "> 36000000");
    expect(broken).not.toBe(rules);
    await writeFile(join(place, "alerts.yml"), broken);
    await writeFile(join(place, "alerts.test.yml"), await read("prometheus/alerts.test.yml"));
    const testing = run("promtool", ["test", "rules", "alerts.test.yml"], { cwd: place });
    await expect(testing).rejects.toThrow("LeaseholdLongHeld");
    await rm(place, { recursive: true });
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

it("alerts, their tests and the dashboard are over metrics and labels that exist", async () => {
  expect(checkSelectors(await read("prometheus/alerts.yml")).size).toBeGreaterThan(8);
  checkSelectors(await read("prometheus/alerts.test.yml"));
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

it("every alert has a test that makes it fire", async () => {
  const alerts = [...(await read("prometheus/alerts.yml")).matchAll(/alert: (\w+)/g)];
  const tested = await read("prometheus/alerts.test.yml");
  expect(alerts.length).toBeGreaterThan(5);
  for (const [, name] of alerts) {
    expect(tested).toContain(`ALERTS{alertname="${name}", alertstate="firing"`);
  }
});
