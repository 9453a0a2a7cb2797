/** Past activities, which a new stream sends first. */
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../../tests/support/server/tenants.js";
import { memory } from "../../../../leasehold/src/stores/memory/index.js";
import { TenantActivity } from "./activity.js";
import { UNRESTRICTED } from "./event-stream.js";

it("past activities are sent in pieces, as the client reads them", async () => {
  const activity = new TenantActivity(manualEnv());
  onTestFinished(() => activity.close());
  const pause = (n: number) =>
    activity.notePause(
      "paused",
      { kind: "queue", name: `${n}` },
      { actor: "a", reason: "\u0001".repeat(500) },
    );
  for (let n = 0; n < 1_000; n += 1) pause(n);
  const topics = ["operator"] as const;
  const stream: ReadableStream<Uint8Array> = activity.stream({
    topics,
    last: 900,
    lastEventId: undefined,
    listener: UNRESTRICTED,
  });
  const reader = stream.getReader();
  onTestFinished(() => reader.cancel());
  const names: string[] = [];
  const read = async () => {
    const text = new TextDecoder().decode((await reader.read()).value);
    names.push(...[...text.matchAll(/"other":"queue (\d+)"/g)].map(([, name = ""]) => name));
    return text;
  };
  // The first comment.
  await read();
  const sizes: number[] = [];
  while (names.length < 900) {
    sizes.push((await read()).length);
    // What happens meanwhile comes behind them.
    if (sizes.length === 3) pause(1_000);
  }
  expect(Math.max(...sizes)).toBeLessThan(40_000);
  if (names.length === 900) await read();
  expect(names).toEqual(Array.from({ length: 901 }, (_, n) => `${n + 100}`));
});

it("a stream costs its key as much as a batch of so many items", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env, { ratePerSecond: 20 });
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const { text } = await tenants.newKey("a", "viewer");
  const open = async (last: number) => {
    const headers = { authorization: `Bearer ${text}` };
    const request = new Request(`http://x/v1/activity?last=${last}`, { headers });
    const { status, body } = await tenants.app.fetch(request);
    await body?.cancel();
    return status;
  };
  expect([await open(0), await open(9), await open(1_000), await open(0)]).toEqual([
    200, 200, 200, 429,
  ]);
});
