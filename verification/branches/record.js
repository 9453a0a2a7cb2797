/** Called in the copy: probes what is sent to an engine, and notes each site in a file. */
import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { probedLua } from "./lua.js";
import { probedSql } from "./sql.js";

const folder = process.env["BRANCHES"] ?? "";
/** By text. */
const probed = new Map();

/** @param {string} text of a statement */
export function recordedSql(text) {
  return once(text, (nameOf) =>
    probedSql(text, (leaf) => nameOf({ engine: "postgres", text, leaf, wants: ["true", "false"] })),
  );
}

/** @param {Readonly<Record<string, string>>} texts of scripts, by name */
export function recordedLua(texts) {
  const entries = Object.entries(texts).map(([name, text]) => {
    const own = once(text, (nameOf) =>
      probedLua(text, (site) => nameOf({ engine: "redis", name, ...site })),
    );
    return [name, own];
  });
  return Object.fromEntries(entries);
}

function once(text, probe) {
  let own = probed.get(text);
  if (own !== undefined) return own;
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 12);
  const sites = [];
  own = probe((site) => {
    sites.push({ id: `${digest}.${sites.length}`, ...site });
    return `${digest}.${sites.length - 1}`;
  });
  probed.set(text, own);
  const lines = sites.map((site) => `${JSON.stringify(site)}\n`).join("");
  appendFileSync(join(folder, `sites-${process.pid}.jsonl`), lines);
  return own;
}
