/** Those who speak to the servers over plain HTTP during the chaos: the enqueuer, readers, zombies. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "leasehold";
import type { ClaimedTask, Counts, TaskDetails, TaskPage } from "leasehold/internal/wire";

const KIND = "chaos";
const RETRY_MS = 100;

export interface Answer<T> {
  readonly status: number;
  readonly body: T;
}

/** A client that takes no server's death for an answer. */
export class Client {
  #tries = 0;

  constructor(
    readonly urls: readonly string[],
    readonly signal: AbortSignal,
  ) {}

  /** Repeats the request, at one server after the other, until one answers definitely. */
  async insist<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
    for (;;) {
      const url = this.urls[this.#tries++ % this.urls.length]!;
      const answer = await this.once<T>(url, method, path, body).catch(() => null);
      if (answer && answer.status < 500) return answer;
      this.signal.throwIfAborted();
      await delay(RETRY_MS, undefined, { signal: this.signal });
    }
  }

  async once<T>(url: string, method: string, path: string, body?: unknown): Promise<Answer<T>> {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, {
      method,
      signal: AbortSignal.any([this.signal, AbortSignal.timeout(5_000)]),
      ...(body === undefined ? {} : { headers, body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: (text && JSON.parse(text)) as T };
  }

  async counts(): Promise<Counts> {
    return (await this.insist<Counts>("GET", "/api/tasks/counts")).body;
  }

  async details(id: string): Promise<TaskDetails> {
    return (await this.insist<TaskDetails>("GET", `/api/tasks/${id}`)).body;
  }

  /** Of all tasks, newest first. */
  async ids(): Promise<string[]> {
    const ids: string[] = [];
    for (let cursor = ""; ; ) {
      const page = await this.insist<TaskPage>("GET", `/api/tasks?limit=200${cursor}`);
      ids.push(...page.body.items.map(({ id }) => id));
      if (page.body.nextCursor === null) return ids;
      cursor = `&cursor=${encodeURIComponent(page.body.nextCursor)}`;
    }
  }

  /** Polls until the condition holds of what `read` answers. */
  async until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
    for (;;) {
      const value = await read();
      if (holds(value)) return value;
      await delay(RETRY_MS, undefined, { signal: this.signal });
    }
  }
}

interface NewTask {
  readonly id: string;
  readonly kind: typeof KIND;
  readonly task_data: { steps: { waitMs: number; blockMs: number; onlyFirst: boolean }[] };
}

/**
 * Steps of some 50 to 700 ms together, a few of which block the event loop; every fiftieth task's
 * first attempt blocks it for longer than its lease, so that what it writes next is late.
 */
export function makeTasks(count: number, longBlockMs: number, random: Random): NewTask[] {
  return Array.from({ length: count }, (_, index) => {
    const steps = Array.from({ length: 1 + Math.floor(random.float() * 4) }, () => ({
      waitMs: Math.round(40 + random.float() * 140),
      blockMs: random.float() < 0.1 ? Math.round(random.float() * 40) : 0,
      onlyFirst: false,
    }));
    if (index % 50 === 25) steps[0] = { waitMs: 0, blockMs: longBlockMs, onlyFirst: true };
    return { id: uuid(random), kind: KIND, task_data: { steps } };
  });
}

function uuid(random: Random): string {
  const hex = Buffer.from(random.bytes(16)).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
}

/**
 * Enqueues them in batches at about this rate, each until it is accepted and every tenth again.
 * Resolves to the ids that were accepted.
 */
export async function enqueueAll(
  client: Client,
  tasks: readonly NewTask[],
  perSecond: number,
  random: Random,
): Promise<Set<string>> {
  const accepted = new Set<string>();
  for (let at = 0, batches = 1; at < tasks.length; batches += 1) {
    const batch = tasks.slice(at, at + 1 + Math.floor(random.float() * 10));
    at += batch.length;
    for (let times = batches % 10 === 0 ? 2 : 1; times > 0; times -= 1) {
      const { status, body } = await client.insist<unknown>("POST", "/api/tasks", batch);
      if (status !== 201) throw new Error(`not enqueued: ${status} ${JSON.stringify(body)}`);
    }
    for (const { id } of batch) accepted.add(id);
    await delay((batch.length * 1_000) / perSecond, undefined, { signal: client.signal });
  }
  return accepted;
}

/** When a zombie calls, and the codes that it may get then. */
const TOO_LATE = {
  expired: ["LEASE_EXPIRED", "LEASE_TAKEN", "TASK_FINISHED"],
  "taken over": ["LEASE_TAKEN", "TASK_FINISHED"],
  finished: ["TASK_FINISHED"],
} as const;

/**
 * Claims task after task and goes silent. It calls heartbeat, complete, fail and return when the lease has
 * expired, when another worker has the task, and when that worker has finished it. Resolves to the number
 * of refusals. Rejects if a call is not refused.
 */
export async function runZombie(
  client: Client,
  processor: string,
  ttlMs: number,
  until: AbortSignal,
): Promise<number> {
  const claim = { processor, kinds: [KIND], ttlMs, waitMs: 500 };
  let refusals = 0;
  while (!until.aborted) {
    const claimed = await client.insist<{ tasks: ClaimedTask[] }>("POST", "/api/tasks/next", claim);
    const [task] = claimed.status === 200 ? claimed.body.tasks : [];
    if (!task) continue;
    const { id, leaseId, fencingToken } = task;
    const grant = { processor, leaseId, fencingToken };
    const sayings = {
      heartbeat: { ...grant, ttlMs },
      complete: { ...grant, task_output: "late" },
      fail: { ...grant, error: "late" },
      return: grant,
    };
    const say = async (when: keyof typeof TOO_LATE) => {
      const codes: readonly string[] = TOO_LATE[when];
      for (const [operation, saying] of Object.entries(sayings)) {
        const path = `/api/tasks/${id}/${operation}`;
        const { status, body } = await client.insist<{ code: string }>("PUT", path, saying);
        if (status !== 409 || !codes.includes(body.code)) {
          const answer = `${status} ${JSON.stringify(body)}`;
          throw new Error(`${operation} of ${id} by a zombie whose lease was ${when}: ${answer}`);
        }
        refusals += 1;
      }
    };
    const details = () => client.details(id);
    await delay(task.remainingMs + 50, undefined, { signal: client.signal });
    await say("expired");
    await client.until(details, (now) => now.fencingToken !== fencingToken);
    await say("taken over");
    await client.until(details, (now) => now.state === "done");
    await say("finished");
  }
  return refusals;
}
