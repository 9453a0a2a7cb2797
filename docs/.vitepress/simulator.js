// Copies the built simulator into the site. The root's build makes it.
import { cpSync, existsSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const from = at("../../packages/leasehold-server/dist/web");
const to = at("../public/simulator");
if (!existsSync(`${from}/simulator.html`)) {
  console.error(
    "The simulator is not built: run `npm run build` in the root of the repository first.",
  );
  process.exit(1);
}
rmSync(to, { recursive: true, force: true });
for (const folder of ["simulator", "shared"]) {
  cpSync(`${from}/assets/${folder}`, `${to}/assets/${folder}`, { recursive: true });
}
cpSync(`${from}/favicon.svg`, `${to}/favicon.svg`);
cpSync(`${from}/simulator.html`, `${to}/index.html`);
