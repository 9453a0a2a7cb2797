/** The Vite configuration of an app that leasehold-server serves. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import type { UserConfig } from "vite";
import { sourceAliases } from "../../scripts/support/sources.js";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const REACT = /node_modules\/(react|react-dom|scheduler)\//;
/** What has the same content and name in each app, and so is one file for all. */
const SHARED = "assets/shared";
const LIBRARIES: ReadonlySet<string> = new Set(["react", "rolldown-runtime"]);

/**
 * @param root the app's folder
 * @param page its HTML file
 * @param assetsDir where its scripts and styles go: below `assets/`, whose files the server lets browsers keep
 */
export function appConfig(root: string, page: string, assetsDir: string): UserConfig {
  return {
    root,
    // Links are relative, so that the page works below any path and on any static host.
    base: "./",
    publicDir: here("public"),
    resolve: { alias: sourceAliases("browser") },
    plugins: [react(), tailwindcss()],
    build: {
      outDir: here("../../packages/leasehold-server/dist/web"),
      // The other app's files are there too.
      emptyOutDir: false,
      assetsDir,
      target: "es2022",
      // Vite would inline small files as data: URLs, which the content security policy forbids in scripts.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      // The tests bound what a page loads, as gzip: tests/console/shell.test.ts and its sibling of the simulator.
      reportCompressedSize: false,
      chunkSizeWarningLimit: 1_000,
      // How long the plugins take depends on what else the machine does.
      rolldownOptions: {
        input: join(root, page),
        checks: { bundlerTimings: false },
        output: {
          codeSplitting: { groups: [{ name: "react", test: REACT }] },
          chunkFileNames: ({ name }) =>
            `${LIBRARIES.has(name) ? SHARED : assetsDir}/[name]-[hash].js`,
          assetFileNames: ({ names }) =>
            `${names[0]?.endsWith(".woff2") ? SHARED : assetsDir}/[name]-[hash][extname]`,
        },
      },
    },
  };
}
