/** `leasehold serve` as a process: what Prometheus scrapes of it, and what a collector is sent. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { Cli, endAll, leasehold } from "../support/processes/cli.js";
import { parseMetrics, valueOf } from "../support/server/metrics.js";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CANARY = "canary-77aa";

const received = new Map<string, string[]>();
const collector = createServer((request, response) => {
  let text = "";
  request.setEncoding("utf8");
  request.on("data", (chunk: string) => {
    text += chunk;
  });
  request.on("end", () => {
    received.set(request.url ?? "", [...(received.get(request.url ?? "") ?? []), text]);
    response.setHeader("content-type", "application/json").end("{}");
  });
});
afterAll(async () => {
  await endAll();
  await new Promise((resolve) => collector.close(resolve));
});

async function serveAndAsk(env: Readonly<Record<string, string>>): Promise<string> {
  const cli = new Cli(["serve", "--port", "0", "--store", "memory:otlp"], { env });
  const url = await cli.until(({ err }) =>
    err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
  );
  const answer = await fetch(`${url}/v1/locks/acquire`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01`,
    },
    body: JSON.stringify({ resource: `${CANARY}/a`, ownerId: CANARY, ttlMs: 5_000 }),
  });
  expect(answer.status).toBe(200);
  const scraped = await fetch(`${url}/metrics`);
  expect(scraped.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  const text = await scraped.text();
  process.kill(cli.pid, "SIGTERM");
  expect((await cli.ended).code).toBe(0);
  return text;
}

it("metrics are there for Prometheus without anything being set", async () => {
  const samples = parseMetrics(await serveAndAsk({}));
  const attempts = "leasehold_lease_acquire_attempts_total";
  expect(valueOf(samples, attempts, { outcome: "acquired" })).toBe(1);
  expect(received.size).toBe(0);
});

it("a collector is sent metrics and traces, which continue the caller's", async () => {
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const { port } = collector.address() as AddressInfo;
  await serveAndAsk({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_SERVICE_NAME: "locks-of-tests",
  });
  expect([...received.keys()].sort()).toEqual(["/v1/metrics", "/v1/traces"]);
  const metrics = received.get("/v1/metrics")?.join("") ?? "";
  expect(metrics).toContain("leasehold.lease.acquire.attempts");
  const traces = received.get("/v1/traces")?.join("") ?? "";
  expect(traces).toContain(TRACE_ID);
  expect(traces).toContain("POST /v1/locks/acquire");
  expect(traces).toContain("leasehold.store acquire");
  for (const text of [metrics, traces]) {
    expect(text).toContain("locks-of-tests");
    expect(text).not.toContain(CANARY);
  }
});

it("a collector that refuses what it is sent is reported, once for metrics and once for traces", async () => {
  let asked = 0;
  const refusing = createServer((request, response) => {
    asked += 1;
    request.resume();
    response.writeHead(401).end();
  });
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void refusing.close());
  const { port } = refusing.address() as AddressInfo;
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_METRIC_EXPORT_INTERVAL: "100",
  };
  const cli = new Cli(["serve", "--port", "0", "--store", "memory:refused"], { env });
  const failures = () =>
    cli.err
      .map((line) => JSON.parse(line) as { event?: string; level: number; msg: string })
      .filter(({ event }) => event === "export_failed");
  await cli.until(() => failures().length === 1);
  const { level, msg } = failures()[0] ?? {};
  expect(level).toBe(40);
  expect(msg).toMatch(/^the collector does not take metrics: .*\(HTTP 401\)$/);
  expect((await cli.end("SIGTERM")).code).toBe(0);
  expect(asked).toBeGreaterThan(0);
  expect(failures()).toHaveLength(1);

  const served = new Cli(["serve", "--port", "0", "--store", "memory:refused"]);
  const url = await served.until(({ err }) =>
    err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
  );
  const run = ["run", "r", "--store", url, "--", "true"];
  const ran = await leasehold(run, { env });
  expect(ran).toMatchObject({ code: 0, stdout: "" });
  const lines = ran.stderr.trim().split("\n").sort();
  expect(lines).toEqual([
    expect.stringMatching(/^leasehold: the collector does not take metrics: .*HTTP 401\)$/),
    expect.stringMatching(/^leasehold: the collector does not take traces: .*HTTP 401\)$/),
  ]);
  const prometheus = { ...env, OTEL_METRICS_EXPORTER: "prometheus", OTEL_TRACES_EXPORTER: "NONE" };
  expect(await leasehold(run, { env: prometheus })).toMatchObject({ code: 0, stderr: "" });
});
