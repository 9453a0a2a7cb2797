/** All readers see the same wanted state of the generator. */
import { needsGenerator, type Section } from "./fixture.js";

export const generator: Section = (test, expect) => {
  test(
    "is stopped at 1 a second by default, and keeps fields that a write leaves out",
    async (fixture) => {
      const { generator } = fixture.opened;
      if (!generator) throw new Error("no generator state");
      const { namespace } = fixture;
      expect(await generator.read(namespace)).toEqual({ running: false, ratePerSecond: 1 });
      expect(await generator.write(namespace, { ratePerSecond: 0.25 })).toEqual({
        running: false,
        ratePerSecond: 0.25,
      });
      expect(await generator.write(namespace, { running: true })).toEqual({
        running: true,
        ratePerSecond: 0.25,
      });
      expect(await generator.write(namespace, {})).toEqual({ running: true, ratePerSecond: 0.25 });
      expect(await generator.write(namespace, { running: false, ratePerSecond: 1_000 })).toEqual({
        running: false,
        ratePerSecond: 1_000,
      });
      expect(await generator.read(namespace)).toEqual({ running: false, ratePerSecond: 1_000 });
      const other = await generator.read(`${namespace}-other`);
      expect(other).toEqual({ running: false, ratePerSecond: 1 });
    },
    needsGenerator,
  );

  test(
    "loses no change of concurrent writers of different fields",
    async (fixture) => {
      const { generator } = fixture.opened;
      if (!generator) throw new Error("no generator state");
      await Promise.all([
        generator.write(fixture.namespace, { running: true }),
        generator.write(fixture.namespace, { ratePerSecond: 7 }),
      ]);
      expect(await generator.read(fixture.namespace)).toEqual({ running: true, ratePerSecond: 7 });
    },
    needsGenerator,
  );
};
