import { expect, it } from "vitest";
import { faultyStore } from "../../test/support/faulty-store.js";
import { Leases } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { observeLeader } from "./observer.js";

it("tells nothing of what a replica answers late: the leader of before does not come back", async () => {
  const env = manualEnv();
  const { clock } = env;
  const store = faultyStore(env);
  const leases = new Leases(store, { env, holder: "a" }, { close: undefined });
  const read = store.get.bind(store);
  const stop = new AbortController();
  const seen: (number | null)[] = [];
  const watching = (async () => {
    for await (const { token } of observeLeader(leases, "n", stop.signal)) seen.push(token);
  })();
  const first = await leases.acquire("n");
  await clock.advance(2_000);
  const late = await read([{ namespace: "default", resource: "n" }]);
  await first.release();
  const second = await leases.acquire("n");
  await clock.advance(2_000);
  store.get = () => Promise.resolve(late);
  await clock.advance(60_000);
  stop.abort();
  await clock.settle();
  await watching;
  expect(seen).toContain(second.token);
  const tokens = seen.map((token) => token ?? 0);
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
  await second.release();
});
