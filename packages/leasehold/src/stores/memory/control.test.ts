import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { memory } from "./index.js";

it("lists pauses by namespace, kind and name, however they were set, repeated and ended", async () => {
  const { control } = await memory().open(manualEnv());
  if (!control) throw new Error("memory keeps a control");
  const { list } = control.pauses;
  const { set, clear } = control.actors.pauses;
  const pause = (namespace: string, kind: "resource" | "prefix" | "queue", name: string) => ({
    namespace,
    kind,
    name,
    actor: "a",
    reason: "r",
  });
  const named = async (namespace: string | null) =>
    (await list(namespace)).map((found) => `${found.namespace} ${found.kind} ${found.name}`);
  await set(pause("n", "resource", "b"));
  await set(pause("n", "queue", "z"));
  await set(pause("m", "resource", "y"));
  await set(pause("n", "resource", "a"));
  await set(pause("n", "prefix", ""));
  await set(pause("nn", "prefix", ""));
  const own = ["n prefix ", "n queue z", "n resource a", "n resource b"];
  expect(await named("n")).toEqual(own);
  expect(await named(null)).toEqual(["m resource y", ...own, "nn prefix "]);
  await set({ ...pause("n", "resource", "a"), reason: "again" });
  expect(await named("n")).toEqual(own);
  expect((await list("n"))[2]).toMatchObject({ reason: "again" });
  expect(await clear(pause("n", "resource", "a"))).toBe(true);
  expect(await clear(pause("n", "resource", "a"))).toBe(false);
  expect(await named("n")).toEqual(["n prefix ", "n queue z", "n resource b"]);
  expect(await named("o")).toEqual([]);
});
