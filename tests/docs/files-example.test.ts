/** The file-work example on real files: its outputs are those of the system's own tools. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { connect, type Tasks } from "../../packages/leasehold/src/index.js";
import type { TaskView } from "../../packages/leasehold/src/tasks/index.js";
import { Cli, checkBuild, endAll, serve } from "../support/processes/cli.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const missing = await run("sha256sum", ["--zero", "--version"]).then(
  () => null,
  () => "no GNU sha256sum here",
);

let folder: string;
let paths: string[];
beforeAll(async () => {
  checkBuild();
  folder = await mkdtemp(join(tmpdir(), "leasehold files "));
  await writeOddFiles(folder);
  // Real files: the sources of this project.
  const sources = await readdir(join(root, "packages/leasehold/src"), {
    recursive: true,
    encoding: "utf8",
  });
  for (const source of sources.filter((path) => path.endsWith(".ts"))) {
    const copy = join(folder, "src", source);
    await mkdir(join(copy, ".."), { recursive: true });
    await run("cp", [join(root, "packages/leasehold/src", source), copy]);
  }
  const all = await readdir(folder, { recursive: true, withFileTypes: true });
  paths = all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
});
afterAll(async () => {
  await endAll();
  await rm(folder, { recursive: true, force: true });
});

async function writeOddFiles(into: string): Promise<void> {
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const contents: Record<string, string | Buffer> = {
    empty: "",
    "one newline": "\n",
    "no newline at the end": "one\ntwo",
    "windows\tlines.txt": "one\r\ntwo\r\n",
    "old mac": "one\rtwo\r",
    "ünïcödé – 文件 🗂️.txt": "zeile\n",
    "new\nline in the name": "x\n",
    "quotes ' \" ` $HOME \\ * ?": "y\n",
    "-n": "dash\n",
    binary: Buffer.concat(Array.from({ length: 4_096 }, () => everyByte)),
    "only newlines": Buffer.alloc(300_000, 10),
    // A name of 250 bytes in a deep folder: the path is longer than a dedupe key can be.
    [`${"deep/".repeat(20)}${"n".repeat(250)}`]: "deep\n",
  };
  for (let index = 0; index < 200; index += 1) {
    contents[`many/file ${index}`] = `${"line\n".repeat(index % 17)}${index}`;
  }
  for (const [name, content] of Object.entries(contents)) {
    const path = join(into, name);
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, content);
  }
  await symlink("empty", join(into, "a link, which is no file"));
}

/** By path: what sha256sum, wc -l and stat say. */
async function expected(): Promise<Map<string, object>> {
  const options = { maxBuffer: 64 * 1024 * 1024 };
  const sums = await run("sha256sum", ["--zero", "--", ...paths], options);
  // From stdin, so that wc prints the number alone.
  const script = 'for path; do wc -l < "$path"; done';
  const lines = await run("sh", ["-c", script, "sh", ...paths], options);
  const counts = lines.stdout.trim().split(/\s+/);
  const map = new Map<string, object>();
  for (const [index, sum] of sums.stdout.split("\0").slice(0, -1).entries()) {
    const [sha256, path] = [sum.slice(0, 64), sum.slice(66)];
    const { size } = await stat(path);
    map.set(path, { path, sha256, lines: Number(counts[index]), bytes: size });
  }
  return map;
}

async function allTasks(tasks: Tasks): Promise<TaskView[]> {
  const found: TaskView[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await tasks.list({ kind: "file.digest", limit: 200, ...(cursor && { cursor }) });
    found.push(...page.items);
    cursor = page.nextCursor;
  }
  return found;
}

it.skipIf(missing !== null)(
  `equals sha256sum and wc -l${missing === null ? "" : ` (skipped: ${missing})`}`,
  { timeout: 180_000 },
  async () => {
    const { url } = await serve();
    const script = join(root, "examples/files-enqueue.js");
    const enqueue = (...args: string[]) =>
      new Cli([folder, "--store", url, ...args], { script }).ended;
    expect(paths.length).toBeGreaterThan(300);
    const added = await enqueue();
    expect(added).toMatchObject({ code: 0, stderr: "" });
    expect(added.stdout).toBe(`${paths.length} files enqueued, 0 were in the queue already`);
    const again = await enqueue();
    expect(again.stdout).toBe(`0 files enqueued, ${paths.length} were in the queue already`);

    const handlers = join(root, "examples/files.js");
    for (const holder of ["one", "two"]) {
      void new Cli(["worker", "--store", url, "--handlers", handlers, "--holder", holder]);
    }
    await using tasksClient = await connect(url);
    const tasks = tasksClient.tasks;
    await vi.waitFor(async () => expect((await tasks.counts()).done).toBe(paths.length), {
      timeout: 120_000,
      interval: 100,
    });
    const found = await allTasks(tasks);
    const outputs = new Map(found.map(({ output }) => [(output as { path: string }).path, output]));
    expect(found).toHaveLength(paths.length);
    const shown = (map: ReadonlyMap<string, unknown>) =>
      [...map].map(([path, value]) => [relative(folder, path), value]).sort();
    expect(shown(outputs)).toEqual(shown(await expected()));
  },
);
