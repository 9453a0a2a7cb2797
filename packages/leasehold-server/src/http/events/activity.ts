/**
 * What happens through this instance, for people to watch: kept by tenant in bounded space, counted by
 * second, and told to those who follow /v1/activity.
 *
 *   lease calls ── LeaseEvent ─┐            ┌─▶ figures of the last minutes, by second
 *   task store ─── TaskEvent ──┼─▶ tenant ──┼─▶ recent calls: renewals, waiters, refusals, claims
 *   pauses ────────────────────┘            └─▶ the last 1,000, each with the next number ─▶ streams
 *
 * Renewals are told together, once a second: with ten thousand leases nobody could read them, and all
 * else would be pushed out. Who waits in line is told of once.
 *
 *   a new stream, another epoch, too much missed ─▶ `resync`, then as many of the past as were asked for
 *   a number that is kept                        ─▶ what came after it
 */
import type { Env, Timer } from "leasehold";
import type { TaskEvent } from "leasehold/internal";
import { nextTurn, withoutLeaseIds } from "leasehold/internal";
import type { Activity } from "leasehold/internal/wire";
import { MOST_RECENT, MOST_SECONDS } from "../../protocol/index.js";
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
import { type Followed, type Listener, Ring, Streams } from "./event-stream.js";

/** Characters of a task's error; its record has all of it. */
const MOST_OF_ERROR = 500;
const RENEWALS_EVERY_MS = 1_000;
/** Of so many tenants: those of which something was heard last. */
const MOST_TENANTS = 50;

type Topic = Activity["topic"];

/** What is counted by second. */
export type Figure =
  | `lease ${"acquired" | "contended" | "renewed" | "released" | "revoked" | "reclaimed"}`
  | `lost ${"expired" | "revoked" | "taken" | "gone"}`
  | `task ${"enqueued" | "claimed" | "renewed" | "completed" | "failed" | "expired" | "refused"}`;

export interface Followers {
  readonly topics: readonly Topic[];
  /** How many of the past a stream begins with that cannot go on. */
  readonly last: number;
  readonly lastEventId: string | undefined;
  readonly listener: Listener;
}

/** Made when somebody reads, for most of what happens nobody looks at; and once for all who do. */
class Told {
  readonly #make: () => Activity;
  #activity: Activity | undefined;
  #text: string | undefined;

  constructor(make: () => Activity) {
    this.#make = make;
  }

  get activity(): Activity {
    this.#activity ??= this.#make();
    return this.#activity;
  }

  textIn(ring: Ring<Told>, number: number): string {
    this.#text ??= ring.format(number, "activity", this.activity);
    return this.#text;
  }
}

/** Of one tenant. */
export class TenantActivity {
  /** By the monotonic clock: when it was asked for last. */
  usedMs = 0;
  readonly recent: RecentCalls;
  readonly figures: PerSecond<Figure>;
  /** Tasks of the whole store, in the seconds in which somebody looked. */
  readonly depth: PerSecond<"pending" | "running">;
  readonly #env: Env;
  readonly #ring: Ring<Told>;
  readonly #streams: Streams;
  readonly #renewed = { lease: 0, task: 0 };
  #timer: Timer | undefined;
  #waking = false;
  #closed = false;

  constructor(env: Env) {
    const { clock, random } = env;
    this.#env = env;
    this.recent = new RecentCalls(clock);
    this.figures = new PerSecond(clock, MOST_SECONDS);
    this.depth = new PerSecond(clock, MOST_SECONDS, -1);
    this.#ring = new Ring(random, MOST_RECENT);
    this.#streams = new Streams(clock);
  }

  get streams(): number {
    return this.#streams.size;
  }

  noteLease(event: LeaseEvent): void {
    const known = "grantId" in event ? this.recent.grant(event.grantId ?? "") : undefined;
    // Who waits asks again and again: that it still does is no news.
    const waitsOn = event.type === "held" && this.recent.waits(event.asked);
    if (!this.recent.note(event)) return;
    const figure = figureOfLease(event);
    if (figure) this.figures.add(figure);
    if (event.type === "acquired" && event.replaced?.state === "expired") {
      const { resource, holder, replaced } = event;
      this.figures.add("lease reclaimed");
      this.#tell(() => activityOfExpiry(resource, replaced, holder));
    }
    if (event.type === "renewed") this.#renew("lease");
    else if (!waitsOn) this.#tell(() => activityOfLease(event, known), isLate(event));
  }

  noteTask(event: TaskEvent): void {
    const figure = figureOfTask(event);
    if (figure) this.figures.add(figure);
    if (event.type === "renewed") this.#renew("task");
    else if (event.type === "failed") {
      const short = { ...event, error: beginningOf(event.error) };
      this.#tell(() => activityOfTask(short));
    } else this.#tell(() => activityOfTask(event), event.type === "refused");
  }

  notePause(...pause: Parameters<typeof activityOfPause>): void {
    this.#tell(() => activityOfPause(...pause));
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
    this.#streams.wake();
  }

  #after(
    position: number | null,
    topics: readonly Topic[],
    last: number,
    sees: Listener["sees"],
  ): ReturnType<Followed["after"]> {
    const visible = (news: readonly [number, Told][]) =>
      news.filter(([, { activity }]) => topics.includes(activity.topic) && sees(activity.resource));
    const text = (news: readonly [number, Told][]) =>
      news.map(([number, told]) => told.textIn(this.#ring, number)).join("");
    const end = this.#ring.last;
    const missed = position === null ? null : this.#ring.after(position);
    if (missed) return { text: text(visible(missed)), position: end };
    const past =
      last > 0 ? visible(this.#ring.after(end - this.#ring.kept) ?? []).slice(-last) : [];
    const [first] = past;
    const from = first ? first[0] - 1 : end;
    return { text: this.#ring.format(from, "resync", {}) + text(past), position: end };
  }

  #renew(topic: "lease" | "task"): void {
    if (this.#closed) return;
    this.#renewed[topic] += 1;
    const { clock } = this.#env;
    this.#timer ??= clock.timer(RENEWALS_EVERY_MS, () => this.#tellRenewals(), {
      background: true,
    });
  }

  #tellRenewals(): void {
    this.#timer = undefined;
    for (const topic of ["lease", "task"] as const) {
      const count = this.#renewed[topic];
      this.#renewed[topic] = 0;
      if (count > 0) this.#tell(() => renewals(topic, count));
    }
  }

  #tell(make: () => Omit<Activity, "at">, isRefusal = false): void {
    if (this.#closed) return;
    const atMs = this.#env.clock.wall();
    const dated = () => ({ at: new Date(atMs).toISOString(), ...make() });
    const told = new Told(dated);
    this.#ring.add(told);
    if (isRefusal) this.#noteRefusal(told.activity);
    this.#wake();
  }

  /** Once for all that happens in one turn: the more there is to do, the more of it. */
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

/** Of a text that may be of megabytes: as a copy, for a part of a text keeps all of it. */
function beginningOf(text: string): string {
  if (text.length <= MOST_OF_ERROR) return withoutLeaseIds(text);
  // Nobody would know half of a lease id for what it is.
  const whole = text.slice(0, MOST_OF_ERROR).replace(/[0-9a-f]+$/i, "");
  const beginning = new TextEncoder().encode(withoutLeaseIds(whole).toWellFormed());
  return `${new TextDecoder().decode(beginning)}...`;
}

/** By a holder whose grant is over. */
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
    case "returned":
    case "cancelled":
    case "retried":
      return null;
  }
}

/** Of all tenants, as many as there is room for: of others nothing is known but what happens from now on. */
export class Activities {
  readonly #env: Env;
  readonly #tenants = new Map<string, TenantActivity>();

  constructor(env: Env) {
    this.#env = env;
  }

  of(namespace: string): TenantActivity {
    let tenant = this.#tenants.get(namespace);
    if (!tenant) {
      if (this.#tenants.size >= MOST_TENANTS) this.#forgetOne();
      tenant = new TenantActivity(this.#env);
      this.#tenants.set(namespace, tenant);
    }
    tenant.usedMs = this.#env.clock.monotonic();
    return tenant;
  }

  close(): void {
    for (const tenant of this.#tenants.values()) tenant.close();
  }

  /** The one that was quiet for longest, of those that nobody follows. */
  #forgetOne(): void {
    const [quietest] = [...this.#tenants]
      .filter(([, { streams }]) => streams === 0)
      .sort(([, a], [, b]) => a.usedMs - b.usedMs);
    quietest?.[1].close();
    if (quietest) this.#tenants.delete(quietest[0]);
  }
}
