import type { Logger } from "leasehold";
import { silentLogger } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import { safeJson, say, shown } from "./terminal.js";

/** What commands that wait report about their own work, on stderr: sentences, or JSON lines with --json. */
export type Notice =
  /** The store is unavailable, and the command tries again. */
  | {
      readonly event: "retrying";
      readonly message: string;
      /** When it was first found unavailable, as ISO 8601; absent while the command connects for the first time. */
      readonly since?: string;
      /** When the command gives up, as ISO 8601; absent where it goes on until it is stopped. */
      readonly until?: string;
    }
  /** The server answers, and refuses by a limit; the command tries again. */
  | {
      readonly event: "refused";
      readonly message: string;
      /** When it was first refused, as ISO 8601. */
      readonly since: string;
      /** When the command gives up, as ISO 8601; absent where it goes on until it is stopped. */
      readonly until?: string;
    }
  /** The lease is held, or an operator has paused the resource; the command waits for it. */
  | {
      readonly event: "waiting";
      readonly resource: string;
      readonly holder: string;
      /** Of the lease in the way, unless its holder renews it; null if that is unknown. */
      readonly remainingMs: number | null;
      readonly message: string;
      /** When the command gives up, as ISO 8601; absent where it goes on until it is stopped. */
      readonly until?: string;
    }
  /** A PGlite directory has no database yet, and the command creates one. */
  | { readonly event: "creating"; readonly directory: string; readonly message: string }
  /** Where Prometheus scrapes this process. */
  | { readonly event: "metrics"; readonly url: string; readonly message: string }
  /** The store answers, or the server no longer refuses. */
  | { readonly event: "answering"; readonly message: string }
  /** The lease is held, and the command starts. */
  | {
      readonly event: "acquired";
      readonly resource: string;
      readonly holder: string;
      /** Null if the store has no tokens. */
      readonly token: number | null;
    }
  /** The lease is lost, and the command is stopped. */
  | { readonly event: "stopping"; readonly resource: string; readonly message: string }
  /** The command has ended by itself, with an exit code that is also one of this program. */
  | { readonly event: "exited"; readonly exitCode: number; readonly message: string }
  /** The leadership is lost, and the candidate, which runs no command, stands for election again. */
  | { readonly event: "lost"; readonly resource: string; readonly message: string }
  /** What the library warns of, or the command itself; the command goes on. */
  | { readonly event: "warning"; readonly message: string }
  /** No process could be started. */
  | { readonly event: "cannotStart"; readonly message: string };

export type Notify = (notice: Notice) => void;

export function notifier(json: boolean | undefined): Notify {
  return (notice) => {
    const line = json ? safeJson(notice) : sentenceOf(shown(notice));
    if (line !== null) say(line);
  };
}

/** What the library warns of, as notices: its default would print warnings of the process with stacks. */
export function warningsTo(notify: Notify): Logger {
  const warn = (fields: object, message: string) => {
    const { err } = fields as { err?: unknown };
    const why = err === undefined ? "" : `: ${reasonOf(err)}`;
    notify({ event: "warning", message: `${message}${why}` });
  };
  return { ...silentLogger, warn, error: warn };
}

/**
 * Drivers warn on the console, once for each connection, as ioredis does of a password that Redis does not ask for. Here a
 * warning becomes one notice, so that stderr has JSON alone with --json.
 */
export function driversWarnTo(notify: Notify): void {
  const said = new Set<string>();
  console.warn = (...parts: readonly unknown[]) => {
    const message = parts.map(reasonOf).join(" ");
    if (said.has(message)) return;
    said.add(message);
    notify({ event: "warning", message });
  };
}

function sentenceOf(notice: Notice): string | null {
  switch (notice.event) {
    case "waiting":
      return `leasehold: ${notice.message}; waiting${notice.until ? ` until ${notice.until}` : ""}`;
    case "refused":
    case "retrying":
      return `leasehold: ${notice.message}; retrying${notice.until ? ` until ${notice.until}` : ""}`;
    case "creating":
    case "answering":
    case "exited":
    case "metrics":
    case "warning":
      return `leasehold: ${notice.message}`;
    // The command's own output follows, which needs no introduction.
    case "acquired":
      return null;
    case "stopping":
      return `leasehold: ${notice.message}; stopping the command`;
    case "lost":
      return `leasehold: ${notice.message}; standing for election again`;
    case "cannotStart":
      return `leasehold: cannot start the command: ${notice.message}`;
  }
}
