/** Runs a program of tasks, and compares each answer of the clients and each call of a handler with the book. */
import { defineTask, FinalTaskError, type HandlerContext, RetryLater } from "leasehold";
import { LeaseBook } from "./lease-book.js";
import { type Client, codeOf, Site } from "./site.js";
import { isSameContent, type Task, TaskBook } from "./task-book.js";
import {
  AFTER_GRACE_MS,
  type End,
  GRACE_MS,
  isAbandoned,
  type Job,
  lookAtTasks,
  PROMPT_MS,
  STOPPING_MS,
  type TaskState,
  type Working,
} from "./task-invariants.js";
import type { TaskStep } from "./task-step.js";

interface Data {
  readonly isStubborn: boolean;
}
const KINDS = ["mail", "report"].map((kind) =>
  defineTask<Data>(kind, { backoff: { firstMs: 60, longestMs: 200 } }),
);
export class TaskRun implements TaskState {
  readonly #look = () => lookAtTasks(this);
  readonly jobs = new Set<Job>();
  readonly workers = new Set<Working>();
  #open = 0;
  /** From then on each handler completes its task. */
  #isEnding = false;

  private constructor(
    readonly site: Site,
    readonly book: TaskBook,
  ) {}

  static async open(seed: number): Promise<TaskRun> {
    let book: TaskBook | undefined;
    const tasks = (site: Site) => (book = new TaskBook(site));
    const books = { leases: (site: Site) => new LeaseBook(site), tasks };
    const site = await Site.open(seed, ["worker-1", "worker-2"], books, { graceMs: GRACE_MS });
    return new TaskRun(site, book ?? tasks(site));
  }

  async step(step: TaskStep): Promise<void> {
    const { site } = this;
    if (step.do === "pass") return site.pass(step.ms, this.#look);
    if ("job" in step) {
      const job = [...this.jobs].at(-1 - step.job);
      if (job?.client.isRunning && step.do === "end") job.end(step.how);
      else if (job?.client.isRunning) {
        site.count("handler: reports progress");
        job.context.progress({ at: site.nowMs });
      }
    } else {
      const client = site.clients[step.client];
      if (client?.isRunning) this.#do(client, step);
    }
    await site.flush();
    this.#look();
    site.check();
  }

  #do(client: Client, step: Exclude<TaskStep, { do: "pass" | "end" | "progress" }>): void {
    switch (step.do) {
      case "enqueue":
        return this.#enqueue(client, step);
      case "work":
        return this.#work(client, step);
      case "stop":
        return void this.#stop([...this.workers].find((one) => one.client === client));
      case "cancel":
      case "retry":
        return this.#admin(client, step.do, this.#taskOf(step.task));
      case "get": {
        const task = this.#taskOf(step.task);
        if (task && !client.closing) {
          this.#ask(client, "get", client.leasehold.tasks.get(task.id), () => "answered");
        }
        return;
      }
      case "counts":
        if (client.closing) return;
        return this.#ask(client, "counts", client.leasehold.tasks.counts(), () => "answered");
      case "close":
        return this.#close(client);
      case "pause":
        return client.pause(step.ms);
      case "lose":
        client.losing.set(step.of, { message: step.message, times: step.times });
    }
  }

  /** Everything heals, each handler completes, and no task may be left. */
  async end(): Promise<void> {
    const { site, book } = this;
    this.#isEnding = true;
    for (const client of site.clients) {
      client.resume();
      client.losing.clear();
      for (const job of this.jobs) job.end("complete");
      const hasAll = [...this.workers].some(
        (one) => one.client === client && one.kinds.length > 1 && !one.closing,
      );
      if (!client.closing && !hasAll) {
        this.#work(client, { do: "work", client: 0, concurrency: 2, ttlMs: 1_000, kinds: 2 });
      }
    }
    const isOver = () =>
      this.#open === 0 && ![...book.tasks.values()].some((task) => book.isUnfinished(task));
    if (site.clients.some(({ closing }) => !closing)) {
      await site.until("every task is finished", 30_000, this.#look, isOver);
      const [client] = site.clients.filter(({ closing }) => !closing);
      if (client) this.#ask(client, "counts", client.leasehold.tasks.counts(), () => "answered");
      await site.pass(PROMPT_MS, this.#look);
    }
    for (const client of site.clients) if (!client.closing) this.#close(client);
    const isClosed = () => site.clients.every((client) => client.isClosed);
    await site.until("every client is closed", 30_000, this.#look, isClosed);
    site.expect(this.jobs.size === 0, "no handler outlives its client");
    site.check();
  }

  #taskOf(at: number): Task | undefined {
    return [...this.book.tasks.values()].at(-1 - at);
  }

  #enqueue(client: Client, step: Extract<TaskStep, { do: "enqueue" }>): void {
    const { site, book } = this;
    const definition = KINDS[step.kind];
    if (!definition) return;
    const { priority, maxAttempts, crashLimit, dedupe, inMs, isStubborn } = step;
    const { maxRunMs, startByMs } = step;
    const earlier = step.again === null ? undefined : this.#taskOf(step.again);
    const scheduledAt = inMs === null ? null : new Date(book.nowMs + inMs);
    const options = {
      priority,
      maxAttempts,
      crashLimit,
      maxRunMs,
      startByMs,
      ...(dedupe !== null && { dedupeKey: dedupe }),
      ...(scheduledAt && { scheduledAt }),
      ...(earlier && { id: earlier.id }),
    };
    if (client.closing) return this.#count("enqueue", "closed");
    const asked = client.leasehold.tasks.enqueue(definition, { isStubborn }, options);
    const answered = asked.catch((error: unknown) => {
      if (codeOf(error) !== "TASK_CONFLICT" || !earlier) throw error;
      return { status: "conflict", id: earlier.id } as const;
    });
    this.#ask(client, "enqueue", answered, ({ status, id }) => {
      const task = book.tasks.get(id);
      if (!task) {
        site.broken(`${id} is enqueued, and the store does not have it`);
      } else if (status === "conflict") {
        const again = { kind: definition.kind, queue: task.queue, data: { isStubborn } };
        site.expect(!isSameContent(task, again), `${id} is refused though it repeats the task`);
      } else if (status === "duplicate") {
        const isSame = task.kind === definition.kind && task.dedupeKey === dedupe;
        site.expect(isSame && dedupe !== null, `${id} is no duplicate`);
      } else {
        site.expect(!earlier || earlier.id === id, `${id} was enqueued under another id`);
        const isKept = task.priority === priority && task.maxAttempts === maxAttempts;
        site.expect(isKept || earlier !== undefined, `${id} was enqueued with other options`);
      }
      return status;
    });
  }

  #admin(client: Client, operation: "cancel" | "retry", task: Task | undefined): void {
    if (!task || client.closing) return;
    // The book has checked the answer where it was made.
    const asked = client.leasehold.tasks[operation](task.id);
    this.#ask(client, operation, asked, ({ status }) => status);
  }

  #work(client: Client, step: Extract<TaskStep, { do: "work" }>): void {
    const isBusy = [...this.workers].some((one) => one.client === client);
    if (client.closing || (isBusy && !this.#isEnding)) return;
    const { concurrency, ttlMs } = step;
    const definitions = KINDS.slice(0, step.kinds);
    const handlers = definitions.map((definition) =>
      definition.handle((data, context) => this.#handle(working, data, context)),
    );
    const worker = client.leasehold.tasks.work(handlers, { concurrency, ttlMs, graceMs: GRACE_MS });
    const kinds = definitions.map(({ kind }) => kind);
    const { nowMs } = this.site;
    const idle = { sinceMs: nowMs, idleSinceMs: nowMs, closing: undefined, closedAtMs: Infinity };
    const working: Working = { client, worker, concurrency, ttlMs, kinds, ...idle };
    this.workers.add(working);
  }

  #handle(worker: Working, { isStubborn }: Data, context: HandlerContext): Promise<unknown> {
    const { site, book } = this;
    const { client } = worker;
    const { id, attempt, failures } = context.task;
    const { lease, signal } = context;
    const task = book.tasks.get(id);
    const grant = task?.grants.find(({ token }) => token === lease.token);
    const named = `the handler of ${id} on ${client.name}`;
    if (!task || !grant) return Promise.reject(new Error(`${named} has no grant`));
    site.count("handler: begins");
    site.expect(client.isRunning, `${named} begins while its client is paused`);
    site.expect(worker.closing === undefined, `${named} begins after close()`);
    site.expect(grant.holder === client.name, `${named} has the task of ${grant.holder}`);
    site.expect(attempt === task.grants.indexOf(grant) + 1, `${named} is at attempt ${attempt}`);
    site.expect(failures <= task.failures, `${named} knows of ${failures} failures`);
    site.expect(worker.kinds.includes(task.kind), `${named} is of another kind`);
    site.expect(lease.checkAlive(), `${named} begins without a lease`);
    const own = [...this.jobs].filter(
      (job) => job.worker === worker && !isAbandoned(job, site.nowMs),
    );
    site.expect(own.length < worker.concurrency, `${named} has a slot`);
    const isAgain = own.some((job) => job.grant === grant);
    site.expect(!isAgain, `${named} begins once`);
    return new Promise((resolve, reject) => {
      const end = (how: End) => {
        if (!this.jobs.delete(job)) return;
        const isOver = signal.aborted || !lease.checkAlive();
        const report = (what: TaskBook["reports"] extends Map<string, infer R> ? R : never) => {
          if (!isOver || how === "complete") book.reports.set(`${id} ${lease.token}`, what);
        };
        if (how === "complete") {
          site.count("handler: completes");
          const output = { by: client.name, token: lease.token };
          report({ output });
          return resolve(output);
        }
        site.count(`handler: ${END[how]}`);
        if (how === "later") {
          report({ inMs: LATER_MS });
          return reject(new RetryLater({ inMs: LATER_MS }));
        }
        const message = `ended by ${how}`;
        const error = how === "final" ? new FinalTaskError(message) : new Error(message);
        if (how === "stop") return reject(error);
        error.stack = message;
        report({ error: message, final: how === "final" });
        reject(error);
      };
      const reasons: string[] = [];
      const own = { client, worker, task, grant };
      const job: Job = { ...own, context, reasons, end, abortedAtMs: Infinity };
      const aborted = () => (job.abortedAtMs = site.nowMs);
      signal.addEventListener("abort", aborted, { once: true });
      this.jobs.add(job);
      lease.onLost((reason) => {
        reasons.push(reason);
        site.count(`lost: ${reason}`);
      });
      const stop = () => client.process.env.clock.timer(STOPPING_MS, () => end("stop"));
      if (!isStubborn) signal.addEventListener("abort", stop, { once: true });
      if (this.#isEnding) client.process.env.clock.timer(STOPPING_MS, () => end("complete"));
    });
  }

  #stop(worker: Working | undefined): Promise<void> {
    if (!worker || worker.closing) return Promise.resolve();
    const { site } = this;
    const { client } = worker;
    const sinceMs = site.nowMs;
    worker.closing = worker.worker.close();
    worker.closedAtMs = sinceMs;
    this.#ask(client, "stop", worker.closing, () => {
      this.workers.delete(worker);
      this.#lookAfterStop(worker, sinceMs);
      return "done";
    });
    return worker.closing;
  }

  #lookAfterStop({ client, worker, ttlMs }: Working, sinceMs: number): void {
    const { site, book } = this;
    if (client.isFaultySince(sinceMs)) return;
    const tookMs = site.nowMs - sinceMs;
    const mostMs = GRACE_MS + AFTER_GRACE_MS + ttlMs + PROMPT_MS;
    site.expect(tookMs <= mostMs, `stopping the worker of ${client.name} takes ${tookMs} ms`);
    site.expect(worker.running === 0 || tookMs >= GRACE_MS, "handlers have their grace");
    const left = [...book.tasks.values()].find(({ state, grants }) => {
      const grant = grants.at(-1);
      const isOther = [...this.workers].some((one) => one.client === client && !one.closing);
      return state === "running" && grant?.holder === client.name && !isOther;
    });
    const isTrusted = left && (left.grants.at(-1)?.trustedUntilMs ?? 0) > book.nowMs;
    site.expect(!isTrusted, () => `${client.name} keeps ${left?.id} after its worker has closed`);
  }

  #close(client: Client): void {
    if (client.closing) return;
    const { site } = this;
    for (const worker of this.workers) {
      if (worker.client === client) worker.closing ??= Promise.resolve();
    }
    client.closing = client.leasehold.close();
    this.#ask(client, "close", client.closing, () => {
      client.isClosed = true;
      for (const job of this.jobs) if (job.client === client) job.end("stop");
      for (const worker of this.workers) if (worker.client === client) this.workers.delete(worker);
      site.expect(client.isRunning, "a paused client closes nothing");
      return "done";
    });
  }

  #count(name: string, outcome: string): void {
    this.site.count(`${name}: ${outcome}`);
  }

  #ask<T>(client: Client, name: string, asked: Promise<T>, onAnswer: (value: T) => string): void {
    const { site } = this;
    const sinceMs = site.nowMs;
    this.#open += 1;
    asked.then(
      (value) => {
        this.#open -= 1;
        this.#count(name, onAnswer(value));
      },
      (error: unknown) => {
        this.#open -= 1;
        const code = codeOf(error);
        if (code === "STORE_UNAVAILABLE") {
          site.expect(client.isFaultySince(sinceMs), `${name} fails: ${String(error)}`);
          return this.#count(name, "unavailable");
        }
        site.expect(
          code === "CLOSED" && client.closing !== undefined,
          `${name} fails with ${code}`,
        );
        this.#count(name, "closed");
      },
    );
  }
}

const END = {
  fail: "fails",
  final: "fails for good",
  stop: "stops",
  later: "is put off",
} as const;
/** How long a handler puts its task off. */
const LATER_MS = 500;
