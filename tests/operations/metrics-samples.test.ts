/** What a server exports before anything has happened, and while its store is slow. */
import { expect, it, vi } from "vitest";
import {
  BOUNDARIES,
  METRICS,
  type MetricName,
  seriesOf,
} from "../../packages/leasehold/src/env/index.js";
import { openStores } from "../../packages/leasehold/src/index.js";
import { manualClock } from "../../packages/leasehold/src/testing/index.js";
import { startOpenTelemetry } from "../../packages/leasehold-server/src/cli/open-telemetry.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";
import { parseMetrics, type Sample, sampleNameOf, valueOf } from "../support/server/metrics.js";
import { instead } from "../support/worlds/instead.js";

/** The longest that a scrape waits for a sample. */
const MAX_SAMPLE_WAIT_MS = 100;

it("exports every combination of bounded labels with zero before its first event", async () => {
  const fresh = await startOpenTelemetry();
  const samples = parseMetrics(await fresh.metrics());
  await fresh.close();
  for (const name of Object.keys(METRICS) as MetricName[]) {
    if (METRICS[name].kind === "gauge") continue;
    const series = seriesOf(name) as readonly Sample["labels"][];
    const [of, total] = [sampleNameOf(name), METRICS[name].kind === "total"];
    const expected = total ? [{ [Object.keys(METRICS[name].labels)[0] ?? ""]: "" }] : series;
    expect(
      samples.filter((sample) => sample.name === of),
      name,
    ).toEqual(expected.map((labels) => ({ name: of, labels, value: 0 })));
  }
  const buckets = samples.filter(({ name }) => name === "leasehold_process_stall_seconds_bucket");
  expect(buckets).toHaveLength(BOUNDARIES.length + 1);
});

it("samples tasks by state, the oldest grant and the generator when first asked, and not each time", async () => {
  const kept = await startOpenTelemetry();
  const memory = await openStores("memory:sampled");
  let counts = 0;
  const tasks = instead(memory.tasks, {
    counts(namespace: string) {
      counts += 1;
      return memory.tasks.counts(namespace);
    },
  });
  const app = createApp({
    ...memory,
    tasks,
    auth: "ifAny",
    version: "test",
    env: { telemetry: kept.telemetry },
  });
  const post = (path: string, body: object) =>
    app.fetch(
      new Request(`http://localhost${path}`, {
        method: path.endsWith("rate") ? "PUT" : "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
      { remoteAddress: "127.0.0.1" },
    );
  await post("/api/tasks", { task_data: {} });
  await post("/api/generator/start", {});
  await post("/v1/locks/acquire", { resource: "r", ownerId: "o", ttlMs: 60_000 });
  // It is older than nothing once the clock has moved on.
  const grantedMs = Date.now();
  while (Date.now() < grantedMs + 5) await new Promise((resolve) => setTimeout(resolve, 1));
  for (let scrapes = 0; scrapes < 3; scrapes += 1) {
    const samples = parseMetrics(await kept.metrics());
    expect(valueOf(samples, "leasehold_task_depth", { state: "pending" })).toBe(1);
    expect(valueOf(samples, "leasehold_generator_rate_per_second")).toBe(1);
    expect(valueOf(samples, "leasehold_lease_held_age_max_seconds")).toBeGreaterThan(0);
  }
  expect(counts).toBe(1);
  await app.close();
  await memory.close();
  await kept.close();
});

it("is scraped at once while the store does not answer, without its samples", async () => {
  const kept = await startOpenTelemetry();
  const memory = await openStores("memory:hanging");
  const clock = manualClock();
  const [list, counts] = [vi.fn(), vi.fn()];
  for (const hanging of [list, counts]) hanging.mockReturnValue(new Promise(() => {}));
  const app = createApp({
    ...memory,
    leases: instead(memory.leases, { list }),
    tasks: instead(memory.tasks, { counts }),
    auth: "ifAny",
    version: "test",
    env: { clock, telemetry: kept.telemetry },
  });
  const scraped = kept.metrics();
  await vi.waitUntil(() => list.mock.calls.length > 0 && counts.mock.calls.length > 0);
  await clock.advance(MAX_SAMPLE_WAIT_MS);
  const samples = parseMetrics(await scraped);
  expect(valueOf(samples, "leasehold_server_responses_total")).toBe(0);
  expect(samples.map(({ name }) => name)).not.toContain("leasehold_task_depth");
  await app.close();
  await memory.close();
  await kept.close();
});
