// docs/model-checking.md, made of the report.
import { textOf } from "./report.js";

/** @typedef {import("./report.js").Report & { date: string, commit: string, machine: string }} Kept */

/** @param {Kept} kept */
export function pageOf(kept) {
  return `# Model checking

\`\`\`txt
${textOf(kept)}
\`\`\`
`;
}
