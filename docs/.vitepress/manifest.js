import { readFileSync } from "node:fs";
import { repositoryOf } from "../../scripts/release/facts.js";

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

/** The address of the repository. */
export const PROJECT = repositoryOf(manifestOf("leasehold"));
