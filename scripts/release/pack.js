// Packs what a release has into a folder: the tarball of each package, what it depends on (CycloneDX), the notes, and
// the hash of each.
//
//   node scripts/release/pack.js FOLDER      after `npm ci`
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PUBLISHED } from "../support/packages.js";
import { readJson, sectionOf } from "./facts.js";
import { sbomOf } from "./sbom.js";

const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error("name the folder: node scripts/release/pack.js FOLDER");
  process.exit(64);
}

mkdirSync(folder, { recursive: true });
const { version } = readJson("packages/leasehold/package.json");
const notes = [];
for (const name of PUBLISHED) {
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder];
  execFileSync("npm", [...pack, "--workspace", `packages/${name}`]);
  const sbom = JSON.stringify(sbomOf(name), null, 2);
  writeFileSync(join(folder, `${name}-${version}.cdx.json`), sbom);
  const section = sectionOf(readFileSync(`packages/${name}/CHANGELOG.md`, "utf8"), version);
  notes.push(`## ${name} ${version}\n\n${section || "Nothing but its version has changed."}\n`);
}
const hashes = readdirSync(folder).map((file) => {
  const hash = createHash("sha256").update(readFileSync(join(folder, file)));
  return `${hash.digest("hex")}  ${file}\n`;
});
writeFileSync(join(folder, "SHA256SUMS"), hashes.join(""));
writeFileSync(join(folder, "notes.md"), notes.join("\n"));
