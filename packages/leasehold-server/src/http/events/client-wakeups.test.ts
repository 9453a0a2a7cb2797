/**
 * What a server's notifications bring to its clients. One clock, which stands still, is that of the store, of the server and
 * of the clients: no poll helps.
 */
import type { TaskStore } from "leasehold/internal";
import { ResultWaits } from "leasehold/internal";
import { manualEnv } from "leasehold/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { taskIds } from "../../../../leasehold/src/env/index.js";
import { LeaseClient } from "../../../../leasehold/src/lease/index.js";
import { http } from "../../../../leasehold/src/stores/http/index.js";
import { newTaskOf } from "../../../../leasehold/src/testing/task-suite/new-task.js";

const namespace = "default";

async function open() {
  const env = manualEnv();
  const { app, stores } = await openTestApp({ env });
  /** Paths of the requests, in order. */
  const asked: string[] = [];
  /** What the event streams have sent. */
  let sent = "";
  const fetch = (async (url: string, init: RequestInit) => {
    const { pathname } = new URL(url);
    asked.push(pathname);
    const response = await app.fetch(new Request(url, init));
    if (pathname !== "/v1/events") return response;
    const [body, copy] = response.body!.tee();
    void (async () => {
      for await (const bytes of copy) sent += new TextDecoder().decode(bytes);
    })();
    return new Response(body, response);
  }) as typeof globalThis.fetch;
  const client = await http({ url: "http://localhost", fetch }).open(env);
  onTestFinished(() => client.close());
  const newId = taskIds(env.clock, env.random);
  const { tasks } = stores as { tasks: TaskStore };
  const claiming = (claimId: string, waitMs = 0) => ({
    namespace,
    claimId: claimId.padStart(48, "0"),
    holder: "w",
    queues: ["q"],
    kinds: null,
    limit: 1,
    ttlMs: 60_000,
    waitMs,
  });
  return {
    env,
    client,
    stores: { ...stores, tasks },
    claiming,
    enqueue: async () => {
      const id = newId();
      await tasks.enqueue([newTaskOf({ namespace, id }, { queue: "q" })]);
      return id;
    },
    /** Resolves when this has been sent, and what it causes has happened. */
    async until(what: () => boolean) {
      await vi.waitFor(() => expect(what()).toBe(true), 10_000);
      for (let turn = 0; turn < 100; turn += 1) await env.clock.settle();
    },
    asks: (path: string) => asked.filter((one) => one === path).length,
    sent: (event: string) => sent.split(`event: ${event}\n`).length - 1,
  };
}

test("a waiter is granted a lease at the notification of its release", async () => {
  const { env, client, stores, until, asks, sent } = await open();
  const held = { namespace, resource: "r", leaseId: "0".repeat(48) };
  await stores.leases.acquire([{ ...held, holder: "a", ttlMs: 60_000 }]);
  const leases = new LeaseClient(client.leases, { env, holder: "b" }, { close: undefined });
  const waiting = leases.acquire("r", { ttlMs: 60_000 });
  await until(() => sent("resync") === 1);
  const attempts = asks("/v1/leases/acquire");
  await stores.leases.release([held]);
  const lease = await waiting;
  expect([sent("lease"), asks("/v1/leases/acquire")]).toEqual([1, attempts + 1]);
  await lease.release();
  await leases.close();
}, 20_000);

test("a claim that waits at the server gets a task at the notification of it", async () => {
  const { client, claiming, enqueue, until, asks } = await open();
  const waiting = client.tasks.claim(claiming("1", 10_000), { timeoutMs: 20_000 });
  await until(() => asks("/api/tasks/next") === 1);
  const id = await enqueue();
  expect(await waiting).toMatchObject({ status: "claimed", tasks: [{ id }] });
  expect(asks("/api/tasks/next")).toBe(1);
}, 20_000);

test("a wait for a result ends at the notification of it", async () => {
  const { env, client, stores, claiming, enqueue, until, asks, sent } = await open();
  const id = await enqueue();
  const claimed = await stores.tasks.claim(claiming("1"));
  const [grant] = claimed.status === "claimed" ? claimed.tasks : [];
  const waits = new ResultWaits(client.tasks, namespace, env);
  onTestFinished(() => waits.close());
  const waiting = waits.of(id);
  await until(() => sent("resync") === 1 && asks("/v1/tasks/results") > 0);
  const { leaseId, token } = grant!;
  await stores.tasks.complete([{ namespace, id, leaseId, token, output: "1" }]);
  expect(await waiting).toMatchObject({ state: "done" });
  expect(sent("ended")).toBe(1);
}, 20_000);
