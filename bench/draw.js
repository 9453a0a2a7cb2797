import { writeFileSync } from "node:fs";
import { parse, View } from "vega";
import { compile } from "vega-lite";

/** Of every plot. */
export const CHART = { width: 560, height: 300, background: "white" };

/**
 * @param {string} path of the SVG file
 * @param {object} spec of Vega-Lite
 */
export async function draw(path, spec) {
  const { spec: compiled } = compile(/** @type {any} */ (spec));
  const view = new View(parse(compiled), { renderer: "none" });
  writeFileSync(path, await view.toSVG());
}
