import { expect, it } from "vitest";
import { StoreTurns } from "./store-turns.js";

/** Operations that the test ends one by one. */
function site() {
  const turns = new StoreTurns();
  const inStore: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string, leases: number, sender: string | null = "renew a") =>
    turns.run(sender, leases, async () => {
      inStore.push(name);
      await new Promise<void>((end) => ends.set(name, end));
      inStore.splice(inStore.indexOf(name), 1);
    });
  const end = (name: string) => ends.get(name)?.();
  return { run, end, inStore };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

it("a tenant has 256 leases in the store, and its other requests follow in order", async () => {
  const { run, end, inStore } = site();
  const running = [run("1", 200), run("2", 56), run("3", 100), run("4", 1)];
  await settled();
  expect(inStore).toEqual(["1", "2"]);
  end("2");
  await settled();
  // The fourth would fit, but comes after the third.
  expect(inStore).toEqual(["1"]);
  end("1");
  await settled();
  expect(inStore).toEqual(["3", "4"]);
  end("3");
  end("4");
  await Promise.all(running);
});

it("a larger request is there alone", async () => {
  const { run, end, inStore } = site();
  const running = [run("large", 1_000), run("small", 1)];
  await settled();
  expect(inStore).toEqual(["large"]);
  end("large");
  await settled();
  end("small");
  await Promise.all(running);
});

it("other tenants, other operations and callers without keys do not wait for it", async () => {
  const { run, inStore } = site();
  void run("large", 1_000);
  for (const sender of ["renew b", "acquire a", null, null]) void run(`${sender}`, 1_000, sender);
  await settled();
  expect(inStore).toEqual(["large", "renew b", "acquire a", "null", "null"]);
});

it("one that fails makes room as well", async () => {
  const turns = new StoreTurns();
  const failing = turns.run("a", 1_000, async () => {
    await settled();
    throw new Error("failed");
  });
  const next = turns.run("a", 1, () => Promise.resolve("served"));
  await expect(failing).rejects.toThrow("failed");
  expect(await next).toBe("served");
});
