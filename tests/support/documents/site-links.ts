/** Links and anchors of a built site. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { leadsTo, pathIn, readHere } from "./links.js";

/** The links of all pages of a built site that lead nowhere: to no page, no anchor, no file of the repository. */
export async function deadLinksOf(dist: string): Promise<string[]> {
  const files = new Set(await readdir(dist, { recursive: true }));
  const pages = [...files].filter(
    (file) => file.endsWith(".html") && !file.startsWith("simulator"),
  );
  if (pages.length === 0) throw new Error(`${dist} has no pages`);
  const anchors = new Map<string, ReadonlySet<string>>();
  const links = new Map<string, readonly string[]>();
  for (const file of pages) {
    const html = await readFile(join(dist, file), "utf8");
    anchors.set(file, new Set(valuesOf(html, "id")));
    links.set(file, [...new Set([...valuesOf(html, "href"), ...valuesOf(html, "src")])]);
  }
  const isDead = (page: string, link: string) => {
    const inRepository = pathIn(link);
    if (inRepository !== null) return !leadsTo("README.md", inRepository, readHere);
    const base = new URL(`http://site/${page}`);
    const { origin, pathname, hash } = new URL(link, base);
    if (origin !== base.origin) return false;
    const target = decodeURIComponent(pathname.slice(1));
    const found = [target, `${target}.html`, `${target}index.html`].find((file) => files.has(file));
    if (found === undefined) return true;
    return hash !== "" && !anchors.get(found)?.has(decodeURIComponent(hash.slice(1)));
  };
  return pages.flatMap((page) =>
    (links.get(page) ?? []).filter((link) => isDead(page, link)).map((link) => `${page}: ${link}`),
  );
}

function valuesOf(html: string, attribute: string): string[] {
  return [...html.matchAll(new RegExp(`\\s${attribute}="([^"]*)"`, "g"))].map(([, value = ""]) =>
    value.replaceAll("&amp;", "&").replaceAll("&quot;", '"').replaceAll("&#39;", "'"),
  );
}
