import { defineConfig } from "vitepress";
import llms from "vitepress-plugin-llms";
import { manifestOf } from "./manifest.js";
import { PARTS } from "./navigation.js";

const { repository, version } = manifestOf("leasehold");
const project = repository.url.replace(/^git\+/, "").replace(/\.git$/, "");

export default defineConfig({
  title: "Leasehold",
  description:
    "Leases, locks, leader election and tasks for TypeScript, on the database you already run.",
  head: [["link", { rel: "icon", href: "/simulator/favicon.svg" }]],
  cleanUrls: true,
  srcExclude: ["node_modules/**"],
  vite: { plugins: [llms()], build: { chunkSizeWarningLimit: 2_000 } },
  markdown: {
    config: (md) => md.core.ruler.push("repository-links", repositoryLinks),
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    languageAlias: { promql: "sql" },
  },
  themeConfig: {
    search: {
      provider: "local",
      options: {
        miniSearch: {
          // Readers look for explanations first, and find members of the API on the way.
          searchOptions: {
            boostDocument: (/** @type {string} */ id) =>
              /\/(reference\/api|decisions)\//.test(id) ? 0.2 : 1,
          },
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: "Start", link: "/start/" },
      { text: "Learn", link: "/learn/leases" },
      { text: "Guides", link: "/guides/nightly-job" },
      { text: "API", link: "/reference/api/" },
      { text: version, link: "/upgrading" },
    ],
    sidebar: PARTS.map(({ text, pages }) => ({
      text,
      items: Object.entries(pages).map(([path, title]) => ({
        text: title,
        link: `/${path.replace(/index$/, "")}`,
      })),
    })),
    editLink: { pattern: `${project}/edit/main/docs/:path`, text: "Edit this page" },
    socialLinks: [{ icon: "github", link: project }],
  },
});

/** What a page may link to within the site. */
const OF_SITE = /^\/docs\/.*\.(?:md|png|svg)$|^\/docs\/.*[^/.]+$/;

/**
 * @typedef {object} LinkToken of markdown-it
 * @property {string} type
 * @property {(name: string) => string | null} attrGet
 * @property {(name: string, value: string) => void} attrSet
 */

/**
 * Links to other files lead to the repository.
 * @param {{ tokens: readonly { children: readonly LinkToken[] | null }[], env: { relativePath: string } }} state
 */
function repositoryLinks({ tokens, env }) {
  for (const token of tokens.flatMap(({ children }) => children ?? [])) {
    const href = token.type === "link_open" ? token.attrGet("href") : null;
    if (!href || /^(?:[a-z]+:|#|\/)/.test(href)) continue;
    const { pathname, hash } = new URL(href, `file:///docs/${env.relativePath}`);
    if (!OF_SITE.test(pathname)) token.attrSet("href", `${project}/blob/main${pathname}${hash}`);
  }
}
