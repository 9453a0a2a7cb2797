import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { compile } from "../../../../../tests/support/processes/compile.js";
import { systemEnv } from "../../env/index.js";
import { lockDirectory } from "./directory-lock.js";

describe("the lock of a directory", () => {
  let program: Awaited<ReturnType<typeof compile>>;
  beforeAll(async () => {
    program = await compile(
      new URL("../../../../../tests/support/processes/hold-directory.ts", import.meta.url),
    );
  });
  afterAll(() => program?.remove());

  let directory: string;
  const children: ChildProcess[] = [];
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "leasehold-lock-"));
  });
  afterEach(async () => {
    await Promise.all(children.splice(0).map(kill9));
    await rm(directory, { recursive: true });
  });

  /** The only lock in the directory. */
  async function lockFile(): Promise<string> {
    const files = (await readdir(directory)).filter((name) => name.endsWith(".lock"));
    expect(files).toHaveLength(1);
    return files[0] ?? "";
  }

  /** Starts another process that tries to lock the directory, and returns its result. */
  async function other(): Promise<{ child: ChildProcess; said: string }> {
    const child = spawn(process.execPath, [program.path, directory], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    const said = await new Promise<string>((resolve) => {
      createInterface(child.stdout)
        .once("line", resolve)
        .once("close", () => resolve(""));
    });
    return { child, said };
  }

  async function kill9(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  it("refuses a second process, naming the first and the remedy", async () => {
    const { child, said } = await other();
    expect(said).toBe("locked");
    await expect(lockDirectory(directory, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(new RegExp(`open in process ${child.pid};.*stop it`)),
    });
  });

  it("refuses a second opener of the same process, and is free after its release", async () => {
    const lock = await lockDirectory(directory, systemEnv);
    await expect(lockDirectory(directory, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      // Not to stop that process, which is the caller's own.
      message: expect.stringMatching(
        new RegExp(`open in process ${process.pid}, which is this one: .*PGlite.create.*share it`),
      ),
    });
    await lock.release();
    const again = await lockDirectory(directory, systemEnv);
    await again.release();
    expect(await readdir(directory)).toEqual([]);
  });

  it("ignores the file of a process that was killed -9", async () => {
    const { child, said } = await other();
    expect(said).toBe("locked");
    await kill9(child);
    await lockFile();
    const lock = await lockDirectory(directory, systemEnv);
    await lockFile();
    await lock.release();
    expect(await readdir(directory)).toEqual([]);
  });

  it("does not mistake a process with a reused pid for the owner", async () => {
    const first = await lockDirectory(directory, systemEnv);
    const file = await lockFile();
    const own = JSON.parse(await readFile(join(directory, file), "utf8"));
    await first.release();
    const dead = { ...own, startedAt: "long ago" };
    const name = `leasehold-${process.pid}-0123456789abcdef.lock`;
    await writeFile(join(directory, name), JSON.stringify(dead));
    const lock = await lockDirectory(directory, systemEnv);
    expect(await readdir(directory)).not.toContain(name);
    await lock.release();
  });

  it("treats an owner with an unknown start time as alive", async () => {
    const lock = await lockDirectory(directory, systemEnv);
    const platform = Object.getOwnPropertyDescriptor(process, "platform") as PropertyDescriptor;
    // That system reports no start times of processes.
    Object.defineProperty(process, "platform", { ...platform, value: "win32" });
    try {
      await expect(lockDirectory(directory, systemEnv)).rejects.toThrow(`process ${process.pid}`);
    } finally {
      Object.defineProperty(process, "platform", platform);
    }
    await lock.release();
  });

  it("checks an owner in another container by its socket, and ignores a dead one", async () => {
    const { child, said } = await other();
    expect(said).toBe("locked");
    // Simulates another pid namespace: only the socket can identify the owner.
    const path = join(directory, await lockFile());
    const owner = JSON.parse(await readFile(path, "utf8"));
    expect(owner.listens).toBe(true);
    await writeFile(path, JSON.stringify({ ...owner, host: "elsewhere", pidNamespace: "pid:[1]" }));
    await expect(lockDirectory(directory, systemEnv)).rejects.toThrow(`process ${child.pid}`);
    child.kill("SIGSTOP");
    await expect(lockDirectory(directory, systemEnv)).rejects.toThrow(`process ${child.pid}`);
    await kill9(child);
    const lock = await lockDirectory(directory, systemEnv);
    await lock.release();
    expect(await readdir(directory)).toEqual([]);
  });

  it("cannot check a process of another machine, and names the file to delete", async () => {
    const name = "leasehold-1-0123456789abcdef.lock";
    const pidNamespace = "pid:[1]";
    for (const host of [hostname(), "elsewhere"]) {
      const foreign = { host, pidNamespace, boot: "another", listens: true };
      const owner = { pid: 1, startedAt: "long ago", ...foreign };
      await writeFile(join(directory, name), JSON.stringify(owner));
      await expect(lockDirectory(directory, systemEnv)).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(new RegExp(`another machine, "${host}".*delete .*${name}`)),
      });
    }
  });

  it("is granted to at most one of many concurrent openers, over a dead one's lock", async () => {
    await kill9((await other()).child);
    const said = await Promise.all(Array.from({ length: 6 }, async () => (await other()).said));
    expect(said.filter((what) => what === "locked")).toHaveLength(1);
    expect(said.filter((what) => what === "STORE_MISCONFIGURED")).toHaveLength(5);

    await Promise.all(children.splice(0).map(kill9));
    const attempts = Array.from({ length: 16 }, () => lockDirectory(directory, systemEnv));
    const locks = (await Promise.allSettled(attempts)).filter(
      ({ status }) => status === "fulfilled",
    );
    expect(locks.length).toBeLessThanOrEqual(1);
  });
});
