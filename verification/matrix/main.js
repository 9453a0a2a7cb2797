// Tries each feature on each engine under each fault, with real processes, and prints what became of them.
//
//   npm run verify -- matrix                                   everything
//   npm run verify -- matrix --engine redis --fault kill       some of it; --feature, --engine and --fault repeat
//   --parallel 2    engines at a time       --json   the cells, one JSON object a line
//
// Ends with 1 if a cell is wrong or missing, with 130 at Ctrl-C, when it has ended what it started.
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";
import { progressBar } from "../support/progress.js";

const { values } = argumentsOf(import.meta.url, {
  options: {
    engine: { type: "string", multiple: true },
    feature: { type: "string", multiple: true },
    fault: { type: "string", multiple: true },
    parallel: { type: "string", default: "2" },
    json: { type: "boolean", default: false },
  },
});

const sources = await openSources();
const load = (/** @type {string} */ name) => sources.load(`/verification/matrix/${name}.ts`);
const { runMatrix, chosen } = await load("matrix");
const { ENGINES } = await load("engines");
const { FEATURES, FAULTS } = await load("features");
const { tableOf, isGreen } = await load("table");

let expected = 1;
try {
  const engines = ENGINES.map((/** @type {{ name: string }} */ { name }) => name);
  expected =
    chosen("engine", engines, values.engine).length *
    chosen("feature", FEATURES, values.feature).length *
    chosen("fault", FAULTS, values.fault).length;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  await sources.close();
  process.exit(1);
}

const bar = progressBar(expected, !values.json);
let done = 0;
/** @type {Set<string>} */
const running = new Set();
const draw = () => bar.draw(done, [...running].join(", "));

const stopping = new AbortController();
process.once("SIGINT", () => {
  bar.clear();
  console.error("stopped; ending what was started");
  stopping.abort();
});

const begin = performance.now();
draw();
const cells = await runMatrix({
  engines: values.engine,
  features: values.feature,
  faults: values.fault,
  parallel: Number(values.parallel),
  signal: stopping.signal,
  onStart(/** @type {string} */ engine, /** @type {string} */ fault) {
    running.add(`${engine} ${fault}`);
    draw();
  },
  onCells(/** @type {{ engine: string, fault: string, verdict: string }[]} */ more) {
    done += more.length;
    const [{ engine, fault } = { engine: "", fault: "" }] = more;
    running.delete(`${engine} ${fault}`);
    if (values.json) for (const cell of more) console.log(JSON.stringify(cell));
    else if (!bar.isShown) {
      const wrong = more.filter(({ verdict }) => verdict === "wrong").length;
      console.error(`${done}/${expected} ${engine} ${fault}${wrong > 0 ? `: ${wrong} wrong` : ""}`);
    }
    draw();
  },
});
bar.clear();
if (!values.json && cells.length > 0) {
  /** @param {string} verdict */
  const count = (verdict) =>
    cells.filter((/** @type {{ verdict: string }} */ cell) => cell.verdict === verdict).length;
  console.log(tableOf(cells));
  const seconds = ((performance.now() - begin) / 1_000).toFixed(0);
  console.log(
    `\n${count("right")} right, ${count("wrong")} wrong, ${count("none")} not tried, in ${seconds} s`,
  );
}
process.exitCode = stopping.signal.aborted ? 130 : isGreen(cells, expected) ? 0 : 1;
await sources.close();
