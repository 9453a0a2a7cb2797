// Checks that a tag may be released from this tree, and says all that does not fit. The workflow `release.yml` runs it.
//
//   node scripts/release/check.js v0.2.0
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { PUBLISHED } from "../support/packages.js";
import { PLACEHOLDER, readJson, repositoryOf, sectionOf } from "./facts.js";

const [tag] = process.argv.slice(2);
if (tag === undefined) {
  console.error("name the tag: node scripts/release/check.js v0.2.0");
  process.exit(64);
}
const problems = [...problemsOfVersions(), ...problemsOfRepository(), ...problemsOfTree()];
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
else console.log(`${tag} fits`);

/** @returns {string[]} */
function problemsOfVersions() {
  const lock = readJson("package-lock.json").packages;
  const found = [];
  for (const name of PUBLISHED) {
    const folder = `packages/${name}`;
    const { version, dependencies = {} } = readJson(`${folder}/package.json`);
    if (tag !== `v${version}`) found.push(`${tag} is not the version of ${name}: ${version}`);
    if (lock[folder]?.version !== version) {
      found.push(`package-lock.json has ${name} ${lock[folder]?.version}, not ${version}`);
    }
    for (const other of PUBLISHED.filter((other) => dependencies[other] !== undefined)) {
      if (dependencies[other] === version) continue;
      found.push(`${name} depends on ${other} ${dependencies[other]}, not on exactly ${version}`);
    }
    // That of a package in which nothing has changed is empty.
    if (sectionOf(readFileSync(`${folder}/CHANGELOG.md`, "utf8"), version) === null) {
      found.push(`${folder}/CHANGELOG.md has no section ${version}`);
    }
  }
  const left = readdirSync(".changeset").filter(
    (file) => file.endsWith(".md") && file !== "README.md",
  );
  for (const file of left) found.push(`.changeset/${file} is in no CHANGELOG yet`);
  return found;
}

/** npm accepts a provenance only for the repository that package.json names. */
function problemsOfRepository() {
  const url = repositoryOf(readJson("package.json"));
  if (url.includes(PLACEHOLDER)) {
    return [`${url} is a placeholder: node scripts/release/places.js --repository URL`];
  }
  const found = PUBLISHED.filter(
    (name) => repositoryOf(readJson(`packages/${name}/package.json`)) !== url,
  ).map((name) => `${name} names another repository than ${url}: node scripts/release/places.js`);
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env;
  if (repository !== undefined && url !== `${server}/${repository}`) {
    found.push(`this is ${server}/${repository}, and package.json names ${url}`);
  }
  return found;
}

/** What is packed must be what the tag has. */
function problemsOfTree() {
  const found = [];
  const [head, tagged] = [
    git("rev-parse", "HEAD"),
    git("rev-parse", "--verify", "--quiet", `refs/tags/${tag}^{commit}`),
  ];
  if (tagged === "") found.push(`there is no tag ${tag}`);
  else if (head !== tagged) found.push(`${tag} is the commit ${tagged}, and this is ${head}`);
  const changed = git("status", "--porcelain");
  if (changed !== "") found.push(`the tree is not that of the commit:\n${changed}`);
  return found;
}

/** @param {string[]} args @returns what it prints; nothing if it fails */
function git(...args) {
  return spawnSync("git", args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  }).stdout.trim();
}
