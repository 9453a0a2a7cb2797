/** Bundles of programs of users, which run: on this Node, or with the globals of the web alone. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { missingRedis } from "../support/engines/redis-engine.js";
import { run } from "./program.js";
import type { Row } from "./row.js";
import { missingPostgres } from "./runtimes.js";
import type { Site } from "./site.js";

const BUNDLE = fileURLToPath(new URL("./bundle.js", import.meta.url));
const IN_REALM = fileURLToPath(new URL("./in-realm.js", import.meta.url));
const BUNDLERS = ["esbuild", "vite", "webpack", "rspack"] as const;
type Bundler = (typeof BUNDLERS)[number];
const TITLES: Readonly<Record<Bundler, string>> = {
  esbuild: "esbuild",
  vite: "Vite",
  webpack: "webpack",
  rspack: "Rspack",
};

/** Its parts are files beside it, so it works only outside of a bundle. */
const PGLITE = "@electric-sql/pglite";
const DRIVERS = [PGLITE, "pg", "ioredis"];

export const BUNDLER_ROWS: readonly Row[] = BUNDLERS.flatMap((bundler) => [
  {
    name: `${TITLES[bundler]}: drivers external`,
    tries: "client and server in a bundle; PGlite, PostgreSQL, Redis",
    missing: missingServers,
    run: (site) => bundledServer(bundler, site, DRIVERS),
  },
  {
    name: `${TITLES[bundler]}: drivers bundled`,
    tries: "the same with pg and ioredis in the bundle; PGlite stays outside",
    missing: missingServers,
    run: (site) => bundledServer(bundler, site, [PGLITE]),
  },
  {
    name: `${TITLES[bundler]}: error of a missing driver`,
    tries: "the error names the package to install",
    quick: bundler === "esbuild",
    async run(site) {
      const project = await site.bare();
      const outfile = await bundle(bundler, project, "missing", { platform: "node" });
      await run(process.execPath, [outfile], { cwd: project });
    },
  },
  {
    name: `${TITLES[bundler]}: browser`,
    tries: "the script of a page, with the globals of the web alone; HTTP and memory",
    quick: bundler === "esbuild",
    async run(site) {
      const outfile = await bundle(bundler, await site.bare(), "page", { platform: "browser" });
      await run(process.execPath, [IN_REALM, outfile, await site.server()]);
    },
  },
]);

async function missingServers(): Promise<string | null> {
  return missingRedis() ?? (await missingPostgres());
}

async function bundledServer(bundler: Bundler, site: Site, external: readonly string[]) {
  const project = await site.full();
  const outfile = await bundle(bundler, project, "server", { platform: "node", external });
  const sources = [await site.postgres(), await site.redis(), "pglite:"];
  await run(process.execPath, [outfile, ...sources], { cwd: project });
}

interface BundleOptions {
  readonly platform: "node" | "browser" | "worker";
  readonly external?: readonly string[];
}

/** @returns the path of the bundle */
export async function bundle(
  bundler: Bundler,
  project: string,
  program: string,
  { platform, external = [] }: BundleOptions,
): Promise<string> {
  const entry = join(project, "programs", `${program}.mjs`);
  const outfile = join(project, `bundle-${bundler}-${external.length}-${program}.cjs`);
  const options = JSON.stringify({ entry, outfile, platform, external });
  await run(process.execPath, [BUNDLE, bundler, options], { cwd: project });
  return outfile;
}
