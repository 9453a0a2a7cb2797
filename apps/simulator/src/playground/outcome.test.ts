import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { encodeScript, exportTest, newScript, Playground, replay, type Script } from "./index.js";
import { LONGEST_RUN_MS } from "./script.js";

describe("an outcome", () => {
  it("summarizes the run of a script", async () => {
    const outcome = await replay(newScript("pause"), 30_000);
    expect(outcome).toEqual({
      grants: [
        { token: 1, node: "P1", ended: "expired" },
        { token: 2, node: "P3", ended: "live" },
      ],
      refused: [{ node: "P1", token: 1 }],
      letThrough: [],
      failOverMs: [expect.any(Number)],
      hash: expect.stringMatching(/^[0-9a-f]{16}$/),
    });
    const unfenced = await replay(newScript("unfenced"), 30_000);
    expect(unfenced).toMatchObject({ refused: [], letThrough: [{ node: "P1", token: 1 }] });
  });

  it("equals that of the same run by hand", async () => {
    const playground = new Playground(newScript("free", { seed: 7 }));
    await playground.runTo(6_000);
    await playground.perform({ kind: "pause", node: "P1", midWrite: true });
    await playground.runTo(25_000);
    await playground.perform({ kind: "resume", node: "P1" });
    await playground.runTo(27_000);
    const outcome = await replay(playground.script, 27_000);
    expect(outcome.hash).toBe(playground.hash);
    expect(outcome.refused).toEqual([{ node: "P1", token: 1 }]);
  });
});

describe("an exported test", () => {
  /** Loads its only test as if it were in apps/simulator/src/. */
  async function load(source: string): Promise<() => Promise<void>> {
    const folder = await mkdtemp(join(tmpdir(), "leasehold-exported-"));
    try {
      const path = join(folder, "exported.ts");
      const here = source
        .replace('import { expect, it } from "vitest";', 'import { expect } from "vitest";')
        .replace("./playground/index.js", fileURLToPath(new URL("./index.ts", import.meta.url)));
      await writeFile(path, `export let run;\nconst it = (_, test) => (run = test);\n${here}`);
      const { run } = (await import(path)) as { run: () => Promise<void> };
      return run;
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  it("passes, and fails on another outcome", async () => {
    const script: Script = {
      ...newScript("pause", { seed: 3 }),
      actions: [{ atMs: 26_000, action: { kind: "resign" } }],
    };
    const source = await exportTest(script, 30_000);
    expect(source).toContain(`decodeScript("${encodeScript(script)}")`);
    const lines = source.split("\n").map((line) => line.trim());
    expect(lines).toContain('{ token: 1, node: "P1", ended: "expired" },');
    expect(lines).toContain('{ token: 2, node: "P3", ended: "released" },');
    await (await load(source))();
    const other = await load(source.replace("token: 2", "token: 3"));
    await expect(other()).rejects.toThrow("to deeply equal");
  });
});

it("ends runs at the longest time", async () => {
  const script = newScript("free", { settings: { startsMs: [0, 60_000, 60_000, 60_000, 60_000] } });
  const playground = new Playground({
    ...script,
    settings: { ...script.settings, writeEveryMs: 10_000 },
  });
  const frame = await playground.runTo(10 * LONGEST_RUN_MS);
  expect(frame.atMs).toBe(LONGEST_RUN_MS);
  expect(frame.store).toMatchObject({ token: 1, lease: "live" });
  expect((await playground.step()).atMs).toBe(LONGEST_RUN_MS);
  expect(playground.peek(LONGEST_RUN_MS)?.atMs).toBe(LONGEST_RUN_MS);
});
