/** All readers see the same wanted state of the generator, wherever it is kept. */
import { expect, it } from "vitest";
import type { LeaseStores } from "../../../packages/leasehold/src/stores/source.js";
import { GeneratorState } from "../../../packages/leasehold-server/src/generator/state.js";

/** @param open the stores, and the same over connections of their own where an engine has such */
export function exerciseGeneratorState(open: () => Promise<readonly LeaseStores[]>): void {
  const states = async () => {
    const opened = await open();
    const [one, other = one] = opened.map(({ backing }) => new GeneratorState(backing));
    if (!one || !other) throw new Error("no stores");
    return { one, other };
  };
  let namespaces = 0;
  const newNamespace = () => `generator-${(namespaces += 1)}`;

  it("is stopped at 1 a second by default, and keeps fields that a write leaves out", async () => {
    const { one, other } = await states();
    const namespace = newNamespace();
    expect(await one.read(namespace)).toEqual({ running: false, ratePerSecond: 1 });
    expect(await one.write(namespace, { ratePerSecond: 0.25 })).toEqual({
      running: false,
      ratePerSecond: 0.25,
    });
    expect(await other.write(namespace, { running: true })).toEqual({
      running: true,
      ratePerSecond: 0.25,
    });
    expect(await one.write(namespace, {})).toEqual({ running: true, ratePerSecond: 0.25 });
    expect(await other.write(namespace, { running: false, ratePerSecond: 1_000 })).toEqual({
      running: false,
      ratePerSecond: 1_000,
    });
    expect(await one.read(namespace)).toEqual({ running: false, ratePerSecond: 1_000 });
    expect(await one.read(newNamespace())).toEqual({ running: false, ratePerSecond: 1 });
  });

  it("loses no change of concurrent writers of different fields", async () => {
    const { one, other } = await states();
    const namespace = newNamespace();
    await Promise.all([
      one.write(namespace, { running: true }),
      other.write(namespace, { ratePerSecond: 7 }),
    ]);
    expect(await one.read(namespace)).toEqual({ running: true, ratePerSecond: 7 });
  });
}
