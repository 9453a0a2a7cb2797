// Answers one question in a process of its own, so that it leaves nothing behind for the next: no open
// databases to vacuum, no timers, no heap. node answer.js NAME full|quick; see run.js for its messages.
import { Engines } from "./engines.js";

const [name = "", extent = "full"] = process.argv.slice(2);
const quick = extent === "quick";
const engines = new Engines();
const end = (/** @type {number} */ code) => void engines.close().finally(() => process.exit(code));
process.once("SIGINT", () => end(130));
process.once("disconnect", () => end(1));

/** @type {{ default: import("./measure.js").Question }} */
const { default: question } = await import(`./questions/${name}.js`);
const rows = await question.run({
  quick,
  engines,
  size: (full, little) => (quick ? little : full),
  progress: (text) => process.send?.({ progress: text }),
});
await engines.close();
process.send?.({ rows: rows.map((row) => ({ question: question.question, ...row })) }, () =>
  process.exit(0),
);
