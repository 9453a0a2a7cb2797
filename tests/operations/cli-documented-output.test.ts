/** What docs/cli.md says of the output of commands, where no other test holds it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  checkBuild,
  leasehold,
  MAIN,
  ownEnvironment,
  type Serving,
  serve,
} from "../support/cli.js";
import { Child, endAll } from "../support/processes.js";

const SLOW = { timeout: 120_000 };

let server: Serving;
let env: Record<string, string>;
beforeAll(async () => {
  checkBuild();
  server = await serve();
  env = { LEASEHOLD_STORE: server.url };
}, SLOW.timeout);
afterAll(() => endAll());

describe("a command's own exit code", SLOW, () => {
  const ended = (code: number) => ["--", "sh", "-c", `exit ${code}`];

  it.each([64, 75, 76])("%i is reported by run and elect", async (code) => {
    const text = `leasehold: the command itself ended with exit code ${code}`;
    for (const command of ["run", "elect"]) {
      const { stderr, ...rest } = await leasehold([command, `own-${code}`, ...ended(code)], {
        env,
      });
      expect([rest.code, stderr.split("\n")]).toEqual([code, expect.arrayContaining([text])]);
    }
  });

  it("is an event with --json", async () => {
    const { stderr } = await leasehold(["run", "own", "--json", ...ended(75)], { env });
    const lines = stderr.split("\n").map((line) => JSON.parse(line) as { event: string });
    expect(lines.map(({ event }) => event)).toEqual(["acquired", "exited"]);
    expect(lines[1]).toMatchObject({ exitCode: 75, message: expect.stringContaining("75") });
  });

  it("is not reported where it is no code of run", async () => {
    const { code, stderr } = await leasehold(["run", "own", ...ended(7)], { env });
    expect([code, stderr]).toEqual([7, ""]);
  });

  it("is named by once, whichever it is", async () => {
    const { code, stderr } = await leasehold(["once", "own", ...ended(75)], { env });
    expect(code).toBe(75);
    expect(stderr).toBe('leasehold: "own" is not done: the command ended with exit code 75');
  });
});

it("a stdout that was closed before the start is not noticed", SLOW, async () => {
  const args = ["-c", '"$0" "$@" >&-', process.execPath, MAIN, "ls", "--store", server.url];
  const { code } = await new Child("sh", args, { input: "", env: ownEnvironment() }).ended;
  expect(code).toBe(0);
});

it("text that is no terminal's has no colours", SLOW, async () => {
  const acquired = await leasehold(["acquire", "plain"], { env });
  const listed = await leasehold(["ls"], { env });
  const refused = await leasehold(["acquire", "plain"], { env });
  expect(refused.code).toBe(75);
  for (const { stdout, stderr } of [acquired, listed, refused]) {
    expect(stdout + stderr).not.toContain("\u001b");
  }
});
