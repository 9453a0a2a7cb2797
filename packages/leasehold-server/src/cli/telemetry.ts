/**
 * Telemetry of commands that hold leases. A server counts what it grants; what only a holder knows (its waits, its
 * pauses, losses without an answer, refused writes) comes from the holder's own process.
 */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Command, Option } from "commander";
import type { Telemetry } from "leasehold/telemetry";
import { exportsAsNotices, type NotifyExport } from "./export-notices.js";
import { UsageError } from "./failures.js";
import type { Notify } from "./notices.js";
import { integer, listeningPort, notBlank } from "./options.js";

/** Options of {@link withTelemetry} and {@link withMetricNames}. */
export interface TelemetryOptions {
  readonly metricsPort?: number;
  readonly metricsHost?: string;
  readonly metricsPrefixDepth?: number;
  readonly metricsNames?: boolean;
}

/** Adds the options that choose which names appear in metrics. */
export function withMetricNames(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--metrics-prefix-depth <n>",
        "segments of a resource in the metric label prefix; / and : separate them",
      )
        .argParser(integer(1, 10))
        .env("LEASEHOLD_METRICS_PREFIX_DEPTH")
        .default(1),
    )
    .option(
      "--no-metrics-names",
      "leave the labels resource and election empty in metrics; the label prefix stays, and is the whole name of a resource without / or :",
    );
}

/** Adds --metrics-port and its companions. */
export function withTelemetry(command: Command): Command {
  return withMetricNames(
    command
      .addOption(
        new Option(
          "--metrics-port <n>",
          "serve GET /metrics for Prometheus on this port; 0 chooses a free one (default: no metrics)",
        )
          .argParser(listeningPort)
          .env("LEASEHOLD_METRICS_PORT"),
      )
      .addOption(
        new Option("--metrics-host <address>", "address of that port")
          .argParser(notBlank)
          .env("LEASEHOLD_METRICS_HOST")
          .default("127.0.0.1"),
      ),
  ).hook("preAction", (_, action) => refuseWithoutMetrics(action));
}

/**
 * An option that says how metrics are served or sent, without any. A variable may be meant for other commands.
 * @throws UsageError
 */
async function refuseWithoutMetrics(command: Command): Promise<void> {
  const isTyped = (name: string) => command.getOptionValueSource(name) === "cli";
  if (command.getOptionValue("metricsPort") !== undefined) return;
  const remedy = "has no effect without --metrics-port";
  if (isTyped("metricsHost")) throw new UsageError(`--metrics-host ${remedy}`);
  const { collectorIsNamed } = await import("./collector.js");
  if (collectorIsNamed()) return;
  if (isTyped("metricsPrefixDepth")) throw new UsageError(`--metrics-prefix-depth ${remedy}`);
  if (isTyped("metricsNames")) throw new UsageError(`--no-metrics-names ${remedy}`);
}

export interface StartedTelemetry {
  /** Undefined if neither a port nor a collector is named. */
  readonly telemetry: Telemetry | undefined;
  /** Where Prometheus scrapes this process; undefined without --metrics-port. */
  readonly metricsUrl: string | undefined;
  /** Sends what is still buffered. */
  close(): Promise<void>;
}

/**
 * Starts what the options and the OTEL_* variables ask for; otherwise OpenTelemetry is not even loaded.
 * If the exporters of a named collector are not installed, it warns and sends nothing.
 * @throws UsageError if the port is in use
 */
export async function startTelemetry(
  options: TelemetryOptions,
  notify: NotifyExport,
): Promise<StartedTelemetry> {
  const { metricsPort, metricsHost = "127.0.0.1" } = options;
  const { collectorIsNamed } = await import("./collector.js");
  if (metricsPort === undefined && !collectorIsNamed()) {
    return { telemetry: undefined, metricsUrl: undefined, close: async () => {} };
  }
  const { startOpenTelemetry } = await import("./open-telemetry.js");
  const exporting = await startOpenTelemetry(namesOf(options), { notify }).catch(
    (error: unknown) => {
      if (!(error instanceof UsageError)) throw error;
      // The variables may be those of the whole machine: they must not stop work that is done under a lease.
      notify({ event: "export_failed", message: error.message });
      return startOpenTelemetry(namesOf(options), { collector: false });
    },
  );
  if (metricsPort === undefined) {
    return {
      telemetry: exporting.telemetry,
      metricsUrl: undefined,
      close: () => exporting.close(),
    };
  }
  const server = metricsServer(exporting.metrics);
  try {
    server.listen(metricsPort, metricsHost);
    await once(server, "listening");
  } catch (error) {
    await exporting.close();
    const { code, message } = error as NodeJS.ErrnoException;
    throw new UsageError(
      code === "EADDRINUSE"
        ? `port ${metricsPort} of ${metricsHost} is in use: choose another port with --metrics-port (0: a free one)`
        : `cannot serve metrics on port ${metricsPort} of ${metricsHost}: ${message}`,
    );
  }
  // A listener must not keep a drained process alive.
  server.unref();
  const { port } = server.address() as AddressInfo;
  return {
    telemetry: exporting.telemetry,
    metricsUrl: `http://${metricsHost.includes(":") ? `[${metricsHost}]` : metricsHost}:${port}/metrics`,
    async close() {
      server.close();
      server.closeAllConnections();
      await exporting.close();
    },
  };
}

/** Does the work with the telemetry of a command without a log, which prints the address of its metrics. */
export async function measuring<T>(
  options: TelemetryOptions,
  notify: Notify,
  work: (telemetry: Telemetry | undefined) => Promise<T>,
): Promise<T> {
  const exporting = await startTelemetry(options, exportsAsNotices(notify));
  const { telemetry, metricsUrl } = exporting;
  if (metricsUrl !== undefined) {
    notify({ event: "metrics", url: metricsUrl, message: `metrics on ${metricsUrl}` });
  }
  try {
    return await work(telemetry);
  } finally {
    await exporting.close();
  }
}

/** Which names appear in metrics. */
export function namesOf({ metricsPrefixDepth = 1, metricsNames = true }: TelemetryOptions) {
  return { prefixDepth: metricsPrefixDepth, names: metricsNames };
}

function metricsServer(read: () => Promise<string>): Server {
  return createServer((request, response) => {
    if (request.method !== "GET" || request.url !== "/metrics") {
      response.writeHead(404).end("GET /metrics\n");
      return;
    }
    read().then(
      (text) =>
        response.setHeader("content-type", "text/plain; version=0.0.4; charset=utf-8").end(text),
      () => response.writeHead(500).end(),
    );
  });
}
