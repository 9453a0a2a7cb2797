import { existsSync } from "node:fs";
import { afterEach, expect, it } from "vitest";
import { freePort } from "../engines/free-port.js";
import { compile } from "./compile.js";
import { Child, endAll, isAlive, stateOf, temporaryFolder } from "./processes.js";

afterEach(() => endAll());

const node = (script: string, ...args: string[]) =>
  new Child(process.execPath, ["-e", script, ...args]);
/** Starts another one, says its pid, and stays. */
const PARENT = `const { spawn } = require("node:child_process");
  console.log(spawn("sleep", ["1000"]).pid)`;

it("waits for what a process prints and for its port, stops and continues it", async () => {
  const port = await freePort();
  const script = `process.stdin.on("data", (said) => console.log("heard " + said));
    require("node:net").createServer().listen(process.argv[1], "127.0.0.1")`;
  const child = node(script, `${port}`);
  await child.listening(port);
  await child.stop();
  expect(await stateOf(child.pid)).toBe("T");
  child.say("this");
  child.cont();
  await child.until(({ out }) => out.includes("heard this"));
  expect((await child.end("SIGTERM")).code).toBe("SIGTERM");
});

it("says what a process printed that has ended before it was ready", async () => {
  const child = node(`console.error("no disk"); process.exit(3)`);
  await expect(child.listening(await freePort())).rejects.toThrow("no disk");
  await expect(child.until(() => false)).rejects.toThrow("no disk");
  expect(await child.ended).toMatchObject({ code: 3, stderr: "no disk" });
  await expect(new Child("/no/such/program", []).until(() => false)).rejects.toThrow("ENOENT");
});

it("ends processes, their children, those that are stopped, and their folders", async () => {
  const folder = await temporaryFolder();
  const [first, second] = [node(PARENT), node(PARENT)];
  const pids: number[] = [first.pid, second.pid];
  for (const child of [first, second]) pids.push(await child.until(({ out }) => Number(out[0])));
  await first.stop();
  await endAll(second);
  expect(await Promise.all(pids.map(isAlive))).toEqual([false, true, false, true]);
  expect(existsSync(folder)).toBe(false);
  await endAll();
  expect(await Promise.all(pids.map(isAlive))).toEqual([false, false, false, false]);
});

it("ends them when the process that started them is killed", async () => {
  const program = await compile(new URL("./start-and-idle.ts", import.meta.url));
  try {
    const child = new Child(process.execPath, [program.path]);
    const pid = await child.until(({ out }) => Number(out[0]));
    expect(await stateOf(pid)).toBe("T");
    await child.end("SIGKILL");
    while (await isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 10));
  } finally {
    await program.remove();
  }
});
