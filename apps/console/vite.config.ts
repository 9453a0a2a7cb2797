import { fileURLToPath } from "node:url";
import { defineConfig, mergeConfig } from "vite";
import { appConfig } from "../ui/app-config.js";

const root = fileURLToPath(new URL(".", import.meta.url));

export default mergeConfig(
  appConfig(root, "index.html", "assets"),
  defineConfig({
    plugins: [
      {
        // In production the server adds this element, with the path at which it mounts the console.
        name: "development-base",
        apply: "serve",
        transformIndexHtml: () => [{ tag: "base", attrs: { href: "/" }, injectTo: "head-prepend" }],
      },
    ],
    server: {
      proxy: {
        "^/(api|v1|healthz|readyz|openapi.json|metrics)": {
          target: "http://127.0.0.1:4040",
          // The server requires that the host is that of the page's origin.
          changeOrigin: false,
        },
      },
    },
  }),
);
