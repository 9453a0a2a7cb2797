/** `npm run verify`, which starts the campaigns. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const main = fileURLToPath(new URL("main.js", import.meta.url));
const run = (...args: string[]) =>
  spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });

it.each([[[]], [["--help"]]])("lists the campaigns if it is started with %j", (args) => {
  const { status, stdout } = run(...args);
  expect(stdout).toMatch(/^ {2}sim +\w/m);
  expect(stdout).toMatch(/^ {2}planted-bugs +\w/m);
  expect(status).toBe(0);
});

it("refuses an unknown campaign and names the nearest one", () => {
  const { status, stderr } = run("chaso");
  expect(stderr).toBe("error: unknown command 'chaso'\n(Did you mean chaos?)\n");
  expect(status).toBe(64);
});

it("passes on the options, and the exit code of the campaign", () => {
  const help = run("model", "--help");
  expect(help.stdout).toContain("npm run verify -- model --programs 500");
  expect(help.status).toBe(0);
  const wrong = run("spin", "NO_SUCH", "--quick");
  expect(wrong.stderr).toContain("there is no configuration or variant named NO_SUCH\n");
  expect(wrong.status).toBe(64);
});
