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
  markdown: {
    config: (md) => md.core.ruler.push("repository-links", repositoryLinks),
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Start", link: "/start/" },
      { text: "Learn", link: "/learn/leases" },
      { text: "Guides", link: "/coordination" },
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

/**
 * Links to files outside docs/ lead to the repository.
 * @param {import("markdown-it").StateCore} state
 */
function repositoryLinks({ tokens, env }) {
  for (const token of tokens.flatMap(({ children }) => children ?? [])) {
    const href = token.type === "link_open" ? token.attrGet("href") : null;
    if (!href?.startsWith(".")) continue;
    const { pathname, hash } = new URL(href, `file:///docs/${env.relativePath}`);
    if (!pathname.startsWith("/docs/")) token.attrSet("href", `${project}/blob/main${pathname}${hash}`);
  }
}

/** Typedoc writes it beside the pages. */
function apiPages() {
  const file = at("../reference/api/typedoc-sidebar.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
}
