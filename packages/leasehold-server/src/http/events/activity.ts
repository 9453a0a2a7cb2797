/**
 * The activity of this instance, for people: kept per tenant in bounded memory, counted per second, and
 * streamed by /v1/activity.
 *
 *   lease calls ── LeaseEvent ─┐            ┌─▶ counts per second of the last minutes
 *   task store ─── TaskEvent ──┼─▶ tenant ──┼─▶ recent calls: renewals, waiters, refusals, claims
 *   pauses ────────────────────┘            └─▶ the last 1,000, each with the next number ─▶ streams
 *
 * Renewals become one activity per second: with ten thousand leases, single ones would be unreadable and
 * would displace all others. A waiter is reported once, however often it polls.
 *
 *   a new stream, another epoch, too much missed ─▶ `resync`, then as many past activities as requested
 *   a number that is still kept                  ─▶ the activities after it
 */
import type { Env, Timer } from "leasehold";
import type { TaskEvent } from "leasehold/internal";
import { nextTurn, withoutLeaseIds } from "leasehold/internal";
import type { Activity } from "leasehold/internal/wire";
import { MAX_ACTIVITIES, MAX_SECONDS } from "../../protocol/index.js";
import { PerSecond } from "../console/per-second.js";
import { RecentCalls } from "../console/recent-calls.js";
import type { LeaseEvent } from "../lease-calls.js";
import {
  activityOfExpiry,
  activityOfLease,
  activityOfPause,
  activityOfTask,
  renewals,
} from "./activities.js";
import { type Followed, type Listener, PIECE_LENGTH, Ring, Streams } from "./event-stream.js";

/** Characters of a task's error; the task's record has the whole text. */
const MAX_ERROR_CHARACTERS = 500;
const RENEWALS_EVERY_MS = 1_000;
/** Tenants that are kept: the most recently used ones. */
const MAX_TENANTS = 50;

type Topic = Activity["topic"];

/** The names of the counts per second. */
export type Figure =
  | `lease ${"acquired" | "contended" | "renewed" | "released" | "revoked" | "reclaimed"}`
  | `lost ${"expired" | "revoked" | "taken" | "gone"}`
  | `task ${"enqueued" | "claimed" | "renewed" | "completed" | "failed" | "expired" | "refused"}`;

export interface Followers {
  readonly topics: readonly Topic[];
  /** Number of past activities that a stream sends first if it cannot resume. */
  readonly last: number;
  readonly lastEventId: string | undefined;
  readonly listener: Listener;
}

/** Created on its first read, because most activities are never read, and then shared by all readers. */
class LazyActivity {
  readonly #make: () => Activity;
  #activity: Activity | undefined;
  #text: string | undefined;

  constructor(make: () => Activity) {
    this.#make = make;
  }

  get value(): Activity {
    this.#activity ??= this.#make();
    return this.#activity;
  }

  textIn(ring: Ring<LazyActivity>, number: number): string {
    this.#text ??= ring.format(number, "activity", this.value);
    return this.#text;
  }
}

/** The activity of one tenant. */
export class TenantActivity {
  /** Time of the last use, by the monotonic clock. */
  usedMs = 0;
  readonly recent: RecentCalls;
  readonly figures: PerSecond<Figure>;
  /** Numbers of tasks in the store, for seconds in which the overview was read. */
  readonly depth: PerSecond<"pending" | "running">;
  readonly #env: Env;
  readonly #ring: Ring<LazyActivity>;
  readonly #streams: Streams;
  readonly #renewed = { lease: 0, task: 0 };
  #timer: Timer | undefined;
  #waking = false;
  #closed = false;

  constructor(env: Env) {
    const { clock, random } = env;
    this.#env = env;
    this.recent = new RecentCalls(clock);
    this.figures = new PerSecond(clock, MAX_SECONDS);
    this.depth = new PerSecond(clock, MAX_SECONDS, -1);
    this.#ring = new Ring(random, MAX_ACTIVITIES);
    this.#streams = new Streams(clock);
  }

  /** How many are open. */
  get streams(): number {
    return this.#streams.count;
  }

  noteLease(event: LeaseEvent): void {
    const known = "grantId" in event ? this.recent.grant(event.grantId ?? "") : undefined;
    // A waiter polls repeatedly. Only its first refusal is an activity.
    const waitsOn = event.type === "held" && this.recent.waits(event.asked);
    if (!this.recent.note(event)) return;
    const figure = figureOfLease(event);
    if (figure) this.figures.add(figure);
    if (event.type === "acquired" && event.replaced?.state === "expired") {
      const { resource, holder, replaced } = event;
      this.figures.add("lease reclaimed");
      this.#publish(() => activityOfExpiry(resource, replaced, holder));
    }
    if (event.type === "renewed") this.#renew("lease");
    else if (!waitsOn) this.#publish(() => activityOfLease(event, known), isLate(event));
  }

  noteTask(event: TaskEvent): void {
    const figure = figureOfTask(event);
    if (figure) this.figures.add(figure);
    if (event.type === "renewed") this.#renew("task");
    else if (event.type === "failed") {
      const short = { ...event, error: beginningOf(event.error) };
      this.#publish(() => activityOfTask(short));
    } else this.#publish(() => activityOfTask(event), event.type === "refused");
  }

  notePause(...pause: Parameters<typeof activityOfPause>): void {
    this.#publish(() => activityOfPause(...pause));
  }

  stream({ topics, last, lastEventId, listener }: Followers): ReadableStream {
    const isClosed = () => this.#closed;
    const followed: Followed = {
      get stopped() {
        return isClosed();
      },
      positionOf: (id) => this.#ring.positionOf(id),
      after: (position) => this.#after(position, topics, last, listener.sees),
    };
    return this.#streams.open(lastEventId, listener, () => (isClosed() ? null : followed));
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#streams.end();
  }

  #after(
    position: number | null,
    topics: readonly Topic[],
    last: number,
    sees: Listener["sees"],
  ): ReturnType<Followed["after"]> {
    const isVisible = ({ value }: LazyActivity) =>
      topics.includes(value.topic) && sees(value.resource);
    const end = this.#ring.last;
    const missed = position === null ? null : this.#ring.after(position);
    if (missed) return this.#piece(missed, isVisible, end);
    const kept = last > 0 ? (this.#ring.after(end - this.#ring.kept) ?? []) : [];
    const past = [...kept].filter(([, activity]) => isVisible(activity)).slice(-last);
    const [first] = past;
    const from = first ? first[0] - 1 : end;
    const { text, position: reached } = this.#piece(past, isVisible, end);
    return { text: this.#ring.format(from, "resync", {}) + text, position: reached };
  }

  /** The beginning of the activities as one text; the reader takes the next one when it has read this. */
  #piece(
    news: Iterable<[number, LazyActivity]>,
    isVisible: (activity: LazyActivity) => boolean,
    end: number,
  ): { readonly text: string; readonly position: number } {
    let text = "";
    for (const [number, activity] of news) {
      if (text.length >= PIECE_LENGTH) return { text, position: number - 1 };
      if (isVisible(activity)) text += activity.textIn(this.#ring, number);
    }
    return { text, position: end };
  }

  #renew(topic: "lease" | "task"): void {
    if (this.#closed) return;
    this.#renewed[topic] += 1;
    const { clock } = this.#env;
    this.#timer ??= clock.timer(RENEWALS_EVERY_MS, () => this.#publishRenewals(), {
      background: true,
    });
  }

  #publishRenewals(): void {
    this.#timer = undefined;
    for (const topic of ["lease", "task"] as const) {
      const count = this.#renewed[topic];
      this.#renewed[topic] = 0;
      if (count > 0) this.#publish(() => renewals(topic, count));
    }
  }

  #publish(make: () => Omit<Activity, "at">, isRefusal = false): void {
    if (this.#closed) return;
    const atMs = this.#env.clock.wall();
    const dated = () => ({ at: new Date(atMs).toISOString(), ...make() });
    const activity = new LazyActivity(dated);
    this.#ring.add(activity);
    if (isRefusal) this.#noteRefusal(activity.value);
    this.#wake();
  }

  /** Wakes the streams once per turn of the event loop, which batches activities under load. */
  #wake(): void {
    if (this.#waking || this.streams === 0) return;
    this.#waking = true;
    void nextTurn().then(() => {
      this.#waking = false;
      this.#streams.wake();
    });
  }

  #noteRefusal({ at, topic, operation, reason, resource, holder, token, grantId }: Activity): void {
    if (topic === "operator" || resource === null) return;
    const why = { operation: operation ?? "", reason: reason ?? "" };
    this.recent.refused({ at, topic, ...why, resource, holder, token, grantId });
  }
}

/**
 * The beginning of a task's error, without lease ids. It is a copy: a slice would keep the whole text,
 * perhaps megabytes, in memory.
 */
function beginningOf(text: string): string {
  if (text.length <= MAX_ERROR_CHARACTERS) return withoutLeaseIds(text);
  // Drops a trailing piece of hex: a truncated lease id would not be recognized as one.
  const whole = text.slice(0, MAX_ERROR_CHARACTERS).replace(/[0-9a-f]+$/i, "");
  const beginning = new TextEncoder().encode(withoutLeaseIds(whole).toWellFormed());
  return `${new TextDecoder().decode(beginning)}...`;
}

/** Whether the event is a refused request of a late holder. */
function isLate({ type }: LeaseEvent): boolean {
  return type === "lost" || type === "notHeld";
}

function figureOfLease(event: LeaseEvent): Figure | null {
  switch (event.type) {
    case "held":
      return "lease contended";
    case "lost":
      return `lost ${event.reason}`;
    case "acquired":
    case "renewed":
    case "released":
    case "revoked":
      return `lease ${event.type}`;
    case "notHeld":
    case "failed":
      return null;
  }
}

function figureOfTask(event: TaskEvent): Figure | null {
  switch (event.type) {
    case "enqueued":
      return event.duplicate ? null : "task enqueued";
    case "completed":
      return event.repeated ? null : "task completed";
    case "claimed":
    case "renewed":
    case "failed":
    case "expired":
    case "refused":
      return `task ${event.type}`;
    case "late":
    case "returned":
    case "cancelled":
    case "retried":
      return null;
  }
}

/** The activity of the most recently used tenants. Another tenant starts without past activities. */
export class Activities {
  readonly #env: Env;
  readonly #tenants = new Map<string, TenantActivity>();

  constructor(env: Env) {
    this.#env = env;
  }

  of(namespace: string): TenantActivity {
    let tenant = this.#tenants.get(namespace);
    if (!tenant) {
      if (this.#tenants.size >= MAX_TENANTS) this.#forgetOne();
      tenant = new TenantActivity(this.#env);
      this.#tenants.set(namespace, tenant);
    }
    tenant.usedMs = this.#env.clock.monotonic();
    return tenant;
  }

  close(): void {
    for (const tenant of this.#tenants.values()) tenant.close();
  }

  /** Drops the least recently used tenant without streams. */
  #forgetOne(): void {
    const [quietest] = [...this.#tenants]
      .filter(([, { streams }]) => streams === 0)
      .sort(([, a], [, b]) => a.usedMs - b.usedMs);
    quietest?.[1].close();
    if (quietest) this.#tenants.delete(quietest[0]);
  }
}
