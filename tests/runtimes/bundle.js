// Bundles one program: node bundle.js BUNDLER OPTIONS, with the options as JSON. Prints the warnings, and fails with the errors.
import { builtinModules } from "node:module";
import { basename, dirname } from "node:path";

/**
 * @typedef {object} Options
 * @property {string} entry
 * @property {string} outfile
 * @property {"node" | "browser" | "worker"} platform
 * @property {string[]} external packages that stay outside of the bundle
 */

/**
 * Packages of this folder alone: those who check the repository have not all installed them.
 * @param {string} name
 */
const load = (name) => import(name);

/** @type {Record<Options["platform"], object>} */
const ESBUILD = {
  node: { platform: "node", format: "cjs" },
  browser: { platform: "browser", format: "iife" },
  worker: { platform: "browser", format: "esm", conditions: ["workerd", "worker", "browser"] },
};

/** @type {Record<string, (options: Options) => Promise<string[]>>} */
const BUNDLERS = {
  async esbuild({ entry, outfile, platform, external }) {
    const { build } = await load("esbuild");
    const { warnings } = await build({
      entryPoints: [entry],
      outfile,
      bundle: true,
      ...ESBUILD[platform],
      target: "es2022",
      external: platform === "worker" ? [...external, ...builtinModules, "node:*"] : external,
      logLevel: "silent",
    });
    return warnings.map((/** @type {{ text: string }} */ { text }) => text);
  },

  async vite({ entry, outfile, platform, external }) {
    const { build, createLogger } = await load("vite");
    /** @type {string[]} */
    const warnings = [];
    const customLogger = createLogger("warn");
    customLogger.warn = (/** @type {string} */ text) => void warnings.push(text);
    const output = { entryFileNames: basename(outfile), codeSplitting: false };
    await build({
      configFile: false,
      root: dirname(entry),
      customLogger,
      ...(platform === "node" && { ssr: { noExternal: true, external } }),
      build: {
        ssr: platform === "node",
        outDir: dirname(outfile),
        emptyOutDir: false,
        modulePreload: false,
        rolldownOptions: {
          input: entry,
          output:
            platform === "node" ? { ...output, format: "cjs" } : { ...output, format: "iife" },
        },
      },
    });
    return warnings;
  },

  webpack: async (options) => likeWebpack((await load("webpack")).default, options),
  rspack: async (options) => likeWebpack((await load("@rspack/core")).rspack, options),
};

/** @param {any} bundler @param {Options} options @returns {Promise<string[]>} */
function likeWebpack(bundler, { entry, outfile, platform, external }) {
  const config = {
    mode: "production",
    target: platform === "node" ? "node" : "web",
    context: dirname(entry),
    entry,
    output: { path: dirname(outfile), filename: basename(outfile), asyncChunks: false },
    externals: Object.fromEntries(external.map((name) => [name, `commonjs ${name}`])),
    performance: false,
  };
  return new Promise((resolve, reject) => {
    bundler(config, (/** @type {unknown} */ error, /** @type {any} */ stats) => {
      if (error) return reject(error);
      const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
      const texts = (/** @type {{ message: string }[]} */ all) => all.map(({ message }) => message);
      if (errors.length > 0) reject(new Error(texts(errors).join("\n")));
      else resolve(texts(warnings));
    });
  });
}

const [bundler = "", options = ""] = process.argv.slice(2);
console.log(JSON.stringify(await BUNDLERS[bundler]?.(JSON.parse(options))));
