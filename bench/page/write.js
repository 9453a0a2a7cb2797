// Writes docs/performance.md from the kept reports of the bench, docs/performance/run-*.json, and template.txt.
//
//   node bench/page/write.js                      from the reports that are kept
//   node bench/page/write.js --from FILE [FILE]   first replaces them by these, of `npm run bench -- --json FILE`
//
// Ends with 1 if a gate is not reached in every run, or if a missed row has no text; the page is written all the same.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { pageOf } from "./page.js";

const KEPT = fileURLToPath(new URL("../../docs/performance/", import.meta.url));
const PAGE = fileURLToPath(new URL("../../docs/performance.md", import.meta.url));
const TEMPLATE = fileURLToPath(new URL("template.txt", import.meta.url));
const USAGE = "npm run bench -- --json FILE, then node bench/page/write.js --from FILE [FILE]";

const { values, positionals } = parseArgs({
  options: { from: { type: "string" } },
  allowPositionals: true,
});
if (values.from === undefined && positionals.length > 0) fail(`--from is missing: ${USAGE}`);
const kept = () =>
  readdirSync(KEPT)
    .filter((file) => /^run-\d+\.json$/.test(file))
    .sort();
if (values.from !== undefined) {
  const files = [values.from, ...positionals];
  const texts = files.map((file) => readFileSync(file, "utf8"));
  const other = files.find((_, at) => JSON.parse(texts[at]).kind !== "bench");
  if (other !== undefined) fail(`${other} is no report of the bench: ${USAGE}`);
  for (const file of kept()) rmSync(KEPT + file);
  for (const [at, text] of texts.entries()) writeFileSync(`${KEPT}run-${at + 1}.json`, text);
}
const reports = kept().map((file) => JSON.parse(readFileSync(KEPT + file, "utf8")));
if (reports.length === 0) fail(`no report is kept: ${USAGE}`);

const { text, gates, unexplained } = pageOf(reports, readFileSync(TEMPLATE, "utf8"));
writeFileSync(PAGE, text);
for (const { row, verdict, seen } of gates)
  console.log(`${verdict.padEnd(12)} ${row.id}: ${seen.join("; ")}`);
for (const { row } of unexplained)
  console.error(`${row.id} is missed and has no text: name it in a {{rows}} of ${TEMPLATE}`);
const isComplete = unexplained.length === 0 && gates.every(({ verdict }) => verdict === "reached");
process.exitCode = isComplete ? 0 : 1;

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(message);
  process.exit(64);
}
