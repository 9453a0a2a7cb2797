import { describe, expect, it } from "vitest";
import { z } from "zod";
import { connect, defineTask } from "../index.js";
import type { KeyOptions } from "./concurrency.js";
import { newTaskOf } from "./new-task.js";

const keyOf = (data: { account: string | null }) => data.account;
const concurrencyOf = async (options: KeyOptions<{ account: string | null }>, account = "ada") => {
  const definition = defineTask("sync", options);
  return (await newTaskOf(definition, { data: { account } }, "default", () => "id")).concurrency;
};

describe("the concurrency key of a kind", () => {
  it("comes from the data, with the limit and the order of the kind", async () => {
    expect(await concurrencyOf({ concurrencyKey: keyOf })).toEqual({
      key: "ada",
      perKey: 1,
      order: "fifo",
    });
    expect(await concurrencyOf({ concurrencyKey: keyOf, perKey: 3, order: "any" })).toEqual({
      key: "ada",
      perKey: 3,
      order: "any",
    });
  });

  it("is missing from tasks for which the function returns none", async () => {
    expect(await concurrencyOf({ concurrencyKey: () => null })).toBeUndefined();
    expect(await concurrencyOf({})).toBeUndefined();
  });

  it("has the type of the data that is enqueued", async () => {
    const schema = z.object({ account: z.string(), at: z.string().transform(Date.parse) });
    const sync = defineTask("sync", { schema, concurrencyKey: ({ account, at }) => account + at });
    const task = await newTaskOf(sync, { data: { account: "a", at: "2026" } }, "default", () => "");
    expect(task.concurrency?.key).toBe("a2026");
  });

  it.each([
    [{ perKey: 2 }, "perKey", "needs concurrencyKey"],
    [{ order: "any" }, "order", "needs concurrencyKey"],
    [{ concurrencyKey: keyOf, perKey: 0 }, "perKey", "from 1 to 10000"],
    [{ concurrencyKey: keyOf, order: "lifo" }, "order", "must be one of fifo, any"],
    [{ concurrencyKey: "account" }, "concurrencyKey", "must be a function"],
  ])("%j is refused", (options, path, message) => {
    expect(() => defineTask("sync", options as KeyOptions<unknown>)).toThrow(
      expect.objectContaining({ path, message: expect.stringContaining(message) as string }),
    );
  });

  it("is refused when it is no text", async () => {
    const sync = defineTask("sync", { concurrencyKey: () => 7 as unknown as string });
    await expect(newTaskOf(sync, { data: null }, "default", () => "id")).rejects.toThrow(
      expect.objectContaining({ path: "concurrencyKey" }),
    );
  });

  it("keeps tasks of one account in order, and apart, on workers with many places", async () => {
    const leasehold = await connect("memory:");
    const accounts = ["ada", "joan"];
    const sync = defineTask("sync", {
      concurrencyKey: (data: { account: string }) => data.account,
    });
    const tasks = Array.from({ length: 20 }, (_, n) => ({
      data: { account: accounts[n % 2] ?? "", n },
    }));
    const handles = await leasehold.tasks.enqueueAll(sync, tasks);
    const running = new Map<string, number>();
    const ran: number[] = [];
    const handler = sync.handle(async (data) => {
      const { account, n } = data as { account: string; n: number };
      running.set(account, (running.get(account) ?? 0) + 1);
      expect(running.get(account)).toBe(1);
      ran.push(n);
      await Promise.resolve();
      running.set(account, 0);
    });
    leasehold.tasks.work([handler], { concurrency: 5 });
    leasehold.tasks.work([handler], { concurrency: 5 });
    await Promise.all(handles.map((handle) => handle.result({ timeoutMs: 20_000 })));
    for (const odd of [0, 1]) {
      expect(ran.filter((n) => n % 2 === odd)).toEqual(
        tasks.map(({ data }) => data.n).filter((n) => n % 2 === odd),
      );
    }
    await leasehold.close();
  });
});
