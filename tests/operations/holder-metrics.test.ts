/** The metrics of commands that hold leases, and which names appear in those of a server. */
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { METRICS, type MetricName } from "../../packages/leasehold/src/env/index.js";
import {
  Cli,
  type CliOptions,
  checkBuild,
  endAll,
  leasehold,
  type Serving,
  serve,
} from "../support/processes/cli.js";
import { parseMetrics, prometheusBase, valueOf } from "../support/server/metrics.js";

const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));
const PATIENT = { timeout: 60_000, interval: 50 };

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterEach(() => endAll(server.cli));
afterAll(() => endAll());

const started = (args: readonly string[], options?: CliOptions) =>
  new Cli([...args, "--store", server.url], options);

/** Where the process said that its metrics are. */
const metricsOf = (cli: Cli) =>
  cli.until(({ err }) => /http:[^"\s]+\/metrics/.exec(err.join("\n"))?.[0]);

const scrape = async (url: string) => parseMetrics(await (await fetch(url)).text());

it("elect, run and generate export what only a holder knows", async () => {
  const port = ["--metrics-port", "0"];
  const [elected, ran, generating] = await Promise.all([
    metricsOf(started(["elect", "leader", ...port])),
    metricsOf(new Cli(["run", ...port, "--store", server.url, "job", "--", "sleep", "600"])),
    metricsOf(started(["generate", "run", ...port])),
  ]);
  await vi.waitFor(async () => {
    const samples = await scrape(elected);
    expect(valueOf(samples, "leasehold_election_terms_total", { election: "leader" })).toBe(1);
    expect(valueOf(samples, "leasehold_election_leading", { of: "elector" })).toBe(1);
    expect(valueOf(samples, "leasehold_process_stall_seconds_count")).toBeGreaterThan(0);
    expect(valueOf(await scrape(ran), "leasehold_lease_held")).toBe(1);
    const generator = await scrape(generating);
    expect(valueOf(generator, "leasehold_election_leading", { of: "singleton" })).toBe(1);
  }, PATIENT);
  const names = Object.keys(METRICS) as MetricName[];
  const ofServers = names.filter((name) => METRICS[name].about.endsWith("Only servers export it."));
  expect(ofServers).toHaveLength(7);
  for (const url of [elected, ran, generating]) {
    const text = await (await fetch(url)).text();
    const missing = names.filter((name) => !text.includes(`# TYPE ${prometheusBase(name)} `));
    expect(missing).toEqual(ofServers);
  }
});

it("a worker exports its tasks, also to a collector, and its handlers' refused writes", async () => {
  const received: string[] = [];
  const collector = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    request.on("end", () => {
      received.push(`${request.url} ${text}`);
      response.setHeader("content-type", "application/json").end("{}");
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const { port } = collector.address() as AddressInfo;
  const env = {
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `http://127.0.0.1:${port}/v1/metrics`,
    OTEL_SERVICE_NAME: "workers",
  };
  const worker = started(["worker", "--handlers", HANDLERS, "--metrics-port", "0"], { env });
  const url = await metricsOf(worker);
  await leasehold(["enqueue", "stale", "--store", server.url]);
  await vi.waitFor(async () => {
    const samples = await scrape(url);
    const events = "leasehold_task_events_total";
    expect(valueOf(samples, events, { event: "completed" })).toBe(1);
    expect(valueOf(samples, "leasehold_fence_refusals_total")).toBe(1);
  }, PATIENT);
  expect((await worker.end("SIGTERM")).code).toBe(0);
  await new Promise((resolve) => collector.close(resolve));
  expect(received.join("\n")).toContain("leasehold.task.events");
  expect(received.join("\n")).toContain("workers");
  // Only metrics have an endpoint.
  expect(received.filter((text) => !text.startsWith("/v1/metrics"))).toEqual([]);
});

it("a collector that does not answer delays the end of a command by 2 s at most, and it is said", async () => {
  const silent = createTcpServer((socket) => void socket.resume());
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` };
  const { code, stderr } = await leasehold(["run", "--store", server.url, "y", "--", "false"], {
    env,
  });
  expect([code, stderr]).toEqual([1, expect.stringContaining("the collector did not take")]);
  silent.close();
});

it("a port in use is refused, with the option that changes it", async () => {
  const { port } = new URL(server.url);
  const { code, stderr } = await leasehold([
    "run",
    "--store",
    server.url,
    "--metrics-port",
    port,
    "x",
    "--",
    "true",
  ]);
  expect([code, stderr]).toEqual([
    64,
    expect.stringContaining("choose another port with --metrics-port"),
  ]);
});

it("a server counts by the chosen number of segments, and leaves names out if asked to", async () => {
  const args = ["--metrics-prefix-depth", "2", "--no-metrics-names"];
  const { url } = await serve("memory:depth", args);
  for (const ownerId of ["first", "second"]) {
    await fetch(`${url}/v1/locks/acquire`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ resource: "tenant:billing:2026", ownerId, ttlMs: 60_000 }),
    });
  }
  const text = await (await fetch(`${url}/metrics`)).text();
  const samples = parseMetrics(text);
  const prefix = "tenant:billing";
  expect(valueOf(samples, "leasehold_lease_contended_total", { prefix })).toBe(1);
  expect(valueOf(samples, "leasehold_resource_contended_total", { resource: "" })).toBe(1);
  expect(text).not.toContain("2026");
});
