import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ACTION_FIELDS, type Action, type Field, type TimedAction } from "./actions.js";
import {
  decodeScript,
  encodeScript,
  newScript,
  SCENARIOS,
  type Script,
  ScriptError,
} from "./index.js";
import { LONGEST_RUN_MS, MOST_ACTIONS } from "./script.js";
import { CLOCK_RANGE, fitSettings, RANGES, type Settings, START_RANGE } from "./settings.js";

const inRange = ({ min, max }: { min: number; max: number }) => fc.integer({ min, max });

function valueOf(field: Field): fc.Arbitrary<unknown> {
  const value: fc.Arbitrary<unknown> =
    field.type === "choice"
      ? fc.constantFrom(...field.of)
      : field.type === "flag"
        ? fc.boolean()
        : inRange(field);
  return field.optional ? fc.option(value, { nil: undefined }) : value;
}

const action = fc
  .constantFrom(...(Object.keys(ACTION_FIELDS) as Action["kind"][]))
  .chain((kind) => {
    if (kind === "set") {
      return fc
        .constantFrom(...(Object.keys(RANGES) as (keyof typeof RANGES)[]))
        .chain((setting) =>
          inRange(RANGES[setting]).map((value): Action => ({ kind: "set", setting, value })),
        );
    }
    const fields = Object.fromEntries(
      ACTION_FIELDS[kind].map((field) => [field.name, valueOf(field)]),
    );
    return fc.record(fields).map((values) => {
      const given = Object.entries(values).filter(([, value]) => value !== undefined);
      return { kind, ...Object.fromEntries(given) } as unknown as Action;
    });
  });

const actions = fc
  .array(fc.record({ atMs: fc.integer({ min: 0, max: LONGEST_RUN_MS }), action }), {
    maxLength: 30,
  })
  .map((list): TimedAction[] => list.sort((a, b) => a.atMs - b.atMs));

const five = (range: { min: number; max: number }) => {
  const one = inRange(range);
  return fc.tuple(one, one, one, one, one);
};
const numbers = Object.fromEntries(
  Object.entries(RANGES).map(([name, range]) => [name, inRange(range)]),
);
const settings = fc
  .record({
    ...numbers,
    fenced: fc.boolean(),
    queued: fc.boolean(),
    clockPercents: five(CLOCK_RANGE),
    startsMs: five(START_RANGE),
  })
  .map((drawn) => fitSettings(drawn as unknown as Settings));

const script: fc.Arbitrary<Script> = fc.record({
  scenario: fc.constantFrom(...SCENARIOS.map(({ id }) => id)),
  seed: fc.integer({ min: 0, max: 999_999_999 }),
  settings,
  actions,
});

describe("a script as text", () => {
  it("survives a round trip and fits into a URL", () => {
    fc.assert(
      fc.property(script, (one) => {
        const text = encodeScript(one);
        expect(text).toMatch(/^[A-Za-z0-9._-]+$/);
        expect(decodeScript(text)).toEqual(one);
      }),
    );
  });

  it("is short if little differs from the scenario", () => {
    expect(encodeScript(newScript("pause", { seed: 42 }))).toBe("1-pause-42--");
    const settings = { ttlMs: 5_000, clockPercents: [-30, 0, 0, 0, 2.5] as const };
    const changed = newScript("pause", { settings });
    const actions: TimedAction[] = [
      { atMs: 1_200, action: { kind: "pause", node: "P1", midWrite: true } },
      { atMs: 3_000, action: { kind: "jump", node: "P2", ms: -5_000 } },
      { atMs: 3_000, action: { kind: "resign" } },
    ];
    expect(encodeScript({ ...changed, actions })).toBe(
      "1-pause-1-ttlMs.5000_clockPercents.n30.0.0.0.2d5-1200.pause.P1.1_3000.jump.P2.n5000_3000.resign",
    );
  });

  it.each([
    ["", 'The script has version ""; only version 1 is known.'],
    ["2-pause-1--", 'The script has version "2"'],
    ["1-nothing-1--", 'The scenario "nothing" is not known; there are renew, crash'],
    ["1-pause", 'seed must be a number, not "".'],
    ["1-pause-x--", 'seed must be a number, not "x".'],
    ["1-pause-1d5--", "seed must be a whole number, not 1.5."],
    ["1-pause-9999999999--", "seed must be from 0 to 999999999, not 9999999999."],
    ["1-pause-1---", "The script has extra text after its actions."],
    ["1-pause-1-ttl.5000-", 'The setting "ttl" is not known.'],
    ["1-pause-1-toString.1-", 'The setting "toString" is not known.'],
    ["1-pause-1-ttlMs-", "ttlMs must have 1 values, not 0."],
    ["1-pause-1-ttlMs.5-", "ttlMs must be from 1000 to 60000, not 5."],
    ["1-pause-1-ttlMs.5000d5-", "ttlMs must be a whole number, not 5000.5."],
    ["1-pause-1-ttlMs.1e5-", 'ttlMs must be a number, not "1e5".'],
    ["1-pause-1-renewEveryMs.9999-", "renewEveryMs must be at most 8990 with these other settings"],
    ["1-pause-1-fenced.yes-", 'fenced must be 0 or 1, not "yes".'],
    ["1-pause-1-clockPercents.1.2-", "clockPercents must have 5 values, not 2."],
    ["1-pause-1-clockPercents.n51.0.0.0.0-", "clockPercents must be from -50 to 50, not -51."],
    ["1-pause-1--crash.P1", 'the time of an action must be a number, not "crash".'],
    ["1-pause-1--999999999.crash.P1", "the time of an action must be from 0 to 600000"],
    ["1-pause-1--5.explode.P1", 'The action "explode" is not known.'],
    ["1-pause-1--5.constructor", 'The action "constructor" is not known.'],
    ["1-pause-1--5.crash", 'The action "crash" has no node.'],
    [
      "1-pause-1--5.crash.P9",
      'node of "crash" must be one of P1, P2, P3, P4, P5, store, not "P9".',
    ],
    ["1-pause-1--5.crash.P1.P2", 'The action "crash" has too many values: 1 extra.'],
    ["1-pause-1--5.fence.maybe", 'on of "fence" must be 0 or 1, not "maybe".'],
    ["1-pause-1--5.set.ttlMs.10", "ttlMs must be from 1000 to 60000, not 10."],
    ["1-pause-1--9.crash.P1_5.crash.P2", "The action at 5 ms is out of order."],
    [
      `1-pause-1--${"5.expire_".repeat(MOST_ACTIONS)}5.expire`,
      `More than ${MOST_ACTIONS} actions.`,
    ],
    ["1".repeat(20_001), "The script is longer than 20000 characters."],
  ])("refuses %j", (text, message) => {
    expect(() => decodeScript(text)).toThrow(ScriptError);
    expect(() => decodeScript(text)).toThrow(message);
  });

  it("throws nothing else for any text", () => {
    const pieces = fc.constantFrom(
      "1",
      "-",
      ".",
      "_",
      "pause",
      "n",
      "d5",
      "ttlMs",
      "set",
      "crash",
      "P1",
      "0",
      "999",
      "é",
    );
    fc.assert(
      fc.property(
        fc.array(pieces).map((some) => `1-pause-1-${some.join("")}`),
        (text) => {
          try {
            decodeScript(text);
          } catch (error) {
            expect(error).toBeInstanceOf(ScriptError);
          }
        },
      ),
    );
  });
});

describe("settings", () => {
  it("are clamped to their ranges and fit together", () => {
    const { settings } = newScript("free", { settings: { ttlMs: 10, latencyMs: 1e9 } });
    expect(settings).toMatchObject({ ttlMs: 1_000, latencyMs: RANGES.latencyMs.max });
    expect(settings.renewEveryMs).toBeLessThan(1_000);
    expect(fitSettings({ ...settings, lossPercent: Number.NaN }).lossPercent).toBe(0);
    expect(fitSettings(settings)).toEqual(settings);
  });
});
