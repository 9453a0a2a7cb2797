/** A table of Markdown. */
export function table(/** @type {string[]} */ titles, /** @type {unknown[][]} */ rows) {
  const line = (/** @type {unknown[]} */ cells) =>
    `| ${cells.map((cell) => `${cell}`.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join("\n");
}
