/**
 * What the store of tasks should answer, written down anew: the state of each task, who works on it until
 * when, and which task comes next. Each decision of the store is compared with it.
 */
import type { ClaimOutcome, NewTask, TaskStore } from "leasehold/internal";
import type { Judge } from "./judge.js";

type Request<Name extends "heartbeat" | "complete" | "fail" | "requeue"> = Parameters<
  TaskStore[Name]
>[0][number];
type Outcome<Name extends "enqueue" | "heartbeat" | "complete" | "fail" | "requeue" | "cancel"> =
  Awaited<ReturnType<TaskStore[Name]>>[number];
type Details = Awaited<ReturnType<TaskStore["get"]>>;
type Key = Parameters<TaskStore["get"]>[0];
type ClaimRequest = Parameters<TaskStore["claim"]>[0];

/** One grant on a task. */
export interface TaskGranted {
  readonly holder: string;
  readonly leaseId: string;
  readonly token: number;
  readonly grantedAtMs: number;
  untilMs: number;
  /** No renewal goes beyond it. */
  readonly latestMs: number;
  confirmedAtMs: number;
  trustedUntilMs: number;
  result: "done" | "failed" | "expired" | "returned" | "cancelled" | null;
  endedAtMs: number;
}

export interface Task extends NewTask {
  state: "pending" | "running" | "done" | "dead" | "cancelled" | "expired";
  dueMs: number;
  /** When it must have begun. */
  startByAtMs: number;
  postponed: number;
  /** When it became pending, or was due later. */
  pendingSinceMs: number;
  failures: number;
  crashes: number;
  output: unknown;
  readonly grants: TaskGranted[];
}

/** How a handler has ended its task, if it has. */
export type Report =
  | { readonly output: unknown }
  | { readonly error: string; readonly final: boolean }
  | { readonly inMs: number };

export class TaskBook {
  readonly #site: Judge;
  readonly tasks = new Map<string, Task>();
  /** By claim id: the grants that it has made. */
  readonly #claims = new Map<string, ReadonlyMap<string, TaskGranted>>();
  /** By token of each task: what its handler has ended with. */
  readonly reports = new Map<string, Report>();

  constructor(site: Judge) {
    this.#site = site;
  }

  get nowMs(): number {
    return this.#site.tasks.nowMs();
  }

  isUnfinished({ state }: Task): boolean {
    return state === "pending" || state === "running";
  }

  enqueued(task: NewTask, outcome: Outcome<"enqueue">): void {
    const { id, kind, dedupeKey, scheduledAt } = task;
    const earlier = this.tasks.get(id);
    const rival = this.#rival(task);
    if (earlier) {
      const status = isSameContent(earlier, task) ? "enqueued" : "conflict";
      const what = status === "enqueued" ? "repeated" : "of another content";
      this.#site.count(`store: enqueue ${what}`);
      return this.#same("enqueue", id, outcome, { status, id });
    }
    if (rival) this.#site.count("store: enqueue of a duplicate");
    if (rival) return this.#same("enqueue", id, outcome, { status: "duplicate", id: rival.id });
    this.#same(`enqueue of ${kind} ${dedupeKey}`, id, outcome, { status: "enqueued", id });
    const { nowMs } = this;
    const dueMs = scheduledAt === null ? nowMs : Date.parse(scheduledAt);
    const counts = { failures: 0, crashes: 0, postponed: 0, output: null };
    const startByAtMs = dueMs + (task.startByMs ?? Infinity);
    this.tasks.set(id, {
      ...task,
      ...counts,
      state: "pending",
      dueMs,
      startByAtMs,
      pendingSinceMs: nowMs,
      grants: [],
    });
  }

  claimed(request: ClaimRequest, outcome: ClaimOutcome): void {
    const { claimId, holder, ttlMs, limit, kinds, queues } = request;
    if (outcome.status === "failed") return this.#site.broken("a claim fails");
    const ids = outcome.tasks.map(({ id }) => id);
    const { nowMs } = this;
    this.#endLate();
    const again = this.#claims.get(claimId);
    if (again) {
      this.#site.count("store: claim repeated");
      const own = [...again].filter(([id, grant]) => {
        const task = this.tasks.get(id);
        const isLast = task?.state === "running" && task.grants.at(-1) === grant;
        return isLast && nowMs < grant.untilMs;
      });
      const right = { ids: own.map(([id]) => id).join() };
      this.#same("claim again", claimId, { ids: ids.join() }, right);
      for (const { id, remainingMs } of outcome.tasks) {
        const grant = again.get(id);
        if (grant) this.#confirm(grant, remainingMs);
      }
      return;
    }
    // In the order in which they were enqueued, where priority and time are equal.
    const due = [...this.tasks.values()]
      .filter(({ state, dueMs }) => state === "pending" && dueMs <= nowMs)
      .filter(({ queue, kind }) => queues.includes(queue) && (kinds?.includes(kind) ?? true))
      .sort((a, b) => a.priority - b.priority || a.dueMs - b.dueMs)
      .slice(0, limit);
    const right = { ids: due.map(({ id }) => id).join() };
    this.#same("claim", holder, { ids: ids.join() }, right);
    if (due.length > 1) this.#site.count("store: claim of several");
    const made = new Map<string, TaskGranted>();
    for (const claimed of outcome.tasks) {
      const task = this.tasks.get(claimed.id);
      if (!task) continue;
      const last = task.grants.at(-1);
      const { attempt, failures, crashes, priority, kind, postponed } = claimed;
      this.#same(
        "claim",
        task.id,
        { attempt, failures, crashes, priority, kind, postponed },
        {
          postponed: task.postponed,
          attempt: task.grants.length + 1,
          failures: task.failures,
          crashes: task.crashes,
          priority: task.priority,
          kind: task.kind,
        },
      );
      this.#same("claim", task.id, claimed, { ttlMs, previousHolder: last?.holder ?? null });
      this.#site.expect(claimed.token > (last?.token ?? 0), `the tokens of ${task.id} grow`);
      const { leaseId, token } = claimed;
      const latestMs = nowMs + (task.maxRunMs ?? Infinity) + (request.graceMs ?? 6_000);
      const grant: TaskGranted = {
        holder,
        leaseId,
        token,
        grantedAtMs: nowMs,
        untilMs: Math.min(latestMs, nowMs + ttlMs),
        latestMs,
        confirmedAtMs: nowMs,
        trustedUntilMs: -Infinity,
        result: null,
        endedAtMs: Infinity,
      };
      this.#confirm(grant, claimed.remainingMs);
      task.grants.push(grant);
      made.set(task.id, grant);
      task.state = "running";
      this.#site.count("store: task claimed");
    }
    if (made.size > 0) this.#claims.set(claimId, made);
  }

  heartbeat(request: Request<"heartbeat">, outcome: Outcome<"heartbeat">): void {
    const { task, grant, reason } = this.#standing(request);
    this.#site.count(
      reason === null ? "store: heartbeat confirmed" : `store: heartbeat refused, ${reason}`,
    );
    if (reason !== null || !task || !grant)
      return this.#refused("heartbeat", request, outcome, reason);
    grant.untilMs = Math.min(grant.latestMs, Math.max(grant.untilMs, this.nowMs + request.ttlMs));
    this.#same("heartbeat", task.id, outcome, { status: "renewed" });
    if (outcome.status === "renewed") this.#confirm(grant, outcome.remainingMs);
  }

  completed(request: Request<"complete">, outcome: Outcome<"complete">): void {
    const { task, grant, reason } = this.#standing(request);
    this.#reported(request, { output: request.output });
    const isOwn = grant?.leaseId === request.leaseId && grant.token === request.token;
    if (task?.state === "done" && isOwn) {
      this.#site.count("store: complete repeated");
      return this.#same("complete", task.id, outcome, { status: "completed", repeated: true });
    }
    this.#site.count(reason === null ? "store: completed" : `store: complete refused, ${reason}`);
    if (reason !== null || !task || !grant)
      return this.#refused("complete", request, outcome, reason);
    this.#end(task, "done", "done");
    task.output = request.output;
    this.#same("complete", task.id, outcome, { status: "completed", repeated: false });
  }

  failed(request: Request<"fail">, outcome: Outcome<"fail">): void {
    const { task, grant, reason } = this.#standing(request);
    if (request.error.startsWith("it ran longer than")) {
      const ranMs = this.nowMs - (grant?.grantedAtMs ?? this.nowMs);
      const isRight = reason === "taken" || ranMs >= (task?.maxRunMs ?? Infinity);
      this.#site.expect(isRight, `${request.id} has not run for too long`);
      this.#site.count("store: failed by time");
    } else this.#reported(request, { error: request.error, final: request.final ?? false });
    const isOwn = grant?.leaseId === request.leaseId && grant.token === request.token;
    const { nowMs } = this;
    if (task && isOwn && grant.result === "failed" && task.state !== "cancelled") {
      this.#site.count("store: fail repeated");
      const right = { status: "recorded", repeated: true, state: task.state };
      return this.#same("fail", task.id, outcome, right);
    }
    this.#site.count(reason === null ? "store: failed" : `store: fail refused, ${reason}`);
    if (reason !== null || !task || !grant) return this.#refused("fail", request, outcome, reason);
    task.failures += 1;
    const isDead = request.final === true || task.failures >= task.maxAttempts;
    this.#end(task, isDead ? "dead" : "pending", "failed");
    const right = { status: "recorded", repeated: false, state: task.state };
    this.#same("fail", task.id, outcome, right);
    if (isDead || outcome.status !== "recorded") return;
    const longestMs = Math.min(
      task.backoff.firstMs * 2 ** (task.failures - 1),
      task.backoff.longestMs,
    );
    const retryInMs = outcome.retryInMs ?? -1;
    const isRight = retryInMs >= longestMs / 2 - 1 && retryInMs <= longestMs + 1;
    this.#site.expect(isRight, `${task.id} is retried in ${retryInMs} ms, of ${longestMs}`);
    task.dueMs = nowMs + retryInMs;
  }

  requeued(request: Request<"requeue">, outcome: Outcome<"requeue">): void {
    const { task, grant, reason } = this.#standing(request);
    const isOwn = grant?.leaseId === request.leaseId && grant.token === request.token;
    if (task?.state === "pending" && isOwn && grant.result === "returned") {
      this.#site.count("store: requeue repeated");
      return this.#same("requeue", task.id, outcome, { status: "returned", repeated: true });
    }
    this.#site.count(reason === null ? "store: requeued" : `store: requeue refused, ${reason}`);
    if (reason !== null || !task) return this.#refused("requeue", request, outcome, reason);
    this.#end(task, "pending", "returned");
    const { retryInMs = null } = request;
    if (retryInMs !== null) {
      this.#reported(request, { inMs: retryInMs });
      this.#site.count("store: postponed");
      task.dueMs = this.nowMs + retryInMs;
      task.postponed += 1;
    }
    this.#same("requeue", task.id, outcome, { status: "returned", repeated: false });
  }

  cancelled({ id }: Key, outcome: Outcome<"cancel">): void {
    const task = this.tasks.get(id);
    if (!task) return this.#same("cancel", id, outcome, { status: "unknown" });
    const isStopped = this.isUnfinished(task);
    const status = isStopped || task.state === "cancelled" ? "ok" : "conflict";
    if (isStopped) this.#end(task, "cancelled", "cancelled");
    this.#same("cancel", id, outcome, { status, state: task.state });
  }

  retried({ id }: Key, outcome: Outcome<"cancel">): void {
    const task = this.tasks.get(id);
    if (!task) return this.#same("retry", id, outcome, { status: "unknown" });
    const isOver = !this.isUnfinished(task) && task.state !== "done";
    const isPossible = task.state === "pending" || (isOver && !this.#rival(task));
    if (!isPossible)
      return this.#same("retry", id, outcome, { status: "conflict", state: task.state });
    task.dueMs = isOver ? this.nowMs : Math.min(task.dueMs, this.nowMs);
    [task.state, task.failures, task.crashes, task.postponed] = ["pending", 0, 0, 0];
    if (isOver) task.startByAtMs = Infinity;
    task.pendingSinceMs = this.nowMs;
    this.#same("retry", id, outcome, { status: "ok", state: "pending" });
  }

  reaped(reaped: Awaited<ReturnType<TaskStore["reap"]>>): void {
    this.#endLate();
    const late = reaped.filter(({ state }) => state === "expired");
    for (const { id } of late) {
      this.#site.count("store: reaped, expired");
      const { startByMs = null } = this.tasks.get(id) ?? {};
      // It may have been retried since a claim found it late.
      this.#site.expect(startByMs !== null, `${id} may begin at any time`);
    }
    const expired = [...this.tasks.values()].filter((task) => {
      const grant = task.grants.at(-1);
      return task.state === "running" && grant && this.nowMs >= grant.untilMs;
    });
    const right = {
      ids: expired
        .map(({ id }) => id)
        .sort()
        .join(),
    };
    this.#same(
      "reap",
      "",
      {
        ids: reaped
          .filter((one) => !late.includes(one))
          .map(({ id }) => id)
          .sort()
          .join(),
      },
      right,
    );
    for (const task of expired) {
      task.crashes += 1;
      this.#end(task, task.crashes >= task.crashLimit ? "dead" : "pending", "expired");
      this.#site.count(`store: reaped, ${task.state}`);
      const { state } = reaped.find(({ id }) => id === task.id) ?? {};
      this.#same("reap", task.id, { state }, { state: task.state });
    }
  }

  read({ id }: Key, details: Details): void {
    const task = this.tasks.get(id);
    if (!task) return this.#site.expect(details === null, `get finds ${id}`);
    const { state, failures, crashes, priority, maxAttempts, dedupeKey, grants } = task;
    const last = grants.at(-1);
    this.#same(
      "get",
      id,
      { ...details },
      {
        state,
        failures,
        crashes,
        priority,
        maxAttempts,
        dedupeKey,
        postponed: task.postponed,
        attempt: grants.length,
        holder: last?.holder ?? null,
        token: last?.token ?? null,
      },
    );
    const results = (list: readonly { readonly result: string | null }[] = []) =>
      list.map(({ result }) => result).join();
    this.#same("get", id, { results: results(details?.attempts) }, { results: results(grants) });
    const output = JSON.stringify(details?.output);
    this.#same("get", id, { output }, { output: JSON.stringify(task.output) });
  }

  counted(counts: Readonly<Record<string, number>>): void {
    for (const state of ["pending", "running", "done", "dead", "cancelled", "expired"]) {
      const right = [...this.tasks.values()].filter((task) => task.state === state).length;
      this.#same("counts", state, counts, { [state]: right });
    }
  }

  isLate({ state, grants, startByAtMs }: Task): boolean {
    return state === "pending" && grants.length === 0 && startByAtMs <= this.nowMs;
  }

  /** The store ends them when it is next asked for tasks, or to reap. */
  #endLate(): void {
    for (const task of this.tasks.values()) if (this.isLate(task)) task.state = "expired";
  }

  #rival({ id, kind, dedupeKey }: NewTask): Task | undefined {
    return [...this.tasks.values()].find(
      (other) =>
        dedupeKey !== null &&
        other.id !== id &&
        other.kind === kind &&
        other.dedupeKey === dedupeKey &&
        this.isUnfinished(other),
    );
  }

  /** Why the store must refuse the request of a holder; null if it must not. */
  #standing({ id, leaseId, token }: Request<"requeue">) {
    const task = this.tasks.get(id);
    const grant = task?.grants.at(-1);
    let reason: string | null = null;
    if (!task) reason = "unknown";
    else if (["done", "dead", "expired"].includes(task.state)) reason = "finished";
    else if (task.state === "cancelled") reason = "cancelled";
    else if (grant?.leaseId !== leaseId || grant.token !== token) reason = "taken";
    else if (task.state !== "running" || this.nowMs >= grant.untilMs) reason = "expired";
    return { task, grant, reason };
  }

  #end(task: Task, state: Task["state"], result: NonNullable<TaskGranted["result"]>): void {
    const grant = task.grants.at(-1);
    if (task.state === "running" && grant) {
      grant.result = result;
      grant.endedAtMs = this.nowMs;
    }
    task.state = state;
    if (state === "pending") task.pendingSinceMs = this.nowMs;
  }

  /** The report of a worker is what its handler has ended with. */
  #reported({ id, token }: Request<"requeue">, given: Report): void {
    const report = this.reports.get(`${id} ${token}`);
    const text = JSON.stringify(report);
    this.#site.expect(report !== undefined, `${id} is reported before its handler has ended`);
    this.#same("report", id, { text: JSON.stringify(given) }, { text });
  }

  #confirm(grant: TaskGranted, remainingMs: number): void {
    grant.confirmedAtMs = this.nowMs;
    grant.trustedUntilMs = Math.max(grant.trustedUntilMs, this.nowMs + remainingMs * 0.99 - 10);
  }

  #refused(operation: string, { id }: Key, outcome: object, reason: string | null): void {
    this.#same(operation, id, outcome, { status: "refused", reason });
  }

  #same(operation: string, about: string, answer: object, right: Record<string, unknown>): void {
    const given = answer as Record<string, unknown>;
    const isSame = Object.entries(right).every(([name, value]) => given[name] === value);
    this.#site.expect(isSame, () => {
      const should = JSON.stringify(right);
      return `${operation} ${about} answers ${JSON.stringify(answer)}, not ${should}`;
    });
  }
}

/** What a repeated id is for: the same kind of work, in the same queue, on the same data. */
export function isSameContent(
  one: Pick<NewTask, "kind" | "queue" | "data">,
  other: Pick<NewTask, "kind" | "queue" | "data">,
): boolean {
  const contentOf = ({ kind, queue, data }: typeof one) => JSON.stringify([kind, queue, data]);
  return contentOf(one) === contentOf(other);
}
