// What the scripts of a release read of the repository. They run in its root.
import { readFileSync } from "node:fs";

/** In place of a name on GitHub, until there is a repository there. */
export const PLACEHOLDER = "/OWNER/";

/** @param {string} path */
export const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

/** @returns {string} the address of the repository, `https://github.com/NAME/leasehold` */
export const repositoryOf = ({ repository }) => repository.url.replace(/^git\+|\.git$/g, "");

/**
 * The section of a version in the changelog of a package, without its heading; null if there is none.
 * @param {string} changelog @param {string} version
 */
export function sectionOf(changelog, version) {
  const sections = changelog.split(/^## /m).slice(1);
  const found = sections.find((section) => section.split("\n", 1)[0]?.trim() === version);
  return found === undefined ? null : found.slice(found.indexOf("\n")).trim();
}
