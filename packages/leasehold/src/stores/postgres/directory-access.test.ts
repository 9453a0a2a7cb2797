import { chmod, mkdir, mkdtemp, readdir, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemEnv } from "../../env/index.js";
import { openStores } from "../open.js";
import { lockDirectory } from "./directory-lock.js";

/** The modes of everything in the directory, its own as ".". */
async function modesOf(directory: string): Promise<Map<string, number>> {
  const names = [".", ...(await readdir(directory, { recursive: true }))];
  const entries = names.map(
    async (name) => [name, (await stat(join(directory, name))).mode & 0o777] as const,
  );
  return new Map(await Promise.all(entries));
}

describe.skipIf(process.platform === "win32")("a PGlite directory", () => {
  let parent: string;
  let directory: string;
  beforeEach(async () => {
    parent = await realpath(await mkdtemp(join(tmpdir(), "leasehold-access-")));
    directory = join(parent, "below", "db");
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await rm(parent, { recursive: true });
  });

  const lock = () => lockDirectory(directory, systemEnv);

  it("is made for this user alone, with all files in it", async () => {
    const before = process.umask(0);
    try {
      const stores = await openStores(`pglite:${directory}`, undefined, systemEnv, 60_000);
      const modes = await modesOf(directory);
      await stores.close();
      expect(modes.get("PG_VERSION")).toBe(0o600);
      const open = [...modes].filter(([, mode]) => (mode & 0o077) !== 0);
      expect(open).toEqual([]);
    } finally {
      process.umask(before);
    }
  });

  it.each([0o000, 0o022, 0o777])("does not depend on the umask %o", async (mask) => {
    await mkdir(join(parent, "below"));
    const before = process.umask(mask);
    try {
      const locked = await lock();
      const modes = [...(await modesOf(directory)).values()];
      await locked.release();
      expect(modes.map((mode) => mode & 0o077)).toEqual(modes.map(() => 0));
      expect(modes[0]).toBe(0o700);
    } finally {
      process.umask(before);
    }
  });

  it("is taken over if it is empty", async () => {
    await mkdir(directory, { recursive: true, mode: 0o755 });
    await (await lock()).release();
    expect(await modesOf(directory)).toEqual(new Map([[".", 0o700]]));
  });

  it.each([
    [0o755, "755"],
    [0o770, "770"],
    [0o701, "701"],
  ])("is refused with the mode 0o%i, until it is changed", async (mode, shown) => {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "PG_VERSION"), "");
    await chmod(directory, mode);
    await expect(lock()).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        new RegExp(`${directory} .*\\(mode ${shown}\\).*: chmod -R go-rwx ${directory}$`),
      ),
    });
    await chmod(directory, 0o700);
    await (await lock()).release();
  });

  it("is named so that a shell understands it", async () => {
    directory = join(parent, "it's mine");
    await mkdir(directory);
    await writeFile(join(directory, "PG_VERSION"), "");
    await chmod(directory, 0o755);
    await expect(lock()).rejects.toThrow(`chmod -R go-rwx '${parent}/it'\\''s mine'`);
  });

  it("is refused if it is another user's, even an empty one", async () => {
    await mkdir(directory, { recursive: true, mode: 0o755 });
    const { uid } = await stat(directory);
    vi.spyOn(process, "geteuid").mockReturnValue(uid + 1);
    await expect(lock()).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        new RegExp(`belongs to another user \\(${uid}\\).*chown -R ${uid + 1} ${directory}$`),
      ),
    });
    expect(await modesOf(directory)).toEqual(new Map([[".", 0o755]]));
  });

  it("is not checked on Windows, which has no modes", async () => {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "PG_VERSION"), "");
    await chmod(directory, 0o755);
    const platform = Object.getOwnPropertyDescriptor(process, "platform") as PropertyDescriptor;
    Object.defineProperty(process, "platform", { ...platform, value: "win32" });
    try {
      await (await lock()).release();
    } finally {
      Object.defineProperty(process, "platform", platform);
    }
  });
});
