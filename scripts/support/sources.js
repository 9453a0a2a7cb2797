// Loads the project's TypeScript, that of the tests too: vite compiles it on the way.
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

/**
 * `load("/test/support/x.ts")` gives a module; `close()` ends the compiler.
 */
export async function openSources() {
  const vite = await createServer({
    root: fileURLToPath(new URL("../..", import.meta.url)),
    configFile: false,
    appType: "custom",
    logLevel: "error",
    server: { middlewareMode: true, watch: null, ws: false },
    optimizeDeps: { noDiscovery: true },
  });
  return {
    load: (/** @type {string} */ path) => vite.ssrLoadModule(path),
    close: () => vite.close(),
  };
}
