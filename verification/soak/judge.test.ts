/** A judge that would let a leak pass proves nothing: each is planted here in what a quiet run shows. */
import { describe, expect, it } from "vitest";
import { FAULT_KINDS, OUTAGE } from "./faults.js";
import { judge } from "./judge.js";
import { planOf } from "./plan.js";
import type { Measured, Probe } from "./processes.js";
import type { Sample, Seen } from "./seen.js";

const plan = planOf({ hours: 1 });
const SECOND_MS = 1_000;

const cycles = Array.from({ length: plan.cycles }, (_, at) => {
  const beganMs = at * plan.cycleMs;
  const endedMs = beganMs + plan.cycleMs;
  return { beganMs, faultsEndedMs: endedMs - plan.quietMs, endedMs };
});

const held: Measured = {
  heapUsed: 20e6,
  rss: 100e6,
  external: 4e6,
  resources: { TCPSocketWrap: 20, Timeout: 60 },
  timers: 80,
  listeners: { process: 12, emitters: 1_000, signals: 50 },
  lateMs: { p99: 20, max: 100 },
};

/** What each sample shows, by how far the run is: 0 to 1. */
function sampled(of: (share: number, index: number) => Partial<Measured> = () => ({})): Sample[] {
  const count = plan.totalMs / plan.sampleMs;
  return Array.from({ length: count }, (_, index) => {
    const atMs = index * plan.sampleMs;
    // The work in progress varies between samples.
    const heapUsed = held.heapUsed + (index % 7) * 0.3e6;
    const library = { ...held, heapUsed, ...of(index / count, index) };
    const tables = { lease: { live: 400, dead: 200 + (index % 5) * 50, bytes: 300_000 } };
    return {
      atMs,
      doneMs: atMs + 300,
      processes: { library },
      database: { connections: 20 + (index % 3), tables },
      served: { grants: 0, tasks: 0 },
    };
  });
}

const KINDS = ["lease", "lease over HTTP", "task", "task over HTTP"];
/** Of leases as given, of the others as always. */
const probes = (tookMs: (startMs: number) => number): Probe[] =>
  Array.from({ length: plan.totalMs / 250 }, (_, index) => index * 250).flatMap((startMs) =>
    KINDS.map((kind) => ({
      kind,
      startMs,
      ok: true,
      tookMs: kind === "lease" ? tookMs(startMs) : 20,
    })),
  );
const isBack = (kind: string) => `${kind}: p99 is back at its level a ttl after the last fault`;

const once = { fromMs: 400 * SECOND_MS, toMs: 401 * SECOND_MS, of: "library", cuts: null };
const well: Seen = {
  plan,
  cycles,
  samples: sampled(),
  losses: [],
  starved: [],
  probes: probes(() => 20),
  faults: FAULT_KINDS.map((kind) => ({ ...once, kind })),
  tasks: { accepted: 80_000, doneOnce: 80_000, wrong: [] },
  counts: {
    rotated: 1,
    contended: 1,
    gaveUp: 1,
    terms: 1,
    singletons: 1,
    shards: 1,
    visits: 1,
    notifications: 1,
    observed: 1,
    tokensBack: 0,
    overlaps: 0,
    grantsOverHttp: 1,
    // One that was rotated last is not taken again.
    live: plan.live + plan.liveOverHttp - 1,
    tasksOverHttp: 14_000,
  },
};
const failing = (seen: Partial<Seen>) =>
  judge({ ...well, ...seen })
    .filter(({ holds }) => !holds)
    .map(({ claim }) => claim);

it("finds nothing wrong with a run in which all stays as it was", () => {
  expect(failing({})).toEqual([]);
});

describe("finds what grows", () => {
  it.each<[string, (share: number) => Partial<Measured>]>([
    ["library: heap is flat", (share) => ({ heapUsed: (20 + 7 * share) * 1e6 })],
    ["library: external memory is flat", (share) => ({ external: (4 + 6 * share) * 1e6 })],
    ["library: resident memory is flat", (share) => ({ rss: (100 + 90 * share) * 1e6 })],
    [
      "library: TCPSocketWrap active: no more than before",
      (share) => ({ resources: { TCPSocketWrap: 20 + Math.floor(20 * share), Timeout: 60 } }),
    ],
    // Of a kind that was not there at first.
    [
      "library: FSEvent active: no more than before",
      (share) => ({ resources: { ...held.resources, FSEvent: Math.floor(9 * share) } }),
    ],
    ["library: timers: no more than before", (share) => ({ timers: 80 + Math.floor(50 * share) })],
    [
      "library: listeners of signals: no more than before",
      (share) => ({ listeners: { ...held.listeners, signals: 50 + Math.floor(50 * share) } }),
    ],
  ])("%s", (claim, of) => {
    expect(failing({ samples: sampled(of) })).toEqual([claim]);
  });

  it("a leak of 120 bytes in each task", () => {
    const samples = sampled((share, index) => ({
      heapUsed: 20e6 + (index % 7) * 0.3e6 + 120 * 86_400 * share,
    }));
    expect(failing({ samples })).toEqual(["library: heap is flat"]);
  });

  it("a leak of a server, but not what it remembers of the latest grants up to its bound", () => {
    // Of 24,000: the latest 20,000 at most, then 10,000 and a growing rest.
    const kept = (grants: number) => (grants <= 20_000 ? grants : grants - 10_000);
    const serving = (leaked: number) =>
      sampled().map((sample, index, all) => {
        const share = index / all.length;
        const served = { grants: Math.round(24_000 * share), tasks: 0 };
        const heapUsed = 25e6 + 330 * kept(served.grants) + leaked * share;
        return { ...sample, served, processes: { server: { ...held, heapUsed } } };
      });
    expect(failing({ samples: serving(0) })).toEqual([]);
    expect(failing({ samples: serving(9e6) })).toEqual([
      "server: heap less what it remembers of the latest is flat",
    ]);
  });

  it("but not the hill of a while", () => {
    const hill = (share: number) => (share > 0.5 && share < 0.6 ? { heapUsed: 60e6 } : {});
    expect(failing({ samples: sampled(hill) })).toEqual([]);
  });

  it("in the database", () => {
    const grown = (change: (share: number) => object, connections = (_: number) => 20) =>
      well.samples.map((sample, index) => {
        const share = index / well.samples.length;
        const lease = { ...sample.database.tables["lease"]!, ...change(share) };
        const database = { connections: connections(share), tables: { lease } };
        return { ...sample, database };
      });
    const none = () => ({});
    expect(failing({ samples: grown(none, (share) => 20 + Math.floor(10 * share)) })).toEqual([
      "database: connections: no more than before",
    ]);
    expect(failing({ samples: grown((share) => ({ dead: 9_000 * share })) })).toEqual([
      "table lease: dead rows stay few",
    ]);
    expect(failing({ samples: grown((share) => ({ bytes: 3e5 + 5e6 * share })) })).toEqual([
      "table lease: does not grow",
    ]);
  });
});

it("finds latency that does not come back within a ttl", () => {
  const since = (startMs: number, quietForMs: number) => {
    const { faultsEndedMs } = cycles.find(({ endedMs }) => startMs < endedMs)!;
    return startMs < faultsEndedMs + quietForMs ? 900 : 20;
  };
  const claim = isBack("lease");
  expect(failing({ probes: probes((at) => since(at, plan.ttlMs)) })).toEqual([]);
  expect(failing({ probes: probes((at) => since(at, 1.5 * plan.ttlMs)) })).toEqual([claim]);
  // Who fails then has waited for ever.
  const failed = well.probes.map((probe) => {
    return { ...probe, ok: probe.kind !== "lease" || since(probe.startMs, 1.5e4) === 20 };
  });
  expect(failing({ probes: failed })).toEqual([claim]);
});

it("takes no single standstill of the machine for latency that does not come back", () => {
  const short = planOf({ hours: 0.1 });
  const run = Array.from({ length: short.cycles }, (_, at) => {
    const [beganMs, endedMs] = [at * short.cycleMs, (at + 1) * short.cycleMs];
    return { beganMs, faultsEndedMs: endedMs - short.quietMs, endedMs };
  });
  const slowFor = (standstillMs: number) => {
    const fromMs = run[1]!.faultsEndedMs + 1.5 * short.ttlMs;
    const slow = (at: number) => (at >= fromMs && at < fromMs + standstillMs ? 400 : 20);
    return judge({ ...well, plan: short, cycles: run, samples: [], probes: probes(slow) })
      .filter(({ claim, holds }) => claim.includes("is back at its level") && !holds)
      .map(({ claim }) => claim);
  };
  expect(slowFor(500)).toEqual([]);
  expect(slowFor(2_000)).toEqual(["lease: p97 is back at its level a ttl after the last fault"]);
});

describe("finds probes that fail without a fault", () => {
  const failed = (fails: (probe: Probe) => boolean, tookMs = 20) =>
    well.probes.map((probe) => (fails(probe) ? { ...probe, ok: false, tookMs } : probe));
  const at = (kind: string, ms: number) => (probe: Probe) =>
    probe.kind === kind && probe.startMs === ms;
  const [, { beganMs, faultsEndedMs, endedMs }] = cycles as [unknown, (typeof cycles)[number]];
  const { ttlMs } = plan;

  it("all of a way, when quiet too", () => {
    expect(failing({ probes: failed(({ kind }) => kind === "lease over HTTP") })).toEqual([
      isBack("lease over HTTP"),
    ]);
  });

  it("a single one, in the ttl after that of recovering or when quiet, measured just then or not", () => {
    for (const ms of [faultsEndedMs + ttlMs, faultsEndedMs + 3 * ttlMs, endedMs - 1_000]) {
      expect(failing({ probes: failed(at("task", ms)) })).toEqual([isBack("task")]);
    }
    const pause = well.samples.find(({ atMs }) => atMs > faultsEndedMs + 3 * ttlMs)?.atMs ?? 0;
    expect(failing({ probes: failed(at("task", pause)) })).toEqual([isBack("task")]);
  });

  it("but not under faults, nor while all recovers", () => {
    const unsettled = ({ startMs }: Probe) =>
      startMs >= beganMs && startMs < faultsEndedMs + ttlMs - 1;
    expect(failing({ probes: failed(unsettled) })).toEqual([]);
  });

  it("but not what the next faults met, unless it hung before them", () => {
    expect(failing({ probes: failed(at("lease", endedMs - 250), 400) })).toEqual([]);
    const hung = failed(at("lease", endedMs - 2 * ttlMs), 2.5 * ttlMs);
    expect(failing({ probes: hung })).toEqual([isBack("lease")]);
  });
});

it("fails if a kind of probe has no results", () => {
  for (const missing of KINDS) {
    const seen = well.probes.filter(({ kind }) => kind !== missing);
    expect(failing({ probes: seen })).toEqual([isBack(missing)]);
  }
});

describe("finds leases that nothing explains", () => {
  const atMs = 500 * SECOND_MS;
  const lost = (resource: string) => [{ resource, atMs, reason: "expired" }];
  const cut = (cuts: "library" | "server", seconds: number) => [
    ...well.faults,
    { kind: OUTAGE, of: cuts, fromMs: atMs - seconds * SECOND_MS, toMs: atMs, cuts },
  ];
  const claim = "no live lease is lost, but to a fault that explains it";

  it("lost out of the blue, or after less than most of a ttl", () => {
    expect(failing({ losses: lost("live/1") })).toEqual([claim]);
    expect(failing({ losses: lost("live/1"), faults: cut("library", 3) })).toEqual([claim]);
    expect(failing({ losses: lost("live/1"), faults: cut("server", 8) })).toEqual([claim]);
  });

  it("but not those whose process waited for a processor", () => {
    const starved = [{ fromMs: atMs - 20 * SECOND_MS, toMs: atMs, waitedMs: 13 * SECOND_MS }];
    expect(failing({ losses: lost("live/1"), starved })).toEqual([]);
    const less = [{ ...starved[0]!, waitedMs: 10 * SECOND_MS }];
    expect(failing({ losses: lost("live/1"), starved: less })).toEqual([claim]);
  });

  it("and knows of looks at the processor that no time is between", () => {
    const starved = [
      { fromMs: atMs - 9 * SECOND_MS, toMs: atMs, waitedMs: 8 * SECOND_MS },
      { fromMs: atMs, toMs: atMs, waitedMs: 0 },
    ];
    expect(failing({ losses: lost("live/1"), starved })).toEqual([]);
  });

  it("but not those whose way was cut off", () => {
    expect(failing({ losses: lost("live/1"), faults: cut("library", 8) })).toEqual([]);
    expect(failing({ losses: lost("http/1"), faults: cut("server", 8) })).toEqual([]);
  });
});

it("finds tasks that are not done once, tokens that do not grow, holders at once", () => {
  const tasks = { accepted: 80_000, doneOnce: 79_999, wrong: ["one"] };
  expect(failing({ tasks })).toEqual(["every accepted task is done once"]);
  const counts = { ...well.counts, tokensBack: 1, overlaps: 1 };
  expect(failing({ counts })).toEqual([
    "tokens of a resource grow",
    "two never trust one lease at once",
  ]);
});

it("does not take a run for proof in which little happened", () => {
  const tasks = { accepted: 10, doneOnce: 10, wrong: [] };
  expect(failing({ tasks, faults: well.faults.slice(1) })).toEqual([
    "every kind of fault occurred",
    "the load was there",
  ]);
  for (const idle of [
    { visits: 0 },
    { grantsOverHttp: 0 },
    // Direct work alone makes more than a quarter of all tasks, and work over HTTP is not missed in them.
    { tasksOverHttp: 0 },
    { tasksOverHttp: 3_000 },
    { tasksOverHttp: 79_000 },
    { live: plan.live },
    { live: 0 },
  ]) {
    expect(failing({ counts: { ...well.counts, ...idle } })).toEqual(["the load was there"]);
  }
  expect(failing({ samples: well.samples.slice(0, 3) })).not.toEqual([]);
  expect(failing({ probes: well.probes.slice(0, 50) })).toEqual(KINDS.map(isBack));
});

describe("each claim fails alone", () => {
  /** With this of a process from the middle on. */
  const late = (more: Partial<Measured>) => ({
    samples: sampled((share) => (share > 0.5 ? more : {})),
  });
  const database = (more: object, connections = 20) => ({
    samples: well.samples.map((sample, index) => {
      const lease = { ...sample.database.tables["lease"]!, ...more };
      if (index < well.samples.length / 2) return sample;
      return { ...sample, database: { connections, tables: { lease } } };
    }),
  });
  const listeners = (more: Partial<Measured["listeners"]>) =>
    late({ listeners: { ...held.listeners, ...more } });
  const resources = (more: object) => late({ resources: { ...held.resources, ...more } });
  const counts = (more: object) => ({ counts: { ...well.counts, ...more } });
  const SPOILT: Readonly<Record<string, Partial<Seen>>> = {
    "library: heap is flat": late({ heapUsed: 30e6 }),
    "library: external memory is flat": late({ external: 9e6 }),
    "library: resident memory is flat": late({ rss: 150e6 }),
    "library: TCPSocketWrap active: no more than before": resources({ TCPSocketWrap: 25 }),
    "library: Timeout active: no more than before": resources({ Timeout: 69 }),
    "library: timers: no more than before": late({ timers: 91 }),
    "library: listeners of process: no more than before": listeners({ process: 17 }),
    "library: listeners of emitters: no more than before": listeners({ emitters: 1_103 }),
    "library: listeners of signals: no more than before": listeners({ signals: 59 }),
    "database: connections: no more than before": database({}, 28),
    "table lease: dead rows stay few": database({ dead: 1_601 }),
    "table lease: does not grow": database({ bytes: 1_450_001 }),
    ...Object.fromEntries(
      KINDS.map((kind) => [
        isBack(kind),
        { probes: well.probes.filter((one) => one.kind !== kind) },
      ]),
    ),
    "no live lease is lost, but to a fault that explains it": {
      losses: [{ resource: "live/1", atMs: 500 * SECOND_MS, reason: "expired" }],
    },
    "tokens of a resource grow": counts({ tokensBack: 1 }),
    "two never trust one lease at once": counts({ overlaps: 1 }),
    "every accepted task is done once": { tasks: { ...well.tasks, doneOnce: 80_001 } },
    "every kind of fault occurred": { faults: well.faults.slice(1) },
    "the load was there": counts({ terms: 0 }),
  };

  it.each(judge(well).map(({ claim }) => claim))("%s", (claim) => {
    expect(SPOILT, "an example of what spoils it").toHaveProperty([claim]);
    expect(failing(SPOILT[claim] ?? {})).toEqual([claim]);
  });
});
