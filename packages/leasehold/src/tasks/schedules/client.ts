/** The schedules of one namespace, as programs use them. Most programs have none, so what they need is loaded at first use. */
import type { Env, Repeating } from "../../env/index.js";
import {
  checkKnown,
  InvalidOptionError,
  type Page,
  Retrying,
  SCHEDULE_RETRIES,
  StoreUnavailableError,
  withRetries,
} from "../../lease/index.js";
import type { ScheduleOptions } from "./declaration.js";
import type { ScheduleChange, ScheduleQuery, ScheduleStore, ScheduleView } from "./port.js";

/** Called by `tasks`. Apart from the class, whose public type shows no constructor. */
export let schedulesOver: (
  caller: Caller,
  store: ScheduleStore | undefined,
  env: Env,
  newId: () => string,
) => Schedules;

interface Caller {
  readonly namespace: string;
  readonly holder: string;
}

/** A schedule, with its next fire times. */
export interface Schedule extends ScheduleView {
  /** The next five, as ISO 8601; none while it is paused. */
  readonly nextFireTimes: readonly string[];
}

/**
 * The schedules of one namespace: `leasehold.tasks.schedules`. `leasehold.tasks.schedule()` declares one.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const { schedules } = leasehold.tasks;
 * await schedules.declare("nightly", { cron: "0 2 * * *", kind: "report", data: {} });
 * await schedules.pause("nightly", { reason: "the disk is full" });
 * const { items } = await schedules.list();
 * for (const { name, paused, nextFireTimes } of items) console.log(name, paused, nextFireTimes);
 * console.log(await schedules.runNow("nightly"), await schedules.resume("nightly"));
 * console.log((await schedules.get("nightly"))?.lastTask, await schedules.remove("nightly"));
 * await leasehold.close();
 * ```
 */
export class Schedules {
  static {
    schedulesOver = (caller, store, env, newId) => new Schedules(caller, store, env, newId);
  }

  readonly #caller: Caller;
  readonly #kept: ScheduleStore | undefined;
  readonly #env: Env;
  readonly #newId: () => string;

  /** @param store undefined: it keeps none */
  private constructor(
    { namespace, holder }: Caller,
    store: ScheduleStore | undefined,
    env: Env,
    newId: () => string,
  ) {
    this.#caller = { namespace, holder };
    this.#kept = store && withRetries(store, SCHEDULE_RETRIES, new Retrying(env));
    [this.#env, this.#newId] = [env, newId];
  }

  /**
   * Declares a schedule, as `tasks.schedule`.
   * @throws INVALID_OPTION; STORE_UNAVAILABLE, also if the namespace has 1,000 schedules
   */
  async declare<Input>(name: string, options: ScheduleOptions<Input>): Promise<Schedule> {
    const { declarationOf } = await this.#named(name);
    const { namespace } = this.#caller;
    const declaration = await declarationOf(options);
    const outcome = await this.#store.declare({ namespace, name, declaration });
    if (outcome.status === "failed") throw outcome.error;
    if (outcome.status === "full") {
      throw new StoreUnavailableError("the namespace has as many schedules as it may have", {
        outcome: "none",
        refusedBy: "limit",
      });
    }
    const declared = await this.get(name);
    if (declared) return declared;
    throw new StoreUnavailableError(`the schedule "${name}" was removed at the same time`, {
      outcome: "unknown",
    });
  }

  /**
   * Reads a schedule; null: there is none of this name.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async get(name: string): Promise<Schedule | null> {
    await this.#named(name);
    const view = await this.#store.get({ namespace: this.#caller.namespace, name });
    return view && this.#detailed(view);
  }

  /**
   * Lists the schedules by name, one page per call.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async list(query: Omit<ScheduleQuery, "namespace"> = {}): Promise<Page<Schedule>> {
    checkKnown(query, { limit: true, cursor: true });
    const { namespace } = this.#caller;
    const { items, nextCursor } = await this.#store.list({ ...query, namespace });
    return { items: await Promise.all(items.map((view) => this.#detailed(view))), nextCursor };
  }

  /**
   * Pauses a schedule: it makes no tasks until it is resumed, whatever programs declare.
   * @returns `unchanged` if it was paused; `unknown` if there is none of this name
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async pause(name: string, { reason }: { reason?: string } = {}): Promise<ScheduleChange> {
    await this.#named(name);
    const { namespace, holder: by } = this.#caller;
    return this.#store.pause({ namespace, name, by, reason: reason ?? null });
  }

  /**
   * Resumes a schedule, from now on: it makes no tasks for the fire times of the pause.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async resume(name: string): Promise<ScheduleChange> {
    await this.#named(name);
    return this.#store.resume({ namespace: this.#caller.namespace, name });
  }

  /**
   * Removes a schedule, for one that no program declares any more. Its tasks stay.
   * @returns whether there was one
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async remove(name: string): Promise<boolean> {
    await this.#named(name);
    return this.#store.remove({ namespace: this.#caller.namespace, name });
  }

  /**
   * Enqueues a task of the schedule now, whether or not it is paused or its last task is unfinished. Its fire times
   * stay as they are.
   * @returns the id of the task; null: there is no schedule of this name
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async runNow(name: string): Promise<string | null> {
    await this.#named(name);
    const { namespace } = this.#caller;
    const outcome = await this.#store.runNow({ namespace, name, taskId: this.#newId() });
    if (outcome.status === "failed") throw outcome.error;
    return outcome.status === "enqueued" ? outcome.id : null;
  }

  /** @throws INVALID_OPTION */
  get #store(): ScheduleStore {
    if (this.#kept) return this.#kept;
    throw new InvalidOptionError(
      "this store",
      "keeps no schedules: PostgreSQL, PGlite, memory and a server of this version keep them",
    );
  }

  async #named(name: string) {
    const { checkScheduleName, declarationOf } = await import("./declaration.js");
    checkScheduleName(name);
    return { declarationOf };
  }

  async #detailed(view: ScheduleView): Promise<Schedule> {
    const { nextFireTimes } = await import("./declaration.js");
    return { ...view, nextFireTimes: await nextFireTimes(view, this.#env.clock.wall()) };
  }
}

/** As `startTicker`, which it loads. */
export function startTicking(
  store: Pick<ScheduleStore, "ticking"> | undefined,
  env: Env,
): Repeating {
  if (!store?.ticking) return { stop: async () => {} };
  const starting = loadTicker().then(({ startTicker }) => startTicker(store, env));
  return { stop: async () => (await starting).stop() };
}

/** For the verification: time stands still there while a module is loaded. */
export function loadTicker() {
  return import("./ticker.js");
}

/** What checks declarations and computes fire times, for servers and the command line. */
export function loadDeclarations() {
  return import("./declaration.js");
}
