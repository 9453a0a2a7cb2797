import type { Section } from "./fixture.js";

export const closing: Section = (test, expect) => {
  test("ends watches, may be repeated, and refuses every call from then on", async (t) => {
    const { store } = t;
    const watching = await t.watch();
    await store.close();
    await store.close();
    await watching.ended;

    const request = t.request(t.key());
    const outcomes = [
      await store.acquire([request]),
      await store.renew([request]),
      await store.release([request]),
      await store.revoke([{ ...t.key(), free: "now" }]),
    ];
    for (const [outcome] of outcomes) {
      expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: false });
      if (outcome?.status === "failed") expect(outcome.error.code).toBe("CLOSED");
    }
    const codeOf = async (call: Promise<unknown>) =>
      call.then(
        () => "no error",
        (error: { code?: unknown }) => error.code,
      );
    expect(await codeOf(store.get([t.key()]))).toBe("CLOSED");
    expect(await codeOf(store.list({ namespace: t.namespace }))).toBe("CLOSED");
    expect(await codeOf(store.collect(0))).toBe("CLOSED");
    const { signal } = new AbortController();
    const events = store.watch(t.namespace, { signal })[Symbol.asyncIterator]();
    expect(await codeOf(events.next())).toBe("CLOSED");
  });
};
