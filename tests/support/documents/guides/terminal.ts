/** A terminal of a reader: a shell that lives as long as the walk, so that variables and background jobs stay. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Child } from "../../processes/processes.js";
import { compare, type Pair } from "./printed.js";

const END = "# end of block";
/** What bash says about jobs that were killed, and Prisma about its schema. */
const NOTICE = /^\S+: line \d+: +\d+ (Killed|Terminated)\b|^Prisma schema loaded from/;
/** A warning has several lines. */
const CHUNK = /^(?=\(node:\d+\) \[|exit code \d)/m;
/** How long a page may let its reader wait. */
const PATIENCE_MS = 90_000;

export class Terminal {
  readonly #child: Child;
  readonly #folder: string;
  #blocks = 0;
  #read = 0;
  #hasJobs = false;

  constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder;
    this.#child = new Child("bash", [], { cwd: folder, env });
    // The channel is for programs that this process starts itself.
    this.#child.say("unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE");
    // A reader would see it.
    this.#child.say(`trap 'echo "exit code $?: $BASH_COMMAND" >&2' ERR; set -E`);
  }

  /**
   * Runs the commands of a block, and waits until they have printed what the page shows. Jobs in the background may
   * print it later than the commands end.
   * @param toPage turns what is printed here into what the page has, such as the names of servers
   * @throws if they print anything else
   */
  async run(
    code: string,
    shown: string | null,
    anyOrder: boolean,
    toPage: (line: string) => string,
  ): Promise<Pair[]> {
    const end = await this.#start(code);
    this.#hasJobs ||= /&\s*$/m.test(code);
    const expected = shown === null ? null : shown.replace(/\n$/, "").split("\n");
    const printed = () =>
      this.#child.out
        .slice(this.#read)
        // The last line may have no end of its own, as that of curl.
        .flatMap((line) => (line.endsWith(end) ? line.slice(0, -end.length) || [] : line))
        .map(toPage);
    // On both: what was printed before on one may be read after what was printed on the other.
    const hasEnded = () =>
      this.#child.out.slice(this.#read).some((line) => line.endsWith(end)) &&
      this.#child.err.some((line) => line.endsWith(end));
    let pairs: Pair[] | null = null;
    const settled = this.#child.until(() => {
      if (!hasEnded()) return false;
      pairs = expected === null ? [] : compare(expected, printed(), anyOrder);
      return pairs !== null || !this.#hasJobs;
    });
    await patiently(settled, () => this.#explain(code, expected, printed()));
    if (pairs === null) throw new Error(this.#explain(code, expected, printed()));
    this.#read = this.#child.out.length;
    return pairs;
  }

  /** Runs commands that stay. */
  async stay(code: string, port: number): Promise<void> {
    await this.#start(code);
    await patiently(this.#child.listening(port), () => this.#explain(code, null, this.#child.out));
  }

  /** What was printed on stderr, apart from the warnings of which the page speaks. @throws if one of these is missing */
  complaints(warnings: readonly string[]): string {
    const lines = this.#child.err.filter((line) => !NOTICE.test(line) && !line.includes(END));
    const chunks = lines
      .join("\n")
      .split(CHUNK)
      .filter((chunk) => chunk.trim() !== "");
    const missing = warnings.filter((text) => !chunks.some((chunk) => chunk.includes(text)));
    if (missing.length > 0) throw new Error(`nothing on stderr has: ${missing.join(", ")}`);
    return chunks.filter((chunk) => !warnings.some((text) => chunk.includes(text))).join("");
  }

  async close(): Promise<void> {
    await this.#child.endGroup();
  }

  /** @returns the line that is printed when they have ended */
  async #start(code: string): Promise<string> {
    this.#blocks += 1;
    const file = join(this.#folder, `.block-${this.#blocks}.sh`);
    const end = `${END} ${this.#blocks}`;
    await writeFile(file, code);
    this.#child.say(`source ${JSON.stringify(file)} < /dev/null; echo '${end}'; echo '${end}' >&2`);
    return end;
  }

  #explain(code: string, shown: readonly string[] | null, printed: readonly string[]): string {
    const parts = [
      ["commands", code.trimEnd()],
      ["the page shows", shown?.join("\n") ?? "nothing"],
      ["printed", printed.join("\n")],
      ["stderr", this.complaints([])],
    ];
    return parts.map(([title, text]) => `${title}:\n${text}`).join("\n\n");
  }
}

async function patiently(settled: Promise<unknown>, explain: () => string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it takes too long\n\n${explain()}`)), PATIENCE_MS);
  });
  try {
    await Promise.race([settled, over]);
  } finally {
    clearTimeout(timer);
  }
}
