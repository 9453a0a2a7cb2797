/** Reports when a collector stops taking what is sent to it: the exporters drop it silently. */
import { reasonOf } from "leasehold/internal/describe";
import type pino from "pino";
import type { Notify } from "./notices.js";

export interface ExportNotice {
  readonly event: "export_failed" | "export_resumed";
  readonly message: string;
  readonly err?: Error;
}
export type NotifyExport = (notice: ExportNotice) => void;

/** For commands without a log. */
export function exportsAsNotices(notify: Notify): NotifyExport {
  return ({ message, err }) =>
    notify({ event: "warning", message: err ? `${message}: ${exportReason(err)}` : message });
}

export function exportsTo(logger: pino.Logger): NotifyExport {
  return ({ event, message, err }) => {
    if (err === undefined) logger.info({ event }, message);
    else logger.warn({ event, err }, `${message}: ${exportReason(err)}`);
  };
}

/** With the status of an HTTP answer, whose text says little. */
function exportReason(error: Error): string {
  const { code } = error as { code?: unknown };
  const reason = reasonOf(error);
  return typeof code === "number" ? `${reason} (HTTP ${code})` : reason;
}

interface Exporter<Batch> {
  export(
    batch: Batch,
    done: (result: { readonly code: number; readonly error?: Error }) => void,
  ): void;
}

/** Makes the exporter report its first failure, and the first success after it. */
export function noticing<Batch, E extends Exporter<Batch>>(
  exporter: E,
  signal: "metrics" | "traces",
  notify: NotifyExport,
): E {
  const send = exporter.export.bind(exporter);
  let isFailing = false;
  exporter.export = (batch, done) =>
    send(batch, (result) => {
      const failed = result.code !== 0;
      if (failed && !isFailing) {
        const err = result.error ?? new Error("no reason was given");
        notify({ event: "export_failed", message: `the collector does not take ${signal}`, err });
      }
      if (!failed && isFailing) {
        notify({ event: "export_resumed", message: `the collector takes ${signal} again` });
      }
      isFailing = failed;
      done(result);
    });
  return exporter;
}
