/** A real Prometheus, from Debian's package, that scrapes targets of a test and evaluates alert rules. */
import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../engines/free-port.js";
import { Child, temporaryFolder } from "./processes.js";

const POLL_MS = 100;
/** Even on a busy machine, alerts that have not come by then never come. */
const NEVER_MS = 180_000;
/** Several scrapes fit in the shortest scaled window. */
const INTERVAL = "500ms";

export function missingPrometheus(): string | null {
  const found = spawnSync("prometheus", ["--version"]).status === 0;
  return found ? null : "no prometheus: apt-get install prometheus";
}

/**
 * The rules with all windows and waits divided by 60, so that ten minutes pass in ten seconds. The age of a long-held lease and
 * of a tenant's refusals is no window: the caller says when it is old.
 */
export function scaled(rules: string, oldSeconds: number): string {
  const scale = (text: string) =>
    text.replaceAll(/\b(\d+)(m|h)\b/g, (_, count: string, unit) =>
      unit === "m" ? `${count}s` : `${Number(count) * 60}s`,
    );
  return rules
    .replaceAll(/\[[^\]]+\]|offset \w+|for: \w+/g, scale)
    .replace(/> 3600|(?<=held_back_max_seconds\)) > 60/g, ` > ${oldSeconds}`);
}

export interface Prometheus {
  readonly process: Child;
  /** Labels of the alerts that fire now. */
  firing(): Promise<Readonly<Record<string, string>>[]>;
  /** The first truthy value that `find` makes of the firing alerts; rejects with their names after NEVER_MS. */
  until<T>(find: (names: ReadonlySet<string>) => T | false | undefined): Promise<T>;
  /** Resolves when each target has been scraped `count` times. */
  scraped(count: number): Promise<void>;
  /** The values of an instant query, by the series. */
  query(expr: string): Promise<readonly { metric: Record<string, string>; value: number }[]>;
}

/** @param targets by the name of their job, such as `{ leasehold: ["127.0.0.1:4040"] }` */
export async function startPrometheus(
  targets: Readonly<Record<string, readonly string[]>>,
  rules: string,
): Promise<Prometheus> {
  const port = await freePort();
  const folder = await temporaryFolder();
  const config = {
    global: { scrape_interval: INTERVAL, scrape_timeout: INTERVAL, evaluation_interval: INTERVAL },
    rule_files: ["alerts.yml"],
    scrape_configs: Object.entries(targets).map(([job_name, addresses]) => ({
      job_name,
      static_configs: [{ targets: addresses }],
    })),
  };
  await writeFile(join(folder, "alerts.yml"), rules);
  // JSON is YAML.
  await writeFile(join(folder, "prometheus.yml"), JSON.stringify(config));
  const process = new Child("prometheus", [
    `--config.file=${join(folder, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(folder, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
    "--log.level=warn",
  ]);
  await process.listening(port);
  while (!(await fetch(`http://127.0.0.1:${port}/-/ready`)).ok) await delay(POLL_MS);
  const api = async <T>(path: string): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    const { status, data, error } = (await response.json()) as {
      status: string;
      data: T;
      error?: string;
    };
    if (status !== "success") throw new Error(error);
    return data;
  };
  const firing = async () => {
    const { alerts } = await api<{
      alerts: { state: string; labels: Record<string, string> }[];
    }>("alerts");
    return alerts.filter(({ state }) => state === "firing").map(({ labels }) => labels);
  };
  const query: Prometheus["query"] = async (expr) => {
    const { result } = await api<{
      result: { metric: Record<string, string>; value: [number, string] }[];
    }>(`query?query=${encodeURIComponent(expr)}`);
    return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
  };
  const size = Object.values(targets).flat().length;
  return {
    process,
    firing,
    query,
    async until(find) {
      const untilMs = performance.now() + NEVER_MS;
      for (;;) {
        const names = new Set((await firing()).map(({ alertname = "" }) => alertname));
        const found = find(names);
        if (found) return found;
        if (performance.now() > untilMs) throw new Error(`only these fire: ${[...names]}`);
        await delay(POLL_MS);
      }
    },
    async scraped(count) {
      const counted = `sum_over_time(up[1h]) >= ${count}`;
      while ((await query(counted)).length < size) await delay(POLL_MS);
    },
  };
}
