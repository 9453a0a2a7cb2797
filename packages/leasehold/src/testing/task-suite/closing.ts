/** A closed store fails calls with CLOSED and ends its watchers. */
import { type Section, thrownBy } from "./fixture.js";

export const closing: Section = (test, expect) => {
  test("ends watchers and fails what comes later, definitely", async (fixture) => {
    const { store, namespace } = fixture;
    const task = fixture.newTask();
    await fixture.enqueue([task]);
    const held = await fixture.hold();
    const watching = await fixture.watch();
    await store.close();
    await watching.stop();
    const failed = { status: "failed", applied: "no", error: { code: "CLOSED" } };
    expect(await store.enqueue([task])).toMatchObject([failed]);
    expect(await store.claim(fixture.claimRequest())).toMatchObject(failed);
    expect(await store.heartbeat([{ ...held, ttlMs: 1_000 }])).toMatchObject([failed]);
    expect(await store.complete([{ ...held, output: null }])).toMatchObject([failed]);
    expect(await store.fail([{ ...held, error: "", retryInMs: null }])).toMatchObject([failed]);
    expect(await store.requeue([held])).toMatchObject([failed]);
    expect(await store.cancel([held])).toMatchObject([failed]);
    expect(await store.retry([held])).toMatchObject([failed]);
    for (const call of [
      store.get(held),
      store.list({ namespace }),
      store.counts(namespace),
      store.leases({ namespace }),
      store.reap(),
    ]) {
      expect(await thrownBy(call)).toMatchObject({ code: "CLOSED" });
    }
    await store.close();
  });
};
