/** The custom store of the examples: the whole conformance suite, and processes that are killed. */
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";
import { Cli, checkBuild, endAll } from "../support/processes/cli.js";

interface Cell {
  readonly folder: string;
  open(initial: number): Promise<void>;
  read(): Promise<{ value: number }>;
  swap(read: { value: number }, value: number): Promise<"won" | "lost" | "unknown">;
}
// Plain JavaScript, typed by the examples' own configuration; it imports what was built.
const example = async <Exports>(name: string) =>
  (await import(new URL(`../../examples/custom-store/${name}`, import.meta.url).href)) as Exports;
const { Cell } = await example<{ Cell: new (folder: string) => Cell }>("cell.js");
const { FolderStore } = await example<{
  FolderStore: { open(folder: string, nowMs: () => number): Promise<LeaseStore> };
}>("store.js");

beforeAll(checkBuild);

const folders: string[] = [];
async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-folder-"));
  folders.push(folder);
  return folder;
}
afterAll(async () => {
  await endAll();
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true })));
});

exerciseLeaseStore({
  name: "a folder",
  vitest: { afterAll, beforeAll, describe, expect, it },
  async open() {
    const folder = await newFolder();
    let nowMs = Date.UTC(2030, 0, 1);
    const now = () => nowMs;
    let store = await FolderStore.open(folder, now);
    return {
      store,
      async advance(ms) {
        nowMs += ms;
      },
      async restart() {
        // As after a crash, the previous store was not closed.
        store = await FolderStore.open(folder, now);
        return store;
      },
      close: () => store.close(),
    };
  },
});

describe("the compare-and-swap beneath it", () => {
  const opened = async () => {
    const cell = new Cell(await newFolder());
    await cell.open(0);
    return cell;
  };
  const add = async (cell: Cell) => {
    const read = await cell.read();
    expect(await cell.swap(read, read.value + 1)).toBe("won");
  };

  it("fails for a writer that was overtaken", async () => {
    const cell = await opened();
    const paused = await cell.read();
    await add(cell);
    expect(await cell.swap(paused, 100)).toBe("lost");
    expect((await cell.read()).value).toBe(1);
  });

  it("has one winner among many at once", async () => {
    const cell = await opened();
    const reads = await Promise.all(Array.from({ length: 16 }, () => cell.read()));
    const answers = await Promise.all(reads.map((read, index) => cell.swap(read, index)));
    expect(answers.filter((answer) => answer === "won")).toHaveLength(1);
    expect((await cell.read()).value).toBe(answers.indexOf("won"));
  });

  it("changes nothing and reports an unknown outcome for a writer that was overtaken many times", async () => {
    const cell = await opened();
    const paused = await cell.read();
    for (let count = 0; count < 50; count += 1) await add(cell);
    expect(await cell.swap(paused, 100)).toBe("unknown");
    expect((await cell.read()).value).toBe(50);
    await add(cell);
    expect((await cell.read()).value).toBe(51);
  });

  it("keeps few files, and none for long that a killed process has left", async () => {
    const cell = await opened();
    const [old, young] = [join(cell.folder, "draft-old"), join(cell.folder, "draft-young")];
    await Promise.all([writeFile(old, "{"), writeFile(young, "{")]);
    await utimes(old, new Date(0), new Date(0));
    for (let count = 0; count < 50; count += 1) await add(cell);
    const names = await readdir(cell.folder);
    expect(names).toContain("draft-young");
    expect(names).not.toContain("draft-old");
    expect(names.length).toBeLessThan(20);
  });

  it("loses nothing that it has confirmed when processes are killed in the middle", async () => {
    const cell = await opened();
    const script = fileURLToPath(new URL("../support/processes/cell-adder.js", import.meta.url));
    const start = () => new Cli([cell.folder, "1000000"], { script });
    const adders = [start(), start(), start()];
    for (let kills = 0; kills < 6; kills += 1) {
      const adder = adders[kills] as Cli;
      await adder.until(({ out }) => out.filter((line) => line === "won").length >= 20);
      await adder.end("SIGKILL");
      if (kills < 3) adders.push(start());
    }
    await Promise.all(adders.map(({ ended }) => ended));
    const lines = adders.flatMap(({ out }) => out);
    const confirmed = lines.filter((line) => line === "won").length;
    const unsure = lines.filter((line) => line === "unknown").length;
    const { value } = await cell.read();
    expect(value).toBeGreaterThanOrEqual(confirmed);
    // A killed process has begun one change at most that it said nothing of.
    expect(value).toBeLessThanOrEqual(confirmed + unsure + adders.length);
  });
});
