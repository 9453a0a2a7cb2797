import { defineConfig } from "vitepress";
import llms from "vitepress-plugin-llms";
import { installTabs } from "./installs.js";
import { manifestOf, PROJECT } from "./manifest.js";
import { PARTS } from "./navigation.js";
import { slugOf } from "./slugs.js";

const { version } = manifestOf("leasehold");

export default defineConfig({
  title: "Leasehold",
  description:
    "Leases, locks, leader election and tasks for TypeScript, on the database you already run.",
  head: [["link", { rel: "icon", href: "/simulator/favicon.svg" }]],
  cleanUrls: true,
  srcExclude: ["node_modules/**"],
  vite: { plugins: [llms()], build: { chunkSizeWarningLimit: 2_000 } },
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => {
      md.core.ruler.push("repository-links", repositoryLinks);
      md.core.ruler.push("breaks-in-cells", breaksInCells);
      md.core.ruler.push("checkboxes", checkboxes);
      installTabs(md);
    },
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
      // With a target, VitePress leaves the link to the browser: the simulator is not one of its pages.
      { text: "Simulator", link: "/simulator/index.html", target: "_self", noIcon: true },
      { text: `Upgrading (${version})`, link: "/upgrading" },
    ],
    sidebar: PARTS.map(({ text, pages }) => ({
      text,
      items: Object.entries(pages).map(([path, title]) => ({
        text: title,
        link: `/${path.replace(/index$/, "")}`,
      })),
    })),
    editLink: { pattern: `${PROJECT}/edit/main/docs/:path`, text: "Edit this page" },
    socialLinks: [{ icon: "github", link: PROJECT }],
  },
});

/** Names of fewer characters fit into a cell. */
const LONG = 18;

/** Words with a hyphen: browsers would break `--fault` after it. */
const HYPHENATED = /(?<![^\s>])-{0,2}[\w]+(?:-[\w]+)+|--\w+/g;

/** What a page may link to within the site. */
const OF_SITE = /^\/docs\/(?:.*\/)?(?:[^/]+\.(?:md|png|svg)|[^/.]+)$/;

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
    if (!OF_SITE.test(pathname)) token.attrSet("href", `${PROJECT}/blob/main${pathname}${hash}`);
  }
}

/**
 * Long names in cells may break behind their dots and underscores: a table of metrics is too wide otherwise.
 * @param {{ tokens: readonly { type: string, children: { type: string, content: string }[] | null }[] }} state
 */
function breaksInCells({ tokens }) {
  for (const [index, token] of tokens.entries()) {
    if (tokens[index - 1]?.type !== "td_open") continue;
    for (const child of token.children ?? []) {
      if (child.type !== "code_inline" || child.content.length < LONG) continue;
      const text = escaped(child.content);
      const pieces = text.replace(/(?<=[\w)}])(?=[._/:=]\w)/g, "<wbr>");
      child.type = "html_inline";
      child.content = `<code v-pre>${pieces.replace(HYPHENATED, '<span class="whole">$&</span>')}</code>`;
    }
  }
}

/**
 * `- [ ]` becomes a box to tick while reading.
 * @param {{ tokens: readonly { type: string, children: { type: string, content: string }[] | null }[] }} state
 */
function checkboxes({ tokens }) {
  for (const [index, token] of tokens.entries()) {
    const [first] = token.children ?? [];
    if (tokens[index - 2]?.type !== "list_item_open" || !first?.content.startsWith("[ ] "))
      continue;
    first.type = "html_inline";
    first.content = `<input type="checkbox" aria-label="done"> ${escaped(first.content.slice(4))}`;
  }
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}
