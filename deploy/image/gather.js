// Gathers in a folder what the image holds: the built packages, what they need, and how to run them.
//
//   node deploy/image/gather.js FOLDER     after `npm ci --omit=dev --workspace deploy/image`
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error("name the folder: node deploy/image/gather.js FOLDER");
  process.exit(64);
}

const modules = join(folder, "node_modules");
mkdirSync(folder, { recursive: true });
cpSync(join(root, "node_modules"), modules, { recursive: true, verbatimSymlinks: true });
// The workspaces are links there.
for (const name of ["leasehold-image", "leasehold", "leasehold-server"]) rmSync(join(modules, name));
for (const name of ["leasehold", "leasehold-server"]) {
  for (const part of ["package.json", "LICENSE", "dist"]) {
    cpSync(join(root, "packages", name, part), join(modules, name, part), { recursive: true });
  }
}
for (const file of ["package.json", "health.js"]) {
  cpSync(join(root, "deploy/image", file), join(folder, file));
}
