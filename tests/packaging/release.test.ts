/** How a release is prepared, checked and packed: by its scripts, in copies of what they read and write. */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { repositoryOf, sectionOf } from "../../scripts/release/facts.js";
import { PUBLISHED } from "../../scripts/support/packages.js";
import { checkBuild } from "../support/processes/cli.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { version } = JSON.parse(readFileSync(join(root, "packages/leasehold/package.json"), "utf8"));
const TAG = `v${version}`;
const URL_OF_A_FORK = "https://github.com/someone/leasehold";

const COPIED = [
  ".changeset/config.json",
  ".changeset/README.md",
  ".do/deploy.template.yaml",
  ".github/ISSUE_TEMPLATE/config.yml",
  "apps/console/package.json",
  "apps/simulator/package.json",
  "apps/ui/package.json",
  "deploy/image/Dockerfile",
  "deploy/image/package.json",
  "deploy/kubernetes/base/kustomization.yaml",
  "deploy/prometheus/alerts.yml",
  "docs/deploying.md",
  "docs/http.md",
  "package.json",
  "package-lock.json",
  "verification/package.json",
  ...PUBLISHED.flatMap((name) => [
    `packages/${name}/package.json`,
    `packages/${name}/CHANGELOG.md`,
    `packages/${name}/README.md`,
  ]),
];
const AUTHOR = ["-c", "user.name=Someone", "-c", "user.email=someone@example.com"];

let folder: string;
const git = (...args: string[]) => execFileSync("git", [...AUTHOR, ...args], { cwd: folder });
const path = (file: string) => join(folder, file);
const read = (file: string) => readFileSync(path(file), "utf8");
const json = (file: string) => JSON.parse(read(file));
function edit(file: string, from: string | RegExp, to: string) {
  const text = read(file);
  const edited = text.replace(from, to);
  expect(edited, file).not.toBe(text);
  writeFileSync(path(file), edited);
}
function commit() {
  git("add", "--all");
  git("commit", "--quiet", "--message", "Prepare");
  git("tag", "--force", TAG);
}
/** Runs a script of the release there. */
function run(script: string, args: readonly string[] = [], env: Record<string, string> = {}) {
  const { GITHUB_REPOSITORY: _, ...own } = process.env;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, "scripts/release", script), ...args],
    { cwd: folder, encoding: "utf8", env: { ...own, ...env } },
  );
  return { status, stdout, problems: stderr.split("\n").filter((line) => line !== "") };
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "leasehold-release-"));
  for (const file of COPIED) cpSync(join(root, file), path(file));
  writeFileSync(path(".gitignore"), "node_modules\n");
  git("init", "--quiet", "--initial-branch", "main");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the version and the repository", () => {
  it("are the same everywhere, as npm run check demands", () => {
    expect(run("places.js", ["--check"])).toMatchObject({ status: 0, problems: [] });
  });

  it("are set in one place", () => {
    edit("packages/leasehold/package.json", `"version": "${version}"`, '"version": "7.8.9"');
    expect(run("places.js", ["--check"]).status).toBe(1);
    expect(run("places.js", ["--repository", `${URL_OF_A_FORK}.git`]).status).toBe(0);
    expect(run("places.js", ["--check"])).toMatchObject({ status: 0, problems: [] });
    for (const name of PUBLISHED) {
      const directory = `packages/${name}`;
      expect(json(`${directory}/package.json`)).toMatchObject({
        homepage: `${URL_OF_A_FORK}/tree/main/${directory}#readme`,
        bugs: `${URL_OF_A_FORK}/issues`,
        repository: { type: "git", url: `git+${URL_OF_A_FORK}.git`, directory },
      });
    }
    expect(read(".do/deploy.template.yaml")).toContain(`repo_clone_url: ${URL_OF_A_FORK}.git\n`);
    expect(read("docs/deploying.md")).toContain(`new?repo=${URL_OF_A_FORK}/tree/main)`);
    expect(read("deploy/image/Dockerfile")).toContain("ARG VERSION=7.8.9\n");
    expect(read("deploy/kubernetes/base/kustomization.yaml")).toContain("newTag: 7.8.9\n");
    for (const file of COPIED.filter((file) => file !== "package-lock.json"))
      expect(read(file), file).not.toContain(
        repositoryOf(JSON.parse(readFileSync(join(root, "package.json"), "utf8"))),
      );
  });

  it("refuses what is no address", () => {
    const { status, problems } = run("places.js", ["--repository", "someone/leasehold"]);
    expect({ status, problems }).toEqual({
      status: 64,
      problems: ["not the address of a repository: someone/leasehold"],
    });
    expect(json("package.json")).toEqual(
      JSON.parse(readFileSync(join(root, "package.json"), "utf8")),
    );
  });
});

it.each([
  ["--help", 0],
  ["--repositry", 64],
])("%s prints the usage, and no stack", (argument, expected) => {
  const { status, stdout, problems } = run("places.js", [argument]);
  const text = `${stdout}${problems.join("\n")}`;
  expect({ status, text }).toEqual({
    status: expected,
    text: expect.stringContaining("node scripts/release/places.js --check"),
  });
  expect(text).not.toContain("    at ");
});

describe("the check of a tag", () => {
  beforeEach(() => {
    run("places.js", ["--repository", URL_OF_A_FORK]);
    commit();
  });

  it("passes where all fits", () => {
    const env = { GITHUB_SERVER_URL: "https://github.com", GITHUB_REPOSITORY: "someone/leasehold" };
    expect(run("check.js", [TAG], env)).toEqual({
      status: 0,
      stdout: `${TAG} fits\n`,
      problems: [],
    });
  });

  it.each<[string, () => void, string | RegExp]>([
    [
      "the placeholder of a repository",
      () => run("places.js", ["--repository", "https://github.com/OWNER/leasehold"]),
      "https://github.com/OWNER/leasehold is a placeholder: node scripts/release/places.js --repository URL",
    ],
    [
      "a package that names another repository",
      () =>
        edit(
          "packages/leasehold-server/package.json",
          "git+https://github.com/someone",
          "git+https://github.com/else",
        ),
      `leasehold-server names another repository than ${URL_OF_A_FORK}: node scripts/release/places.js`,
    ],
    [
      "a package of another version",
      () =>
        edit(
          "packages/create-leasehold/package.json",
          `"version": "${version}"`,
          '"version": "9.9.9"',
        ),
      `${TAG} is not the version of create-leasehold: 9.9.9`,
    ],
    [
      "a lockfile of another version",
      () => edit("package-lock.json", /("packages\/leasehold": \{\s+"version": ")[^"]+/, "$19.9.9"),
      `package-lock.json has leasehold 9.9.9, not ${version}`,
    ],
    [
      "a server that takes other versions of the library",
      () =>
        edit(
          "packages/leasehold-server/package.json",
          `"leasehold": "${version}"`,
          `"leasehold": "^${version}"`,
        ),
      `leasehold-server depends on leasehold ^${version}, not on exactly ${version}`,
    ],
    [
      "a changelog without the section",
      () => edit("packages/leasehold/CHANGELOG.md", `## ${version}\n`, "## Unreleased\n"),
      `packages/leasehold/CHANGELOG.md has no section ${version}`,
    ],
    [
      "a change that no changelog has",
      () => writeFileSync(path(".changeset/late.md"), "---\nleasehold: patch\n---\n\nLate.\n"),
      ".changeset/late.md is in no CHANGELOG yet",
    ],
  ])("finds %s", (_what, spoil, problem) => {
    spoil();
    commit();
    const { status, problems } = run("check.js", [TAG]);
    expect(status).toBe(1);
    expect(problems).toContainEqual(problem);
  });

  it("finds another repository than the one that it runs in", () => {
    const env = { GITHUB_SERVER_URL: "https://github.com", GITHUB_REPOSITORY: "else/leasehold" };
    expect(run("check.js", [TAG], env).problems).toEqual([
      `this is https://github.com/else/leasehold, and package.json names ${URL_OF_A_FORK}`,
    ]);
  });

  it("finds a tag of another commit, and one that is not there", () => {
    appendFileSync(path("docs/http.md"), "\n");
    git("commit", "--quiet", "--all", "--message", "Go on");
    expect(run("check.js", [TAG]).problems).toEqual([
      expect.stringMatching(
        new RegExp(`^${TAG} is the commit [0-9a-f]{40}, and this is [0-9a-f]{40}$`),
      ),
    ]);
    git("tag", "--delete", TAG);
    expect(run("check.js", [TAG]).problems).toEqual([`there is no tag ${TAG}`]);
  });

  it("finds a file that the commit does not have", () => {
    writeFileSync(path("docs/stray.md"), "");
    expect(run("check.js", [TAG]).problems).toEqual([
      "the tree is not that of the commit:",
      "?? docs/stray.md",
    ]);
  });
});

it("prepares a release of all packages together from a changeset of one", () => {
  symlinkSync(join(root, "node_modules"), path("node_modules"));
  writeFileSync(path(".changeset/new.md"), '---\n"leasehold": minor\n---\n\n`run` can fly.\n');
  commit();
  const changeset = join(root, "node_modules/@changesets/cli/bin.js");
  execFileSync(process.execPath, [changeset, "version"], { cwd: folder });
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const next = `${major}.${minor + 1}.0`;
  for (const name of PUBLISHED) expect(json(`packages/${name}/package.json`).version).toBe(next);
  expect(json("packages/leasehold-server/package.json").dependencies.leasehold).toBe(next);
  expect(json("deploy/image/package.json").dependencies).toMatchObject({
    leasehold: "*",
    "leasehold-server": "*",
  });
  const changelog = read("packages/leasehold/CHANGELOG.md");
  expect(sectionOf(changelog, next)).toContain("`run` can fly.");
  expect(sectionOf(changelog, version)).toBe(
    sectionOf(readFileSync(join(root, "packages/leasehold/CHANGELOG.md"), "utf8"), version),
  );
  // A package in which nothing has changed has an empty section.
  expect(sectionOf(read("packages/create-leasehold/CHANGELOG.md"), next)).toBe("");
  expect(readdirSync(path(".changeset")).sort()).toEqual(["README.md", "config.json"]);
});

describe("what is packed", () => {
  const made = mkdtempSync(join(tmpdir(), "leasehold-packed-"));
  afterAll(() => rmSync(made, { recursive: true, force: true }));

  it("has tarballs, their lists of components, hashes of both, and notes", () => {
    checkBuild();
    const script = join(root, "scripts/release/pack.js");
    execFileSync(process.execPath, [script, made], { cwd: root });
    const packed = PUBLISHED.flatMap((name) => [
      `${name}-${version}.cdx.json`,
      `${name}-${version}.tgz`,
    ]);
    expect(readdirSync(made).sort()).toEqual([...packed, "SHA256SUMS", "notes.md"].sort());
    const sums = readFileSync(join(made, "SHA256SUMS"), "utf8").trim().split("\n");
    expect(sums.sort()).toEqual(
      packed
        .map((file) => {
          const hash = createHash("sha256")
            .update(readFileSync(join(made, file)))
            .digest("hex");
          return `${hash}  ${file}`;
        })
        .sort(),
    );
    const notes = readFileSync(join(made, "notes.md"), "utf8");
    for (const name of PUBLISHED) expect(notes).toContain(`## ${name} ${version}\n`);
  });

  it.each(PUBLISHED)(
    "lists what an installation of %s brings along, and no optional peer",
    (name) => {
      const sbom = JSON.parse(readFileSync(join(made, `${name}-${version}.cdx.json`), "utf8"));
      expect(sbom).toMatchObject({
        bomFormat: "CycloneDX",
        metadata: { component: { name, version, purl: `pkg:npm/${name}@${version}` } },
      });
      const manifest = JSON.parse(
        readFileSync(join(root, `packages/${name}/package.json`), "utf8"),
      );
      const names = sbom.components.map((component: { name: string }) => component.name);
      expect(names).toEqual(expect.arrayContaining(Object.keys(manifest.dependencies ?? {})));
      const brought =
        name === "leasehold-server" ? ["pg", "@electric-sql/pglite", "@opentelemetry/api"] : [];
      for (const peer of ["ioredis", "undici", "fast-check", "pg", "@opentelemetry/api", "vitest"])
        expect(names.includes(peer), peer).toBe(brought.includes(peer));
      const refs = new Set(
        [...sbom.components, sbom.metadata.component].map((one) => one["bom-ref"]),
      );
      for (const { ref, dependsOn } of sbom.dependencies)
        for (const one of [ref, ...dependsOn]) expect(refs).toContain(one);
    },
  );
});
