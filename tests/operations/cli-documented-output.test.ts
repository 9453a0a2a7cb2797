/** What docs/cli.md says of the output of commands, where no other test holds it. */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeUnless } from "../support/engines/postgres.js";
import {
  Cli,
  checkBuild,
  leasehold,
  MAIN,
  ownEnvironment,
  type Serving,
  serve,
} from "../support/processes/cli.js";
import { Child, endAll } from "../support/processes/processes.js";

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

/** Why no test can give a command a terminal; null if one can. */
function missingScript(): string | null {
  try {
    const version = execFileSync("script", ["--version"], { encoding: "utf8" });
    return version.includes("util-linux") ? null : "script is not that of util-linux";
  } catch {
    return "no script of util-linux";
  }
}

describeUnless(missingScript(), "on a terminal", () => {
  const ENTER_SCREEN = "\u001b[?1049h";
  const onTerminal = (args: readonly string[], more: Record<string, string>, input?: string) => {
    const words = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(" ");
    // Without a size, no line of a screen fits.
    const command = `stty rows 24 cols 80; exec ${words}`;
    const own = { ...ownEnvironment(), SHELL: "/bin/sh", TERM: "xterm", NO_COLOR: "", ...more };
    return new Child("script", ["-qec", command, "/dev/null"], {
      env: own,
      ...(input !== undefined && { input }),
    });
  };

  it.each([
    ["colours, as NO_COLOR is not set", "", true],
    ["none with NO_COLOR", "1", false],
  ])("text has %s", SLOW, async (_, NO_COLOR, isColored) => {
    await leasehold(["acquire", "colours"], { env });
    for (const args of [["ls"], ["doctor", "--for", "50ms", "--samples", "5"]]) {
      const { code, stdout } = await onTerminal(args, { ...env, NO_COLOR }, "").ended;
      expect(code).toBe(0);
      expect(stdout.includes("\u001b[3")).toBe(isColored);
      expect(stdout.includes("\u001b")).toBe(isColored);
    }
  });

  it("JSON has no colours", SLOW, async () => {
    const { stdout } = await onTerminal(["ls", "--json"], env, "").ended;
    expect(stdout).not.toContain("\u001b");
  });

  it.each([
    { plain: ["--plain"], first: "demo.ready url=", last: "demo.stopped" },
    { plain: [], first: ENTER_SCREEN, last: "tasks done, " },
  ])("the demo with $plain begins with $first", SLOW, async ({ plain, first, last }) => {
    const args = ["demo", ...plain, "--port", "0", "--store", "memory:x", "--workers", "1"];
    const demo = onTerminal(args, {});
    await demo.until(({ out }) => out.some((line) => line.includes(first)));
    // Ctrl-C
    demo.say("\u0003");
    const { code, stdout } = await demo.ended;
    expect([code, stdout]).toEqual([0, expect.stringContaining(last)]);
    expect(stdout.includes(ENTER_SCREEN)).toBe(plain.length === 0);
  });
});

it("the demo prints lines without a terminal", SLOW, async () => {
  const demo = new Cli(["demo", "--port", "0", "--store", "memory:x", "--workers", "1"]);
  await demo.until(({ out }) => out.find((line) => / demo\.ready url=/.test(line)));
  expect((await demo.end("SIGTERM")).stdout).toMatch(/ demo\.stopped$/);
});

describe("a process with an IPC channel", SLOW, () => {
  const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));
  const COMMANDS = [
    { args: ["serve", "--port", "0", "--store", "memory:x"], ready: '"url"' },
    { args: ["worker", "--handlers", HANDLERS], ready: '"working"' },
    { args: ["generate", "run"], ready: "ready to generate" },
    { args: ["demo", "--port", "0", "--store", "memory:x", "--workers", "1"], ready: "demo.ready" },
    { args: ["watch", "channel"], ready: "live channel" },
    { args: ["elect", "channel", "--observe"], ready: "leads" },
  ];
  beforeAll(async () => {
    await leasehold(["acquire", "channel", "--ttl", "10m"], { env });
  }, SLOW.timeout);
  const start = async ({ args, ready }: (typeof COMMANDS)[number]) => {
    const cli = new Cli(args, { env });
    await cli.until(({ out, err }) => [...out, ...err].some((line) => line.includes(ready)));
    return cli;
  };

  it.each(COMMANDS)("$args.0 drains at the message drain", async (command) => {
    const cli = await start(command);
    cli.tell("another message");
    cli.tell("drain");
    expect((await cli.ended).code).toBe(0);
  });

  it.each(COMMANDS)("$args.0 ends when it closes", async (command) => {
    const cli = await start(command);
    cli.disconnect();
    expect((await cli.ended).code).toBe(1);
  });
});

describe("the JSON lines of run", SLOW, () => {
  const parsed = (stderr: string) =>
    stderr.split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
  // The system then starts no further process: E2BIG.
  const NODE_OPTIONS = "--import data:text/javascript,process.env.TOO_LONG='x'.repeat(4e6)";

  it.each(["run", "elect"])("cannotStart, of %s, which ends with 126", async (command) => {
    const given = { env: { ...env, NODE_OPTIONS } };
    const json = await leasehold([command, `start-${command}`, "--json", "--", "true"], given);
    expect([json.code, parsed(json.stderr)]).toEqual([
      126,
      [
        expect.objectContaining({ event: "acquired" }),
        { event: "cannotStart", message: "spawn E2BIG" },
      ],
    ]);
    const text = await leasehold([command, `start-${command}`, "--", "true"], given);
    expect(text.stderr).toBe("leasehold: cannot start the command: spawn E2BIG");
  });

  it.each([
    ["with --wait", ["--wait", "10m"]],
    ["without --wait", []],
  ])("waiting, %s", async (_, wait) => {
    await leasehold(["acquire", "held", "--holder", "me", "--ttl", "10m"], { env });
    const beganMs = Date.now();
    const run = new Cli(["run", "held", "--json", ...wait, "--", "true"], { env });
    const line = await run.until(({ err }) => err[0]);
    const { until, ...fields } = JSON.parse(line) as Record<string, string>;
    expect(fields).toEqual({
      event: "waiting",
      resource: "held",
      holder: "me",
      remainingMs: expect.any(Number),
      message: expect.stringContaining('"held" is held by me'),
    });
    if (wait.length === 0) expect(until).toBeUndefined();
    else {
      const endMs = Date.parse(until ?? "");
      expect(endMs).toBeGreaterThanOrEqual(beganMs + 600_000);
      expect(endMs).toBeLessThanOrEqual(Date.now() + 600_000);
    }
    expect((await run.end("SIGTERM")).code).toBe(143);
  });

  it("warning and metrics", async () => {
    const OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:1";
    for (const command of ["run", "elect"]) {
      const args = [command, `measured-${command}`, "--metrics-port", "0", "--json", "--", "true"];
      const ran = await leasehold(args, { env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT } });
      const [first, second, ...rest] = parsed(ran.stderr);
      const url = String(first?.["url"]);
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
      expect(first).toEqual({ event: "metrics", url, message: `metrics on ${url}` });
      expect(second).toMatchObject({ event: "acquired" });
      expect(rest).not.toEqual([]);
      for (const line of rest) {
        expect(line).toEqual({
          event: "warning",
          message: expect.stringContaining("the collector"),
        });
      }
      expect(ran.code).toBe(0);
    }
  });
});

it("doctor doubts a page for --metrics that has no series of Leasehold", SLOW, async () => {
  const short = ["--for", "50ms", "--samples", "5", "--metrics", `${server.url}/healthz`];
  const text = await leasehold(["doctor", ...short], { env });
  expect(text.code).toBe(0);
  expect(text.stdout).toMatch(/has no series of Leasehold +doubtful /);
  expect(text.stdout).toMatch(/^healthy$/m);
  const wrong = await leasehold(["doctor", ...short, "--ttl", "1ms", "--json"], { env });
  expect(wrong.code).toBe(1);
  const { checks } = JSON.parse(wrong.stdout) as { checks: { what: string; verdict: string }[] };
  expect(checks).toContainEqual(expect.objectContaining({ what: "--ttl", verdict: "wrong" }));
});
