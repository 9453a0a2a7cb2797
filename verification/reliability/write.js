// Writes the figures of a night's reports into docs/reliability.md, between its marks, and those of mutants, planted
// bugs and the model into their own pages.
//
//   npm run verify -- reliability nightly              after npm run verify -- nightly
//   npm run verify -- reliability docs/reliability     from the reports that are kept
//
// Ends with 1 if a claim does not hold; it is written down all the same.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { pageOf as mutantsPageOf } from "../mutants/page.js";
import { markdown } from "../planted-bugs/report.js";
import { pageOf as modelPageOf } from "../spin/page.js";
import { argumentsOf } from "../support/arguments.js";
import { sourcesHash } from "../support/provenance.js";
import { pageOf } from "./page.js";
import { joined, readReports, sourcesOf } from "./reports.js";

const pathOf = (/** @type {string} */ page) =>
  fileURLToPath(new URL(`../../${page}`, import.meta.url));
const FILE = pathOf("docs/reliability.md");

const { positionals } = argumentsOf(import.meta.url, { allowPositionals: true });
const [folder = "nightly"] = positionals;
const runs = readReports(folder);
if ([...runs.values()].flat().length === 0) {
  process.stderr.write(`no report in ${folder}: npm run verify -- nightly --out ${folder}\n`);
  process.exit(64);
}

const sources = sourcesOf(runs);
if (sources.length > 1) {
  process.stderr.write(
    `the reports in ${folder} are of different sources: ${sources.join(", ")}\n` +
      `now they are ${sourcesHash()}: npm run verify -- nightly --out ${folder} makes the others again\n`,
  );
  process.exit(64);
}
if (sources[0] !== sourcesHash())
  console.log("The packages have changed since these reports were made.");

const { text, judged } = pageOf(runs, readFileSync(FILE, "utf8"));
writeFileSync(FILE, text);
const { mutants, "planted-bugs": planted, spin } = joined(runs);
if (mutants)
  writeFileSync(pathOf("verification/mutants/survivors.md"), mutantsPageOf(mutants).text);
if (planted) writeFileSync(pathOf("verification/planted-bugs/caught.md"), markdown(planted));
if (spin) writeFileSync(pathOf("docs/model-checking.md"), modelPageOf(spin));
for (const { what, seen, holds } of judged)
  console.log(`${holds ? "ok   " : "SHORT"} ${what}: ${seen}`);
process.exitCode = judged.every(({ holds }) => holds) ? 0 : 1;
