/**
 * Load shedding. An overloaded instance serves requests of holders first.
 *
 *   keeps    renew, release, heartbeat, complete, fail, return, /healthz, /metrics,
 *            revoke, force-unlock, changes of pauses: they can end an overload       always
 *   waits    /api/tasks/next, /v1/tasks/{id}/result,
 *            /v1/events, /v1/activity                           up to the tenant's limit
 *   demands  all else: acquire, enqueue, lists                  while few are in flight and the event
 *                                                               loop is on time, else 429
 *
 * The limit of demands in flight adapts: as many as the store serves without queueing them, so that a
 * renewal behind them does not wait either. A slow or distant store does not count as queueing: the
 * measure is how much longer demands take than the fastest recent one.
 *
 * A demand counts from when its body has arrived. Of each tenant with keys, at most half of the room counts,
 * and it may use no more: the rest is for the others.
 *
 * Without it, a flood of demands would fill the stores' queues and the event loop, and renewals would
 * arrive after their leases' expiry. Refusing a demand is cheap: if the room is full, it happens before its body is read.
 * Each route is declared with its urgency (route-rules.ts).
 */
import type { Clock, Timer } from "leasehold";
import { nextTurn } from "leasehold/internal";
import type { ServerLimits } from "./limits.js";

/** How often the lateness of the event loop is sampled while demands are in flight. */
const SAMPLE_MS = 50;
/** The initial and the minimum limit. */
const [FIRST_ROOM, LEAST_ROOM] = [256, 32];
/** The part of the limit that one tenant may use. */
const TENANT_SHARE = 0.5;
/** One reduction leaves at least this share of the limit. */
const LARGEST_STEP = 0.25;
/** Lower bound of the fastest time, which grows by a factor and so must not be 0. */
const LEAST_MS = 1;
/** Growth of the fastest time per demand: a store that has become slower is recognized after some thousand demands. */
const LEAST_GROWS = 1.001;
/**
 * The part of `lateMs` that a turn of the event loop may take in which demands were answered that arrived in it: a renewal needs
 * several turns, and each connection that is opened one more.
 */
const TURN_SHARE = 1 / 8;
/** Weight of earlier samples of lateness: a single long pause is not an overload. */
const SMOOTHING = 0.8;

/** `withinTurn`: answered in the turn in which it began to count. */
type Left = "answered" | "withinTurn" | "paused";

export class Admission {
  readonly #clock: Clock;
  readonly #most: number;
  readonly #latestMs: number;
  #room: number;
  /** The shortest recent time of a demand: the store's time without queueing. */
  #leastMs = Infinity;
  /** When the limit was last reduced. */
  #shrunkMs = -Infinity;
  #inFlight = 0;
  /** Those whose tenant is known, by tenant. */
  readonly #ofTenants = new Map<string, number>();
  #sampling: Timer | undefined;
  #lateMs = 0;
  #turn: Promise<void> | undefined;

  constructor(clock: Clock, { inFlight, lateMs }: Pick<ServerLimits, "inFlight" | "lateMs">) {
    this.#clock = clock;
    this.#most = inFlight;
    this.#latestMs = lateMs ?? Infinity;
    this.#room = lateMs === null ? inFlight : Math.min(inFlight, FIRST_ROOM);
  }

  /** Demands in flight, and how late the event loop is. */
  get load(): { readonly inFlight: number; readonly lateMs: number } {
    return { inFlight: this.#inFlight, lateMs: Math.round(this.#lateMs) };
  }

  /** The shares of their bounds that are in use. */
  get used(): { readonly requests: number; readonly eventLoop: number } {
    return {
      requests: this.#inFlight / this.#room,
      // Without demands it is not sampled.
      eventLoop: this.#sampling ? Math.max(0, this.#lateMs) / this.#latestMs : 0,
    };
  }

  /** The current turn of the event loop: resolves at its end. */
  get turn(): Promise<void> {
    this.#turn ??= nextTurn().then(() => {
      this.#turn = undefined;
    });
    return this.#turn;
  }

  isOver(turn: Promise<void>): boolean {
    return turn !== this.#turn;
  }

  get isFull(): boolean {
    if (this.#lateMs > this.#latestMs) return true;
    // In this order, because counting reads what each tenant has.
    return this.#inFlight >= this.#room && this.#counted >= this.#room;
  }

  /**
   * @param tenant null: it is not known, or callers cannot be distinguished
   * @returns the function to call when the demand is answered, or paused; null if it is refused
   */
  enter(tenant: string | null = null): ((why?: Left) => void) | null {
    if (this.isFull) return null;
    const ofTenant = tenant === null ? 0 : (this.#ofTenants.get(tenant) ?? 0) + 1;
    const share = this.#share;
    if (ofTenant > share) return null;
    const wasFull =
      ofTenant === share || (this.#inFlight + 1 >= this.#room && this.#counted + 1 >= this.#room);
    this.#count(tenant, 1);
    this.#scheduleSample();
    const beginMs = this.#clock.monotonic();
    return (why = "answered") => {
      this.#count(tenant, -1);
      if (why === "paused") return;
      const latestMs = why === "withinTurn" ? this.#latestMs * TURN_SHARE : this.#latestMs;
      this.#learn(beginMs, latestMs, wasFull);
    };
  }

  get #share(): number {
    return Math.ceil(this.#room * TENANT_SHARE);
  }

  /** After a reduction, a tenant may have more in flight than its share. That must not refuse the others. */
  get #counted(): number {
    const share = this.#share;
    let beyond = 0;
    for (const count of this.#ofTenants.values()) beyond += Math.max(0, count - share);
    return this.#inFlight - beyond;
  }

  #count(tenant: string | null, change: 1 | -1): void {
    this.#inFlight += change;
    if (tenant === null) return;
    const count = (this.#ofTenants.get(tenant) ?? 0) + change;
    if (count > 0) this.#ofTenants.set(tenant, count);
    else this.#ofTenants.delete(tenant);
  }

  /**
   * Raises the limit by one while demands do not queue; otherwise reduces it to what the store can serve.
   * @param latestMs how much longer than the fastest the demand may have taken
   * @param wasFull whether there was no room for another one
   */
  #learn(beginMs: number, latestMs: number, wasFull: boolean): void {
    const nowMs = this.#clock.monotonic();
    const tookMs = nowMs - beginMs;
    this.#leastMs = Math.max(LEAST_MS, Math.min(this.#leastMs * LEAST_GROWS, tookMs));
    if (tookMs - this.#leastMs <= latestMs) {
      if (wasFull) this.#room = Math.min(this.#most, this.#room + 1);
      return;
    }
    // Only one reduction for all demands that were in flight at the time.
    if (beginMs < this.#shrunkMs) return;
    this.#shrunkMs = nowMs;
    const share = Math.max(LARGEST_STEP, latestMs / (tookMs - this.#leastMs));
    this.#room = Math.min(this.#most, Math.max(LEAST_ROOM, Math.floor(this.#room * share)));
  }

  close(): void {
    this.#sampling?.cancel();
  }

  /** Samples until the event loop is on time and no demand is in flight. */
  #scheduleSample(): void {
    if (this.#sampling) return;
    const dueMs = this.#clock.monotonic() + SAMPLE_MS;
    const sample = () => {
      this.#sampling = undefined;
      const lateMs = this.#clock.monotonic() - dueMs;
      this.#lateMs = SMOOTHING * this.#lateMs + (1 - SMOOTHING) * lateMs;
      if (this.#inFlight > 0 || this.#lateMs > this.#latestMs) this.#scheduleSample();
    };
    this.#sampling = this.#clock.timer(SAMPLE_MS, sample, { background: true });
  }
}

/**
 * One demand at the admission of the instance. It counts while the server works on it, and not before its caller is known, nor
 * while its client sends the body: a slow client must not look like a slow store, and guessed keys and unfinished bodies must
 * not take the room of other tenants.
 */
export class Demand {
  readonly #admission: Admission;
  readonly #isOfSocket: boolean;
  #leave: ReturnType<Admission["enter"]> = null;
  /** The turn of the event loop in which it began to count. */
  #turn: Promise<void> | null = null;

  /**
   * @param isOfSocket others arrive in the same turn of the event loop. A store in this process answers each before the next
   *   one is read, so that none would ever be in flight, however long the turn takes: such a demand counts until the turn ends
   */
  constructor(admission: Admission, isOfSocket: boolean) {
    this.#admission = admission;
    this.#isOfSocket = isOfSocket;
  }

  /** It waits for its client, or for what bounds its tenant. */
  pause(): void {
    this.#leave?.("paused");
    this.#leave = null;
  }

  /**
   * Counts it from now on, as one of this tenant.
   * @returns false if it is refused
   */
  resume(tenant: string | null): boolean {
    this.pause();
    this.#leave = this.#admission.enter(tenant);
    if (this.#isOfSocket) this.#turn = this.#admission.turn;
    return this.#leave !== null;
  }

  end(): void {
    const leave = this.#leave;
    this.#leave = null;
    if (leave === null) return;
    if (this.#turn === null || this.#admission.isOver(this.#turn)) leave("answered");
    else void this.#turn.then(() => leave("withinTurn"));
  }
}
