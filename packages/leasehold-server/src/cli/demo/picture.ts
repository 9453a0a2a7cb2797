/** The state that the terminal shows: built from the events, drawn by view.ts. */
import type { TaskEvent } from "leasehold/internal";
import type { Counts, DemoEvent, Leader, Moment } from "./events.js";

/** Seconds of history of finished tasks, enough for a wide terminal. */
const HISTORY_SECONDS = 120;
/** News items that are kept: handovers, refusals and so on. */
const NEWS = 100;

/** A process of the demo. */
export interface Process {
  readonly name: string;
  readonly holder: string;
  readonly pid: number;
  /** Why it is not running; null while it runs. */
  readonly ended: string | null;
}

/** A task with its holder. */
export interface Held {
  readonly id: string;
  readonly kind: string;
  readonly holder: string;
  readonly token: number;
  readonly attempt: number | null;
  readonly expiresAtMs: number;
}

export interface News {
  readonly wallMs: number;
  readonly what: "handed over" | "refused" | "expired" | "process" | "generator" | "server";
  readonly text: string;
}

export class Picture {
  url = "";
  store = "";
  startedAtMs: number;
  draining = false;
  counts: Counts = { pending: 0, running: 0, done: 0, dead: 0, cancelled: 0, expired: 0 };
  leader: (Leader & { readonly expiresAtMs: number }) | null = null;
  readonly processes = new Map<string, Process>();
  /** By task. */
  readonly held = new Map<string, Held>();
  /** Newest first. */
  readonly news: News[] = [];
  /** Totals of this run. */
  readonly totals = { completed: 0, handedOver: 0, refused: 0, crashed: 0 };
  /** Tasks done in each second, by the second's number since the start. */
  readonly #done = new Map<number, number>();

  constructor(now: Moment) {
    this.startedAtMs = now.ms;
  }

  take(event: DemoEvent, now: Moment): void {
    switch (event.type) {
      case "ready":
        this.url = event.console ?? event.url;
        this.store = event.store;
        return;
      case "draining":
        this.draining = true;
        return;
      case "stopped":
        return;
      case "started": {
        const { name, holder, pid } = event;
        this.processes.set(name, { name, holder, pid, ended: null });
        return;
      }
      case "exited": {
        const { name, code, said, restartMs } = event;
        const ended = said || `ended with ${code}`;
        const before = this.processes.get(name);
        if (before) this.processes.set(name, { ...before, ended });
        if (restartMs === null) return;
        this.totals.crashed += 1;
        this.#add(
          now,
          "process",
          `${name} ended (${ended}), starts again in ${restartMs / 1_000} s`,
        );
        return;
      }
      case "leads": {
        const { leader } = event;
        if (leader?.token !== this.leader?.token) {
          const text = leader
            ? `${leader.holder} generates, token ${leader.token}`
            : "no instance generates";
          this.#add(now, "generator", text);
        }
        this.leader = leader && { ...leader, expiresAtMs: now.ms + leader.remainingMs };
        return;
      }
      case "counts":
        this.counts = event.counts;
        return;
      case "log":
        this.#add(now, "server", event.message);
        return;
      case "task":
        this.#takeTask(event.event, now);
    }
  }

  /** Tasks done in each of the last full seconds, oldest first. */
  donePerSecond(nowMs: number): number[] {
    const second = this.#second(nowMs);
    const length = Math.min(HISTORY_SECONDS, second);
    return Array.from({ length }, (_, index) => this.#done.get(second - length + index) ?? 0);
  }

  #takeTask(event: TaskEvent, now: Moment): void {
    switch (event.type) {
      case "enqueued":
      case "late":
      case "retried":
        return;
      case "cancelled":
        this.held.delete(event.id);
        return;
      case "claimed": {
        const { id, token, attempt, holder, previousHolder, remainingMs } = event;
        const kind = event.kind ?? "";
        const expiresAtMs = now.ms + remainingMs;
        this.held.set(id, { id, kind, token, attempt, holder: holder ?? "", expiresAtMs });
        if (previousHolder === null) return;
        this.totals.handedOver += 1;
        const text = `${short(id)} from ${previousHolder} to ${holder ?? "?"}, token ${token}`;
        this.#add(now, "handed over", text);
        return;
      }
      case "renewed": {
        const held = this.held.get(event.id);
        if (held?.token !== event.token) return;
        this.held.set(event.id, { ...held, expiresAtMs: now.ms + event.remainingMs });
        return;
      }
      case "completed":
        this.#drop(event);
        if (!event.repeated) this.#count(now);
        return;
      case "failed":
      case "returned":
        this.#drop(event);
        return;
      case "expired":
        this.#drop(event);
        this.#add(
          now,
          "expired",
          `${short(event.id)} of ${event.holder ?? "?"}, token ${event.token}`,
        );
        return;
      case "refused": {
        this.totals.refused += 1;
        const { operation, id, holder, token, reason } = event;
        const text = `${operation} of ${short(id)} by ${holder ?? "?"}, token ${token}: ${reason}`;
        this.#add(now, "refused", text);
      }
    }
  }

  #drop({ id, token }: { id: string; token: number }): void {
    if (this.held.get(id)?.token === token) this.held.delete(id);
  }

  #count(now: Moment): void {
    this.totals.completed += 1;
    const second = this.#second(now.ms);
    this.#done.set(second, (this.#done.get(second) ?? 0) + 1);
    this.#done.delete(second - HISTORY_SECONDS - 1);
  }

  #second(nowMs: number): number {
    return Math.floor((nowMs - this.startedAtMs) / 1_000);
  }

  #add({ wallMs }: Moment, what: News["what"], text: string): void {
    this.news.unshift({ wallMs, what, text });
    this.news.length = Math.min(this.news.length, NEWS);
  }
}

/** The end of a task's id. Its beginning is a time, which tasks of the same moment share. */
export function short(id: string): string {
  return id.slice(-6);
}
