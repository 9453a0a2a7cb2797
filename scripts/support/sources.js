// Makes Vite load the packages' sources instead of their builds.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build, createServer } from "vite";

const root = fileURLToPath(new URL("../..", import.meta.url));
const PACKAGES = ["leasehold", "leasehold-server"];

/**
 * Maps each specifier that a package exports to its source file.
 * @param {"browser" | "node"} condition of the exports
 * @param {string} from the folder that has packages/, with a slash at its end
 * @returns {{ find: RegExp, replacement: string }[]} for vite's `resolve.alias`
 */
export function sourceAliases(condition = "node", from = root) {
  return PACKAGES.flatMap((name) => {
    const folder = `${from}packages/${name}`;
    const { exports } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
    return Object.entries(exports)
      .filter(([, target]) => typeof target === "object")
      .map(([subpath, target]) => ({
        find: new RegExp(`^${name}${subpath.slice(1)}$`),
        replacement: (target[condition] ?? target.default)
          .replace("./dist/", `${folder}/src/`)
          .replace(/\.js$/, ".ts"),
      }));
  });
}

/**
 * Loads the project's TypeScript, including that of the tests; Vite compiles it on the way.
 * `load("/tests/support/ROOM/x.ts")` returns a module; `close()` ends the compiler.
 */
export async function openSources() {
  const vite = await createServer({
    root,
    configFile: false,
    appType: "custom",
    logLevel: "error",
    resolve: { alias: sourceAliases() },
    server: { middlewareMode: true, watch: null, ws: false },
    optimizeDeps: { noDiscovery: true },
  });
  return {
    load: (/** @type {string} */ path) => vite.ssrLoadModule(path),
    close: () => vite.close(),
  };
}

/**
 * Compiles TypeScript programs and the project files that they import. This is faster than compiling the
 * whole project. Third-party packages are not bundled.
 * @param {Record<string, string>} programs source by name; each becomes `${outDir}/${name}.js`
 * @param {string} outDir below the project, so that packages are found from there
 * @param {string} from the folder whose packages/ the programs import, with a slash at its end
 */
export async function compilePrograms(programs, outDir, from = root) {
  await build({
    root,
    configFile: false,
    logLevel: "error",
    resolve: { alias: sourceAliases("node", from) },
    build: {
      ssr: true,
      outDir,
      emptyOutDir: true,
      target: "es2022",
      minify: false,
      // Tree shaking could remove a planted bug's code as unused.
      rolldownOptions: {
        input: programs,
        treeshake: false,
        output: { entryFileNames: "[name].js" },
      },
    },
  });
}
