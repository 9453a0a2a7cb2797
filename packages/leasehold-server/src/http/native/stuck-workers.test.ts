/** A worker whose handlers do not end, as the operators of its server see it. */
import { connect, defineTask } from "leasehold";
import { manualEnv } from "leasehold/testing";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/server/app.js";
import { http } from "../../../../leasehold/src/stores/http/index.js";

test("is shown as stuck while it takes no tasks, and no longer once it takes some again", async () => {
  const env = manualEnv();
  const { app, ask } = await openTestApp({ env });
  const fetch = ((url: string, init: RequestInit) =>
    app.fetch(new Request(url, init))) as typeof globalThis.fetch;
  const leasehold = await connect(http({ url: "http://localhost", fetch }), { env, holder: "w" });
  const abandoned = async (): Promise<unknown> => {
    const { items } = (await ask("GET", "/v1/workers")).body as {
      items: { holder: string; claims: { abandoned: number } | null }[];
    };
    return items.find(({ holder }) => holder === "w")?.claims?.abandoned;
  };
  const until = async (what: () => Promise<boolean>) => {
    while (!(await what())) await env.clock.advance(100);
  };
  const ends: (() => void)[] = [];
  const hung = defineTask("hung");
  const handler = hung.handle(() => new Promise<void>((resolve) => ends.push(resolve)));
  const options = { concurrency: 1, graceMs: 1_000, maxAbandoned: 0 };
  const worker = leasehold.tasks.work([handler], options);
  const { id } = await leasehold.tasks.enqueue(hung, null);
  await until(async () => ends.length === 1);
  expect(await abandoned()).toBe(0);
  await leasehold.tasks.cancel(id);
  await until(async () => (await abandoned()) === 1);
  await leasehold.tasks.enqueue(hung, null);
  await env.clock.advance(10_000);
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await until(async () => (await abandoned()) === 0 && ends.length === 2);
  ends[1]?.();
  const closing = worker.close().then(() => leasehold.close());
  let isClosed = false;
  void closing.then(() => (isClosed = true));
  await until(async () => isClosed);
});
