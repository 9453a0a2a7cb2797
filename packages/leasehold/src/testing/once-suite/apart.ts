/** Records of one key in several namespaces, and of keys that look alike: what is done to one leaves the others alone. */
import type { Section } from "../suite.js";
import type { Fixture } from "./fixture.js";

export const apart: Section<Fixture> = (test, expect) => {
  test("of namespaces: what is done in one leaves the same keys of another alone", async (here) => {
    const there = here.beside("other");
    const shown = async () => {
      const { items } = await there.store.list({ namespace: there.namespace });
      return items.map(({ key, state, failures, value }) => ({ key, state, failures, value }));
    };
    for (const key of ["deleted", "retried", "succeeds"]) {
      for (const site of [here, there]) await site.fail(await site.hold(key));
    }
    await there.succeed(await there.hold("collected"), { value: "kept" });
    const before = await shown();
    expect(before.map(({ state }) => state)).toEqual(["done", "failing", "failing", "failing"]);

    const { namespace, shortMs: keepMs, store } = here;
    await here.succeed(await here.hold("collected"), { keepMs });
    await here.pass(keepMs);
    expect(await store.collect()).toBeGreaterThanOrEqual(1);
    expect(await store.retry({ namespace, key: "retried" })).toBe(true);
    expect(await store.delete({ namespace, key: "deleted" })).toBe(true);
    await here.succeed(await here.hold("succeeds"));
    const { items } = await store.list({ namespace });
    expect(items.map(({ key, state }) => [key, state])).toEqual([["succeeds", "done"]]);
    expect(await shown()).toEqual(before);
  });

  test("of a failure: the grants of another namespace get no answer by it", async (here) => {
    const there = here.beside("other");
    const grant = await here.hold("bill");
    await here.fail(grant);
    const { namespace } = there;
    expect(await there.fail({ ...grant, namespace })).toEqual({ status: "refused" });
    expect(await there.succeed({ ...grant, namespace })).toEqual({ status: "refused" });
    await there.succeed(await there.hold("bill"));
    expect((await here.view("bill")).state).toBe("failing");
  });

  test("of names: each key comes back as it was, and alone", async (fixture) => {
    const { namespace, store } = fixture;
    const keys = [
      "a/b",
      "a%2Fb",
      "a",
      "a//b",
      "../a",
      "a?b#c",
      "a b",
      "%",
      "_",
      "é",
      "e\u0301",
      "A",
    ];
    for (const key of keys) await fixture.succeed(await fixture.hold(key), { value: key });
    for (const key of keys) {
      const { key: shown, value } = await fixture.view(key);
      expect([shown, value]).toEqual([key, key]);
    }
    const page = await store.list({ namespace });
    expect(page.items.map(({ key }) => key).sort()).toEqual([...keys].sort());
    for (const prefix of ["%", "_", "a%"]) {
      const { items } = await store.list({ namespace, prefix });
      expect(items.map(({ key }) => key)).toEqual(keys.filter((key) => key.startsWith(prefix)));
    }
    expect(await store.delete({ namespace, key: "a/b" })).toBe(true);
    expect(await store.get({ namespace, key: "a%2Fb" })).toMatchObject({ value: "a%2Fb" });
  });
};
