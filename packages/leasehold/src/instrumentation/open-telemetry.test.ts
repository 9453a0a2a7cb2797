/** What reaches the API of OpenTelemetry. */
import type { MeterProvider } from "@opentelemetry/api";
import { expect, it } from "vitest";
import { METRICS } from "../env/index.js";
import { openTelemetry } from "./open-telemetry.js";

type Observe = (instrument: object, value: number, labels: object) => void;
type Callback = (result: { observe: Observe }) => Promise<void>;

/** A meter that keeps what it gets. */
function meter() {
  const figures: { name: string; value: number; labels: object }[] = [];
  const callbacks = new Set<Callback>();
  const made = (name: string) => ({
    name,
    add: (value: number, labels: object) => void figures.push({ name, value, labels }),
    record: (value: number, labels: object) => void figures.push({ name, value, labels }),
  });
  const meterProvider = {
    getMeter: () => ({
      createCounter: made,
      createUpDownCounter: made,
      createHistogram: made,
      createObservableGauge: made,
      createObservableCounter: made,
      addBatchObservableCallback: (callback: Callback) => callbacks.add(callback),
      removeBatchObservableCallback: (callback: Callback) => callbacks.delete(callback),
    }),
  } as unknown as MeterProvider;
  const collect = async (wanted: string) => {
    const found: [object, number][] = [];
    const observe: Observe = (instrument, value, labels) => {
      if ((instrument as { name: string }).name === wanted) found.push([labels, value]);
    };
    for (const callback of Array.from(callbacks)) await callback({ observe });
    return found;
  };
  const recorded = (wanted: string) =>
    figures.flatMap(({ name, value, labels }) => (name === wanted ? [[labels, value]] : []));
  return { meterProvider, recorded, collect, callbacks };
}

it("announces each series of each counter with zero, then adds what is counted", () => {
  const { meterProvider, recorded } = meter();
  const telemetry = openTelemetry({ meterProvider });
  expect(recorded("leasehold.fence.refusals")).toEqual([[{}, 0]]);
  const outcomes = METRICS["leasehold.lease.renew.attempts"].labels.outcome;
  expect(recorded("leasehold.lease.renew.attempts")).toEqual(
    outcomes.map((outcome) => [{ outcome }, 0]),
  );
  telemetry.count("leasehold.lease.renew.attempts", { outcome: "lost" }, 7);
  telemetry.count("leasehold.lease.renew.attempts", { outcome: "lost" });
  expect(recorded("leasehold.lease.renew.attempts").slice(outcomes.length)).toEqual([
    [{ outcome: "lost" }, 7],
    [{ outcome: "lost" }, 1],
  ]);
});

it("exports milliseconds as seconds, and changes as they are", () => {
  const { meterProvider, recorded } = meter();
  const telemetry = openTelemetry({ meterProvider });
  telemetry.measure("leasehold.process.stall", {}, 1_250);
  expect(recorded("leasehold.process.stall")).toEqual([[{}, 1.25]]);
  telemetry.change("leasehold.lease.held", {}, 1);
  telemetry.change("leasehold.lease.held", {}, -1);
  expect(recorded("leasehold.lease.held")).toEqual([
    [{}, 0],
    [{}, 1],
    [{}, -1],
  ]);
});

it("reads a gauge until it is stopped; one that cannot be read hides no other", async () => {
  const { meterProvider, collect, callbacks } = meter();
  const telemetry = openTelemetry({ meterProvider });
  const before = callbacks.size;
  const gauge = "leasehold.generator.rate";
  const stops = [
    telemetry.observe(gauge, () => {
      throw new Error("thrown");
    }),
    telemetry.observe(gauge, () => Promise.reject(new Error("rejected"))),
    telemetry.observe(gauge, () => [{ value: 3, labels: {} }]),
  ];
  expect(await collect(gauge)).toEqual([[{}, 3]]);
  for (const stop of stops) stop();
  expect(await collect(gauge)).toEqual([]);
  expect(callbacks.size).toBe(before);
});

it("tallies each event by resource and by prefix; without names, under none", async () => {
  for (const names of [true, false]) {
    const { meterProvider, collect } = meter();
    const telemetry = openTelemetry({ meterProvider, names, prefixDepth: 2 });
    for (const resource of ["t:a:1", "t:a:2", "t:b:1", ""]) telemetry.tally("contended", resource);
    telemetry.tally("terms", "e");
    expect(await collect("leasehold.lease.contended")).toEqual([
      [{ prefix: "t:a" }, 2],
      [{ prefix: "t:b" }, 1],
      [{ prefix: "" }, 1],
    ]);
    const named = ["t:a:1", "t:a:2", "t:b:1"].map((resource) => [{ resource }, 1]);
    expect(await collect("leasehold.resource.contended")).toEqual(
      names ? [...named, [{ resource: "" }, 1]] : [[{ resource: "" }, 4]],
    );
    expect(await collect("leasehold.resource.endangered")).toEqual([[{ resource: "" }, 0]]);
    expect(await collect("leasehold.election.terms")).toEqual(
      names
        ? [
            [{ election: "e" }, 1],
            [{ election: "" }, 0],
          ]
        : [[{ election: "" }, 1]],
    );
  }
});
