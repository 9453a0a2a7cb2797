import { readFileSync } from "node:fs";

/**
 * @typedef {object} Manifest
 * @property {string} version
 * @property {{ url: string }} repository
 * @property {Record<string, { types?: string }>} exports
 */

/** The package.json of a package. */
export function manifestOf(/** @type {string} */ name) {
  const file = new URL(`../../packages/${name}/package.json`, import.meta.url);
  return /** @type {Manifest} */ (JSON.parse(readFileSync(file, "utf8")));
}
