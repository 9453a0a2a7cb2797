/**
 * Every feature on every engine under every fault. The features of one engine and fault are tried in one
 * run, by the same processes: one fault strikes all of them. An engine's runs share one server; those whose
 * fault is the server's own come last, alone.
 */
import { compile } from "../../tests/support/processes/compile.js";
import { endAll } from "../../tests/support/processes/processes.js";
import { ENGINES, type Engine } from "./engines.js";
import { FAULTS, type Fault, FEATURES, type Feature } from "./features.js";
import { strike, type Verdicts } from "./strike.js";

export interface Cell {
  readonly feature: Feature;
  readonly engine: string;
  readonly fault: Fault;
  /** `none`: it was not tried, for the reason given. */
  readonly verdict: "right" | "wrong" | "none";
  /** What is wrong, why it was not tried, or what the reader of a ✓ should know. */
  readonly reason?: string;
  /** Of the run, which all features of an engine and a fault share. */
  readonly seconds?: number;
}

export interface MatrixOptions {
  readonly engines?: readonly string[];
  readonly features?: readonly string[];
  readonly faults?: readonly string[];
  /** Engines at a time. */
  readonly parallel?: number;
  /** Of a database that there is already, for PostgreSQL and what stands before it. */
  readonly postgres?: string;
  /** Of process.ts, compiled already. */
  readonly program?: string;
  /** Ends it before its time, in good order: what was not tried by then has no cell. */
  readonly signal?: AbortSignal;
  onStart?(engine: string, fault: Fault): void;
  onCells?(cells: readonly Cell[]): void;
}

/** @throws Error naming what there is */
export function chosen<T extends string>(
  what: string,
  all: readonly T[],
  names: readonly string[] | undefined,
): readonly T[] {
  const unknown = names?.find((name) => !all.some((known) => known === name));
  if (unknown !== undefined)
    throw new Error(`no ${what} "${unknown}"; there are ${all.join(", ")}`);
  return names ? all.filter((known) => names.includes(known)) : all;
}

/** Ends whatever it has started, also when it throws. */
export async function runMatrix(options: MatrixOptions = {}): Promise<Cell[]> {
  const names = ENGINES.map(({ name }) => name);
  const engines = chosen("engine", names, options.engines).map(
    (name) => ENGINES.find((engine) => engine.name === name) as Engine,
  );
  const features = chosen("feature", FEATURES, options.features);
  const faults = chosen("fault", FAULTS, options.faults);
  const compiled = options.program
    ? undefined
    : await compile(new URL("./process.ts", import.meta.url));
  const program = options.program ?? compiled?.path ?? "";
  const cells: Cell[] = [];
  const { signal = new AbortController().signal } = options;
  const tell = (more: readonly Cell[]) => {
    if (signal.aborted) return;
    cells.push(...more);
    options.onCells?.(more);
  };
  try {
    const waiting = [...engines];
    const work = async () => {
      for (let next = waiting.shift(); next && !signal.aborted; next = waiting.shift()) {
        await onEngine(next, { ...options, program, features, faults, tell, signal });
      }
    };
    await Promise.all(Array.from({ length: options.parallel ?? 2 }, work));
    return cells;
  } finally {
    if (compiled) {
      await endAll();
      await compiled.remove();
    }
  }
}

interface Work extends Omit<MatrixOptions, "features" | "faults"> {
  readonly program: string;
  readonly signal: AbortSignal;
  readonly features: readonly Feature[];
  readonly faults: readonly Fault[];
  tell(cells: readonly Cell[]): void;
}

async function onEngine(engine: Engine, work: Work): Promise<void> {
  const { features, program, signal, tell } = work;
  const cellsOf = (fault: Fault, cell: (feature: Feature) => Pick<Cell, "verdict" | "reason">) =>
    features.map((feature) => ({ feature, engine: engine.name, fault, ...cell(feature) }));
  const missing = await engine.missing();
  const reasonFor = (fault: Fault) => missing ?? engine.reasons?.[fault];
  const tried = work.faults.filter((fault) => reasonFor(fault) === undefined);
  for (const fault of work.faults) {
    const reason = reasonFor(fault);
    if (reason !== undefined) tell(cellsOf(fault, () => ({ verdict: "none", reason })));
  }
  if (tried.length === 0) return;
  const running = await engine.start(program, work.postgres);
  const run = async (fault: Fault) => {
    work.onStart?.(engine.name, fault);
    const begin = performance.now();
    const verdicts = await strike({ program, engine, running, fault, features, signal }).catch(
      (error: Error): Verdicts => new Map(features.map((feature) => [feature, error.message])),
    );
    const seconds = Math.round((performance.now() - begin) / 100) / 10;
    const note = engine.notes?.[fault];
    const cells = cellsOf(fault, (feature) => {
      const wrong = verdicts.get(feature);
      if (wrong !== null) return { verdict: "wrong", reason: wrong ?? "nothing was found out" };
      return { verdict: "right", ...(note === undefined ? {} : { reason: note }) };
    });
    tell(cells.map((cell) => ({ ...cell, seconds })));
  };
  try {
    await Promise.all(tried.filter((fault) => fault !== "restart").map(run));
    if (tried.includes("restart") && !signal.aborted) await run("restart");
  } finally {
    await running.close();
  }
}
