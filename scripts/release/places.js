// Writes the version and the repository where files state them that no tool keeps up to date. The version is that of
// packages/leasehold, the repository that of package.json.
import { readFileSync, writeFileSync } from "node:fs";
import { argumentsOf } from "../support/arguments.js";
import { PUBLISHED } from "../support/packages.js";
import { readJson, repositoryOf } from "./facts.js";

const HELP = `node scripts/release/places.js                                                    write them
node scripts/release/places.js --repository https://github.com/NAME/leasehold  set the repository first
node scripts/release/places.js --check                                         name the places that differ; part of npm run check`;

const { values } = argumentsOf(HELP, {
  options: { check: { type: "boolean" }, repository: { type: "string" } },
});
if (values.repository !== undefined) setRepository(values.repository);

const { version } = readJson("packages/leasehold/package.json");
const url = repositoryOf(readJson("package.json"));

/** Links of Markdown that npm packs: it needs them in full. */
const LINKS = /(?<=\]\()https:\/\/[^)\s]+?(?=\/blob\/main\/(?:docs|packages)\/)/g;

/** @type {[file: string, place: RegExp, value: string][]} */
const PLACES = [
  ["deploy/image/Dockerfile", /(?<=^ARG VERSION=).*$/gm, version],
  ["deploy/image/Dockerfile", /(?<=org\.opencontainers\.image\.source=")[^"]*/g, url],
  ["deploy/kubernetes/base/kustomization.yaml", /(?<=newTag: ).*$/gm, version],
  ["docs/http.md", /(?<="version": ")\d+\.\d+\.\d+/g, version],
  [".do/deploy.template.yaml", /(?<=repo_clone_url: ).*(?=\.git$)/gm, url],
  ["docs/deploying.md", /(?<=apps\/new\?repo=).*(?=\/tree\/main)/g, url],
  ["deploy/prometheus/alerts.yml", /(?<=runbook_url: ").*(?=\/blob\/main\/)/gm, url],
  [".github/ISSUE_TEMPLATE/config.yml", /(?<=url: ).*(?=\/(?:security|blob)\/)/g, url],
  ...PUBLISHED.map((name) => [`packages/${name}/README.md`, LINKS, url]),
  ["packages/leasehold/CHANGELOG.md", LINKS, url],
  ["packages/leasehold-server/CHANGELOG.md", LINKS, url],
];

/** @type {Map<string, string>} */
const texts = new Map();
for (const [file, place, value] of PLACES) {
  const text = texts.get(file) ?? readFileSync(file, "utf8");
  if (text.search(place) < 0) throw new Error(`${file} has no place for ${place}`);
  texts.set(
    file,
    text.replace(place, () => value),
  );
}
for (const name of PUBLISHED) {
  const file = `packages/${name}/package.json`;
  const manifest = withLinks(readJson(file), `packages/${name}`);
  texts.set(file, `${JSON.stringify(manifest, null, 2)}\n`);
}

const differing = [...texts].filter(([file, text]) => readFileSync(file, "utf8") !== text);
if (values.check) {
  for (const [file] of differing) {
    console.error(`${file} states another version or repository: node scripts/release/places.js`);
  }
  if (differing.length > 0) process.exitCode = 1;
} else {
  for (const [file, text] of differing) {
    writeFileSync(file, text);
    console.log(`${file} is up to date`);
  }
}

/** With the links behind the licence. */
function withLinks({ homepage: _, bugs: __, repository: ___, ...manifest }, directory) {
  const links = {
    homepage: `${url}/tree/main/${directory}#readme`,
    bugs: `${url}/issues`,
    repository: { type: "git", url: `git+${url}.git`, directory },
  };
  const entries = Object.entries(manifest);
  const behind = entries.findIndex(([name]) => name === "license") + 1;
  return Object.fromEntries([
    ...entries.slice(0, behind),
    ...Object.entries(links),
    ...entries.slice(behind),
  ]);
}

/** @param {string} repository */
function setRepository(repository) {
  const [, address] =
    /^(https:\/\/[\w.-]+\/[\w.-]+\/[\w.-]+?)(?:\.git)?\/?$/.exec(repository) ?? [];
  if (address === undefined) {
    console.error(`not the address of a repository: ${repository}`);
    process.exit(64);
  }
  const text = readFileSync("package.json", "utf8");
  writeFileSync("package.json", text.replaceAll(repositoryOf(JSON.parse(text)), address));
}
