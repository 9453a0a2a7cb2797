/**
 * Golden files: scripts as the code sends them, so that a reader sees their final text. The comment at
 * the top of each file is written by hand, and stays when the rest is rewritten. Only tests read them.
 *
 * Text that several scripts share is a file in `parts/`, and each script has a line there that names it.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

export interface GoldenFiles {
  readonly folder: URL;
  /** The path of the test, for the command that rewrites the files. */
  readonly test: string;
  /** What the code sends, by the name of its file. */
  readonly texts: Readonly<Record<string, string>>;
  /** Words that the comment at the top of each file has. */
  readonly explains: readonly string[];
}

export function testGoldenFiles({ folder, test, texts, explains }: GoldenFiles): void {
  const directory = fileURLToPath(folder);
  const parts = new Parts(`${directory}/parts`);
  const remedy = `If the code is right, rewrite the golden files: npx vitest run ${test} --update`;

  it.each(Object.entries(texts))("sends %s", async (name, text) => {
    const path = `${directory}/${name}`;
    const comment = commentOf(path);
    const message = `The code sends something else than ${path}. ${remedy}`;
    await expect(`${comment}${parts.named(text)}\n`, message).toMatchFileSnapshot(path);
    for (const word of explains) {
      expect(comment, `The comment at the top of ${path} explains ${word}`).toContain(word);
    }
  });

  it("sends nothing else", () => {
    const message = `Delete the files in ${directory} that the code does not send any more`;
    const files = readdirSync(directory).filter((name) => name !== "parts");
    expect(files.sort(), message).toEqual(Object.keys(texts).sort());
  });

  it("sends each part", () => {
    const scripts = Object.values(texts);
    const message = `No script has these parts: change them as the code has changed. ${remedy}`;
    expect(parts.missingIn(scripts), message).toEqual([]);
  });
}

/** Texts that several scripts share, each in a file of its own. */
class Parts {
  readonly #texts = new Map<string, string>();

  constructor(directory: string) {
    if (!existsSync(directory)) return;
    for (const name of readdirSync(directory).sort()) {
      const path = `${directory}/${name}`;
      const text = readFileSync(path, "utf8").slice(commentOf(path).length).trim();
      this.#texts.set(name, text);
    }
  }

  /** The script, with the name of a part in place of its text. */
  named(script: string): string {
    let short = script;
    for (const [name, text] of this.#texts) {
      short = short.replaceAll(text, () => `-- includes parts/${name}`);
    }
    return short;
  }

  missingIn(scripts: readonly string[]): string[] {
    const missing = [...this.#texts].filter(
      ([, text]) => !scripts.some((script) => script.includes(text)),
    );
    return missing.map(([name]) => name);
  }
}

/** The lines at the top that begin with dashes; empty if there is no such file. */
function commentOf(path: string): string {
  try {
    return /^(--.*\n)*/.exec(readFileSync(path, "utf8"))?.[0] ?? "";
  } catch {
    return "";
  }
}
