import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { sourceAliases } from "../../scripts/support/sources.js";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here("."),
  // Links are relative, so that the console works below any path and on any static host.
  base: "./",
  publicDir: here("../ui/public"),
  resolve: { alias: sourceAliases("browser") },
  plugins: [
    react(),
    tailwindcss(),
    {
      // In production the server adds this element, with the path at which it mounts the console.
      name: "development-base",
      apply: "serve",
      transformIndexHtml: () => [{ tag: "base", attrs: { href: "/" }, injectTo: "head-prepend" }],
    },
  ],
  build: {
    outDir: here("../../packages/leasehold-server/dist/web"),
    emptyOutDir: true,
    target: "es2022",
    // Vite would inline small files as data: URLs, which the content security policy forbids in scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { input: [here("index.html"), here("simulator.html")] },
  },
  server: {
    proxy: {
      "^/(api|v1|healthz|readyz|openapi.json|metrics)": {
        target: "http://127.0.0.1:4040",
        // The server requires that the host is that of the page's origin.
        changeOrigin: false,
      },
    },
  },
});
