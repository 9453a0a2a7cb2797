/** The package in a bundle for browsers, as Vite makes it of a page's script. */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, createLogger } from "vite";
import { checkBuild } from "../processes/cli.js";

export interface Bundle {
  /** The script to load. */
  readonly entry: string;
  /** Every script, by its name. */
  readonly scripts: ReadonlyMap<string, string>;
  /** Of all scripts, minified, and as they travel. */
  readonly bytes: number;
  readonly gzipBytes: number;
}

/**
 * @param source a module below tests/, which imports the package by its name
 * @param options.format `iife` is one classic script
 * @throws Error for anything that the bundler warns of, such as a module of Node's
 */
export async function bundle(
  source: URL,
  { format = "es" }: { format?: "es" | "iife" } = {},
): Promise<Bundle> {
  checkBuild();
  const warnings: string[] = [];
  const customLogger = createLogger("warn");
  customLogger.warn = (text) => warnings.push(text);
  customLogger.warnOnce = customLogger.warn;
  const path = fileURLToPath(source);
  const built = await build({
    configFile: false,
    logLevel: "warn",
    customLogger,
    root: fileURLToPath(new URL(".", source)),
    build: {
      write: false,
      target: "es2022",
      modulePreload: false,
      ...(format === "es"
        ? { rolldownOptions: { input: path } }
        : { lib: { entry: path, formats: [format], name: "page" } }),
    },
  });
  if (warnings.length > 0) throw new Error(warnings.join("\n"));
  const [made] = [built].flat();
  if (!made || !("output" in made)) throw new Error("the bundler has made nothing");
  const chunks = made.output.filter((file) => file.type === "chunk");
  const entry = chunks.find((chunk) => chunk.isEntry);
  if (!entry) throw new Error("the bundle has no entry");
  const scripts = new Map(chunks.map(({ fileName, code }) => [fileName, code]));
  const sizes = (measure: (code: string) => number) =>
    [...scripts.values()].reduce((sum, code) => sum + measure(code), 0);
  return {
    entry: entry.fileName,
    scripts,
    bytes: sizes((code) => Buffer.byteLength(code)),
    gzipBytes: sizes((code) => gzipSync(code).length),
  };
}
