/** What the tests of schedules share: a declaration, and a namespace for each. */
import { newLeaseId, sleep, systemClock, systemRandom } from "../env/index.js";
import type { TaskStore } from "../tasks/port.js";
import type {
  DueSchedule,
  FireRequest,
  ScheduleDeclaration,
  ScheduleStore,
  ScheduleView,
  Ticking,
} from "../tasks/schedules/port.js";
import type { Expect } from "./framework.js";

/** A store under test, and the tasks of the same database. */
export interface OpenedScheduleStore {
  readonly store: ScheduleStore;
  readonly tasks: TaskStore;
  /** The ticks of the database behind a store that has none. */
  readonly ticking: Ticking;
  /** Moves the store's clock. Without it the suite waits in real time. */
  advance?(ms: number): Promise<void>;
  close(): Promise<void>;
}

export const HOUR_MS = 3_600_000;
export const DECLARATION: ScheduleDeclaration = {
  cron: null,
  timeZone: "UTC",
  everyMs: HOUR_MS,
  catchUp: "last",
  overlap: "skip",
  jitterMs: 0,
  task: {
    kind: "report",
    queue: "reports",
    priority: -3,
    data: { of: ["sales", null, { "": 1.5 }] },
    maxAttempts: 4,
    crashLimit: 5,
    backoff: { firstMs: 600, longestMs: 7_000, factor: 3, jitter: 0.25 },
    retain: { doneMs: 8_000_000, deadMs: null },
    concurrency: { key: "sales", perKey: 3, order: "any" },
    version: 2,
    maxRunMs: 90_000,
    startByMs: 45_000,
  },
};

export class Fixture {
  readonly namespace = `suite-${newLeaseId(systemRandom)}`;
  readonly store: ScheduleStore;
  readonly tasks: TaskStore;
  readonly #opened: OpenedScheduleStore;
  readonly #expect: Expect;

  constructor(opened: OpenedScheduleStore, expect: Expect) {
    [this.#opened, this.#expect] = [opened, expect];
    [this.store, this.tasks] = [opened.store, opened.tasks];
  }

  key(name = "nightly") {
    return { namespace: this.namespace, name };
  }

  async declare(change: Partial<ScheduleDeclaration> = {}, name?: string) {
    const declaration = { ...DECLARATION, ...change };
    const outcome = await this.store.declare({ ...this.key(name), declaration });
    if (outcome.status === "failed") throw outcome.error;
    return outcome.status === "declared" ? outcome.change : outcome.status;
  }

  async view(name?: string): Promise<ScheduleView> {
    const view = await this.store.get(this.key(name));
    if (!view) throw new Error("the schedule exists");
    return view;
  }

  /** What a tick reads of the schedule; null: it is not due. */
  async due(name = "nightly"): Promise<DueSchedule | null> {
    const { schedules } = await this.#opened.ticking.due(1_000);
    const found = schedules.find((due) => due.namespace === this.namespace && due.name === name);
    return found ?? null;
  }

  /** The names of those that are due, as a tick reads them. */
  async dueNames(): Promise<string[]> {
    const { schedules } = await this.#opened.ticking.due(1_000);
    const own = schedules.filter(({ namespace }) => namespace === this.namespace);
    return own.map(({ name }) => name);
  }

  /** Of those that are due in any namespace, as a tick reads them. */
  async dueRevisions(limit: number, except?: readonly number[]): Promise<number[]> {
    const { schedules } = await this.#opened.ticking.due(limit, except);
    return schedules.map(({ revision }) => revision);
  }

  /** When the next schedule of any namespace is due; null: none is. */
  async dueInMs(): Promise<number | null> {
    return (await this.#opened.ticking.due(1_000)).nextInMs;
  }

  async dueNow(name?: string): Promise<DueSchedule> {
    const due = await this.due(name);
    if (!due) throw new Error("the schedule is due");
    return due;
  }

  /** Moves a schedule on as it was read, with a task of these ids. */
  async fire(due: DueSchedule, ids: readonly string[], more: Partial<FireRequest> = {}) {
    const { namespace, name, revision, lastFireAtMs } = due;
    const outcome = await this.#opened.ticking.fire({
      namespace,
      name,
      revision,
      fires: ids.map((id) => ({ id, scheduledAtMs: lastFireAtMs + 1_000 })),
      lastFireAtMs: lastFireAtMs + 1_000,
      waiting: [],
      dueAtMs: lastFireAtMs + 1_000_000_000,
      skipped: 0,
      ...more,
    });
    return outcome.status;
  }

  /** The ids of the tasks that were made, oldest first. */
  async made(): Promise<string[]> {
    const { items } = await this.tasks.list({ namespace: this.namespace });
    return items.map(({ id }) => id).reverse();
  }

  async finish(id: string): Promise<void> {
    const { namespace } = this;
    const [outcome] = await this.tasks.cancel([{ namespace, id }]);
    this.#expect(outcome?.status).toBe("ok");
  }

  pass(ms: number): Promise<void> {
    return this.#opened.advance?.(ms + 1) ?? sleep(systemClock, ms + 1);
  }
}
