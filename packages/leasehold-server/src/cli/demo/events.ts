/**
 * The events of the demo, and the format in which it prints them without a terminal. One line per event:
 *
 *   line  = time " " event *(" " key "=" value)
 *   time  = ISO 8601, UTC, with milliseconds
 *   value = the text as it is, or a JSON string if the text is empty or contains a space, a quote, "="
 *           or a control or format character
 *
 * The events and their keys are in docs/cli.md.
 */
import type { TaskEvent, TaskState } from "leasehold/internal";
import { safeJson } from "../terminal.js";
import type { ChildEvent } from "./children.js";

export type Counts = Readonly<Record<TaskState, number>>;
export interface Leader {
  readonly holder: string;
  readonly token: number;
  readonly remainingMs: number;
}

export type DemoEvent =
  | {
      readonly type: "ready";
      readonly url: string;
      /** The address of the console; null if there is none. */
      readonly console: string | null;
      readonly store: string;
    }
  | { readonly type: "draining" | "stopped" }
  | ChildEvent
  | { readonly type: "leads"; readonly leader: Leader | null }
  | { readonly type: "task"; readonly event: TaskEvent }
  | { readonly type: "counts"; readonly counts: Counts }
  | { readonly type: "log"; readonly level: "warn" | "error"; readonly message: string };

/** The time of an event: `ms` by the monotonic clock, for durations; `wallMs` by the wall clock, for display. */
export interface Moment {
  readonly ms: number;
  readonly wallMs: number;
}

const COUNTS_EVERY_MS = 2_000;

/** Formats events as lines. It remembers the last counts and the last leader, to print them only when they change. */
export class Lines {
  #countsPrintedAtMs = Number.NEGATIVE_INFINITY;
  #latestCounts = "";
  #printedCounts = "";
  #leader = "";

  /**
   * Returns no line for task events that the demo does not print, an unchanged leader, unchanged counts, and
   * counts within COUNTS_EVERY_MS of the last ones. The final counts come before `stopped`.
   */
  of(event: DemoEvent, { ms, wallMs }: Moment): string[] {
    const lines: string[] = [];
    const text = lineOf(event);
    if (event.type === "stopped" && this.#latestCounts !== this.#printedCounts) {
      lines.push(this.#latestCounts);
    }
    if (event.type === "counts") {
      this.#latestCounts = text ?? "";
      if (text === this.#printedCounts || ms - this.#countsPrintedAtMs < COUNTS_EVERY_MS) return [];
      this.#countsPrintedAtMs = ms;
      this.#printedCounts = this.#latestCounts;
    }
    if (event.type === "leads") {
      if (text === this.#leader) return [];
      this.#leader = text ?? "";
    }
    if (text !== null) lines.push(text);
    return lines.map((line) => `${new Date(wallMs).toISOString()} ${line}`);
  }
}

function lineOf(event: DemoEvent): string | null {
  switch (event.type) {
    case "ready":
      return line("demo.ready", {
        url: event.url,
        ...(event.console !== null && { console: event.console }),
        store: event.store,
      });
    case "draining":
    case "stopped":
      return `demo.${event.type}`;
    case "started": {
      const { name, pid, holder } = event;
      return line("child.started", { name, pid, holder });
    }
    case "exited": {
      const { type, restartMs, ...rest } = event;
      return line("child.exited", { ...rest, ...(restartMs !== null && { restartMs }) });
    }
    case "leads": {
      const { holder = "", token = "" } = event.leader ?? {};
      return line("generator.leads", { holder, token });
    }
    case "counts":
      return line("tasks", event.counts);
    case "log":
      return line("log", { level: event.level, message: event.message });
    case "task":
      return taskLine(event.event);
  }
}

function taskLine(event: TaskEvent): string | null {
  switch (event.type) {
    case "enqueued":
    case "renewed":
    case "late":
    case "cancelled":
    case "retried":
      return null;
    case "claimed": {
      const from = event.previousHolder === null ? {} : { from: event.previousHolder };
      return line("task.claimed", { ...grantOf(event), attempt: event.attempt ?? "", ...from });
    }
    case "completed":
      return event.repeated ? null : line("task.completed", grantOf(event));
    case "returned":
      return line("task.returned", grantOf(event));
    case "failed":
    case "expired":
      return line(`task.${event.type}`, { ...grantOf(event), state: event.state });
    case "refused": {
      const { operation, reason } = event;
      return line("task.refused", { ...grantOf(event), operation, reason });
    }
  }
}

function grantOf({ id, holder, token }: { id: string; holder: string | null; token: number }) {
  return { id, holder: holder ?? "", token };
}

function line(name: string, values: Readonly<Record<string, string | number>>): string {
  const pairs = Object.entries(values).map(([key, value]) => `${key}=${quoted(String(value))}`);
  return [name, ...pairs].join(" ");
}

function quoted(value: string): string {
  return /^[^\s"=\p{Cc}\p{Cf}]+$/u.test(value) ? value : safeJson(value);
}
