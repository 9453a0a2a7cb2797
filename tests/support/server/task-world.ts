/** What programs and workers say to a server of tasks, one request at a time, as a test has it. */

const TTL_MS = 600_000;

export interface Claimed {
  readonly id: string;
  readonly fencingToken: number;
  readonly heartbeat: (progress: unknown) => Promise<unknown>;
  readonly complete: (output: unknown) => Promise<unknown>;
  readonly fail: (error: string, how?: object) => Promise<unknown>;
  readonly putOff: (retryInMs: number, reason: string) => Promise<unknown>;
}

/** @param url of the server; @param key where it asks for one */
export function taskWorld(url: string, key?: string) {
  /** @throws for an answer that is no success */
  // Tests look into it; a wrong guess fails them.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  const ask = async (method: string, path: string, body?: unknown): Promise<any> => {
    const response = await fetch(url + path, {
      method,
      headers: {
        "content-type": "application/json",
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
  return {
    ask,
    add: async (task: object = {}): Promise<string> =>
      (await ask("POST", "/api/tasks", { task_data: {}, ...task })).id,
    addMany: (count: number, task: object = {}) =>
      ask(
        "POST",
        "/api/tasks",
        Array.from({ length: count }, (_, n) => ({ task_data: { n }, ...task })),
      ),
    /** The next task of a queue. */
    async claim(queue: string, processor: string): Promise<Claimed> {
      const body = { processor, queues: [queue], ttlMs: TTL_MS, waitMs: 10_000 };
      const [task] = (await ask("POST", "/api/tasks/next", body)).tasks;
      const { id, leaseId, fencingToken } = task;
      const say = (what: string, more: object) =>
        ask("PUT", `/api/tasks/${id}/${what}`, { leaseId, fencingToken, ...more });
      return {
        id,
        fencingToken,
        heartbeat: (progress) => say("heartbeat", { progress, ttlMs: TTL_MS }),
        complete: (task_output) => say("complete", { task_output }),
        fail: (error, how = { final: true }) => say("fail", { error, ...how }),
        putOff: (retryInMs, reason) => say("return", { retryInMs, reason }),
      };
    },
    state: async (id: string): Promise<string> => (await ask("GET", `/api/tasks/${id}`)).state,
    /** How many there are of a queue, by state. */
    async states(queue: string): Promise<Record<string, number>> {
      const { items } = await ask("GET", `/api/tasks?queue=${queue}&limit=200`);
      const counts: Record<string, number> = {};
      for (const { state } of items) counts[state] = (counts[state] ?? 0) + 1;
      return counts;
    },
  };
}
