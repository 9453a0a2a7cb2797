/** Which sites were seen true and false, and where they stand. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const STORES = "packages/leasehold/src/stores";
/** Copies of all statements and scripts as they are sent, which a test compares with the code. */
const TEXTS = {
  postgres: [join(root, STORES, "postgres/statements")],
  redis: [
    join(root, STORES, "redis/scripts"),
    join(root, STORES, "redis/scripts/parts"),
    join(root, "packages/leasehold/src/fence/scripts"),
  ],
};

/** @returns the sites, each with what it was seen to be */
export function branches(folder) {
  const files = readdirSync(folder);
  const read = (name) => readFileSync(join(folder, name), "utf8");
  const linesOf = (name) => read(name).split("\n").filter(Boolean);
  const seen = new Set();
  for (const name of files.filter((each) => each.endsWith(".log"))) {
    for (const [, id, value] of read(name).matchAll(/PROBE (\S+) (true|false)/g)) {
      seen.add(`${id} ${value}`);
    }
  }
  const sites = files
    .filter((name) => name.startsWith("sites-"))
    .flatMap(linesOf)
    .map((line) => placed(JSON.parse(line)))
    .filter(({ at }) => at !== undefined);
  const whole = new Set(sites.filter(({ isWhole }) => isWhole).map(({ path }) => path));
  const found = new Map();
  for (const site of sites) {
    // A statement for more queues, or with fewer filters, than the one that has a file.
    if (!site.isWhole && whole.has(site.path)) continue;
    const key = `${site.at} ${site.leaf} ${site.engine === "redis" ? "" : site.id.split(".")[1]}`;
    const one = found.get(key) ?? { ...site, seen: new Set() };
    for (const value of site.wants) if (seen.has(`${site.id} ${value}`)) one.seen.add(value);
    found.set(key, one);
  }
  return [...found.values()].sort((a, b) => a.at.localeCompare(b.at, "en", { numeric: true }));
}

const texts = { postgres: textsOf("postgres"), redis: textsOf("redis") };

function placed(site) {
  if (site.engine === "redis") return { ...site, at: inScript(site, texts), isWhole: true };
  // Statements are alike in all schemas.
  const plain = (text) => text.replaceAll(/"\w+"\.(?=\w)/g, "leasehold.");
  const own = { ...site, text: plain(site.text), leaf: plain(site.leaf) };
  return { ...own, ...inStatement(own, texts) };
}

function textsOf(engine) {
  const texts = new Map();
  for (const folder of TEXTS[engine]) {
    for (const name of readdirSync(folder).filter((each) => /\.(sql|lua)$/.test(each))) {
      const path = join(folder, name);
      texts.set(path, readFileSync(path, "utf8").split("\n"));
    }
  }
  return texts;
}

const intersection = (a, b) => [...a].filter((each) => b.has(each)).length;
const place = (path, at) => `${relative(root, path)}:${at + 1}`;

/** In the script of this name, or in a part that scripts share. */
function inScript({ name, line }, { redis }) {
  for (const isOwn of [true, false]) {
    for (const [path, lines] of redis) {
      if (isOwn !== RegExp(`/(compatibility-)?${name}\\.lua$`).test(path)) continue;
      const at = lines.findIndex((each) => each.trim() === line);
      if (at >= 0) return place(path, at);
    }
  }
  return undefined;
}

/** In the statement that has most of its lines. */
function inStatement({ text, leaf }, { postgres }) {
  // Comments are in one of both only.
  const own = new Set(
    text
      .trim()
      .split("\n")
      .filter((line) => line && !/^\s*--/.test(line)),
  );
  let [best, most] = ["", 0];
  for (const [path, lines] of postgres) {
    const all = lines.flatMap((line) => referred(line, path, postgres)).filter(Boolean);
    const same = intersection(new Set(all), own) / Math.max(own.size, new Set(all).size);
    if (same > most) [best, most] = [path, same];
  }
  if (most < 0.3) return {};
  const [head = ""] = leaf.replace(/ IS NOT NULL$/, "").split(/(?<=EXISTS \()|(?<=\(SELECT)/);
  const at = (postgres.get(best) ?? []).findIndex(
    (line) => !line.startsWith("--") && line.includes(head.trim()),
  );
  return { path: best, at: at >= 0 ? place(best, at) : relative(root, best), isWhole: most === 1 };
}

/** A variant names lines of another statement. */
function referred(line, path, postgres) {
  const [, from, to, name] = /^-- lines (\d+) to (\d+) of (\S+)$/.exec(line) ?? [];
  if (name === undefined) return /^\s*--/.test(line) ? [] : [line];
  const base = path.replace(/[^/]+$/, name);
  const lines = (postgres.get(base) ?? []).slice(Number(from) - 1, Number(to));
  return lines.flatMap((each) => referred(each, base, postgres));
}
