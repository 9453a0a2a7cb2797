import { existsSync, readFileSync } from "node:fs";
import { defineConfig } from "vitepress";
import llms from "vitepress-plugin-llms";
import { PARTS } from "./navigation.js";

const at = (/** @type {string} */ path) => new URL(path, import.meta.url);
const { repository, version } = JSON.parse(
  readFileSync(at("../../packages/leasehold/package.json"), "utf8"),
);
const project = repository?.url.replace(/^git\+/, "").replace(/\.git$/, "");

export default defineConfig({
  title: "Leasehold",
  description: "Leases, locks, leader election and tasks for TypeScript, on the database you already run.",
  cleanUrls: true,
  srcExclude: ["node_modules/**"],
  // The home page sends its readers to the first page.
  vite: { plugins: [llms()], build: { chunkSizeWarningLimit: 2_000 } },
  markdown: { theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" } },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Start", link: "/start/" },
      { text: "Learn", link: "/learn/leases" },
      { text: "Guides", link: "/guides/nightly-job" },
      { text: "API", link: "/reference/api/" },
      { text: version, link: "/stability" },
    ],
    sidebar: [
      ...PARTS.map(({ text, pages }) => ({
        text,
        collapsed: false,
        items: Object.entries(pages).map(([path, title]) => ({
          text: title,
          link: `/${path.replace(/index$/, "")}`,
        })),
      })),
      { text: "API", collapsed: true, items: apiPages() },
    ],
    ...(project && {
      editLink: { pattern: `${project}/edit/main/docs/:path`, text: "Edit this page" },
      socialLinks: [{ icon: "github", link: project }],
    }),
  },
});

/** Typedoc writes it beside the pages. */
function apiPages() {
  const file = at("../reference/api/typedoc-sidebar.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
}
