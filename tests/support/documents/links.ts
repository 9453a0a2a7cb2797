/** Links of Markdown files, and the anchors that GitHub gives to headings. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { slugOf } from "../../../docs/.vitepress/slugs.js";
import { readJson, repositoryOf } from "../../../scripts/release/facts.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
/** The address of the repository, which package.json states. */
export const REPOSITORY = repositoryOf(readJson(join(root, "package.json")));

interface Link {
  readonly link: string;
  readonly line: number;
}

/** Inline links and pictures, definitions of references, and those of HTML; none in code. */
const LINKS =
  /\]\(<?([^)\s>]+)|^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)|<(?:a|img)\b[^>]*?(?:href|src)="([^"]+)"/g;
const ABSOLUTE = /^[a-z][a-z+.-]*:/i;

function linksOf(markdown: string): Link[] {
  const prose = markdown.replace(/^(```|~~~)[\s\S]*?^\1/gm, (block) => block.replace(/[^\n]/g, ""));
  return prose.split("\n").flatMap((line, index) =>
    [...line.replace(/`[^`]*`/g, "").matchAll(LINKS)].map(([, inline, reference, html]) => ({
      link: inline ?? reference ?? html ?? "",
      line: index + 1,
    })),
  );
}

const isAbsolute = (link: string) => ABSOLUTE.test(link);

/** As GitHub makes them: equal headings are numbered. */
function anchorsOf(markdown: string): Set<string> {
  const headings = [...markdown.matchAll(/^#{1,6} +(.+)$/gm)].map(([, heading = ""]) => heading);
  const anchors = new Set<string>();
  for (const heading of headings) {
    const name = slugOf(heading.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1"));
    let anchor = name;
    for (let times = 1; anchors.has(anchor); times += 1) anchor = `${name}-${times}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** The content of a file or, for what is no Markdown, an empty text; null if it does not exist. */
export type Read = (path: string) => string | null;

/** Of this repository. */
export const readHere: Read = (path) => {
  if (!existsSync(join(root, path))) return null;
  return path.endsWith(".md") ? readFileSync(join(root, path), "utf8") : "";
};

/** Whether a link of a file leads to a file of the repository, and to a heading of it. */
export function leadsTo(path: string, link: string, read: Read): boolean {
  const [file = "", anchor] = link.split("#");
  const target = file === "" ? path : join(dirname(path), decodeURI(file));
  const content = read(target);
  if (content === null) return false;
  return anchor === undefined || !target.endsWith(".md") || anchorsOf(content).has(anchor);
}

/** The path of an address in the repository, with its anchor; null if it is not one of its files. */
export function pathIn(link: string, repository = REPOSITORY): string | null {
  if (!link.startsWith(`${repository}/`)) return null;
  const [, path] =
    /^\/(?:blob|tree|edit|raw)\/main\/(.+)$/.exec(link.slice(repository.length)) ?? [];
  return path ?? null;
}

/** Links of a Markdown file of the repository that lead nowhere, relative ones and those to its own address. */
export function deadLinks(path: string, text: string, read: Read): Link[] {
  const own: Read = (file) => (file === path ? text : read(file));
  return linksOf(text).filter(({ link }) => {
    if (!isAbsolute(link)) return !leadsTo(path, link, own);
    const address = pathIn(link);
    return address !== null && !leadsTo("README.md", address, own);
  });
}

/** Links of a Markdown file in a package that do not work on npm and in the folder where it is installed. */
export function brokenWherePacked(path: string, text: string, files: ReadonlySet<string>): Link[] {
  return linksOf(text).filter(({ link }) => {
    if (isAbsolute(link)) return false;
    const [file = ""] = link.split("#");
    const own: Read = (target) => (target === path ? text : null);
    if (file === "") return !leadsTo(path, link, own);
    // npm's page of a package looks for it in the repository, which does not have what the build copies.
    return path === "README.md" || !files.has(join(dirname(path), file));
  });
}
