// Checks that the reports in packages/leasehold/api agree with the built declarations, or writes them with --update.
import { makeReports, problemsOf, REPORTS, writeReports } from "./support/api.js";

const reports = makeReports();
if (process.argv.includes("--update")) {
  writeReports(reports);
  console.log(`${reports.length} reports written to ${REPORTS}`);
}
const problems = problemsOf(reports);
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
