/** A server app on stores in memory, asked without a network. */
import { expect, onTestFinished } from "vitest";
import { type Env, systemEnv } from "../../../packages/leasehold/src/env/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import {
  type AppOptions,
  createApp,
  type ServerApp,
} from "../../../packages/leasehold-server/src/http/index.js";
import { TEST_LIMITS } from "./test-limits.js";

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  // Tests look into it; a wrong guess fails them.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly body: any;
}

export interface Asked {
  readonly stores: Stores;
  readonly app: ServerApp;
  /** The body is sent as JSON; text goes as it is. */
  ask(
    method: string,
    path: string,
    body?: unknown,
    init?: { headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Reply>;
  close(): Promise<void>;
}

export async function openApp(options: Partial<AppOptions> & { env?: Env } = {}): Promise<Asked> {
  const stores = await memory().open(options.env ?? systemEnv);
  const created = createApp({
    ...stores,
    auth: "ifAny",
    version: "1.2.3",
    limits: TEST_LIMITS,
    ...options,
  });
  const app: ServerApp = {
    ...created,
    // As a host on this machine.
    fetch: (request, connection) =>
      created.fetch(request, { remoteAddress: "127.0.0.1", ...connection }),
  };
  return {
    stores,
    app,
    async ask(method, path, body, { headers = {}, signal } = {}) {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      const response = await app.fetch(
        new Request(`http://localhost${path}`, {
          method,
          headers: {
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...headers,
          },
          ...(body === undefined ? {} : { body: text }),
          ...(signal ? { signal } : {}),
        }),
      );
      const answer = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: answer === "" ? null : JSON.parse(answer),
      };
    },
    async close() {
      await app.close();
      await stores.close();
    },
  };
}

/** As openApp(), and closed when the test that opens it has finished. */
export async function openTestApp(options: Parameters<typeof openApp>[0] = {}): Promise<Asked> {
  const asked = await openApp(options);
  onTestFinished(() => asked.close());
  return asked;
}

export const PROCESSOR = "worker-1";

/** Adds a task and takes it: how its holder speaks of it. */
export async function held({ ask }: Asked, task: object = {}, next: object = {}) {
  const { id } = (await ask("POST", "/api/tasks", { task_data: { n: 1 }, ...task })).body;
  const { body } = await ask("POST", "/api/tasks/next", { processor: PROCESSOR, ...next });
  expect(body.tasks[0].id).toBe(id);
  const { leaseId, fencingToken } = body.tasks[0];
  return { id, path: `/api/tasks/${id}`, grant: { processor: PROCESSOR, leaseId, fencingToken } };
}

/** The reply is this problem, whole. */
export function expectProblem(
  { status, body, headers }: Reply,
  expected: number,
  code: string,
): void {
  expect(headers.get("content-type")).toBe("application/problem+json");
  expect(body).toMatchObject({
    type: `urn:leasehold:problem:${code.toLowerCase().replaceAll("_", "-")}`,
    title: expect.any(String),
    detail: expect.any(String),
    status: expected,
    code,
    requestId: headers.get("x-request-id"),
  });
  expect(status).toBe(expected);
}
