// Copies the built simulator into the site. The root's build makes it.
import { cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
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
mkdirSync(to, { recursive: true });
for (const name of ["simulator.html", "favicon.svg", "assets"])
  cpSync(`${from}/${name}`, `${to}/${name}`, { recursive: true });
