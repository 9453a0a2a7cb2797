/** What the command line does if its output cannot be written, by real processes. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { freshPglite } from "../support/engines/pglite.js";
import {
  checkBuild,
  endAll,
  leasehold,
  MAIN,
  ownEnvironment,
  type Serving,
  serve,
} from "../support/processes/cli.js";
import { Child, type Ended, temporaryFolder } from "../support/processes/processes.js";

const SLOW = { timeout: 120_000 };

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterAll(() => endAll());

const run = (...args: readonly string[]) =>
  leasehold(args, { env: { LEASEHOLD_STORE: server.url } });

/** Runs a script of sh, in which "$0" "$@" is the command line. */
function inShell(
  script: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  return new Child("sh", ["-c", script, process.execPath, MAIN, ...args], {
    input: "",
    env: { ...ownEnvironment(), LEASEHOLD_STORE: server.url, ...env },
  }).ended;
}

const toFullDisk = (...args: readonly string[]) => inShell('"$0" "$@" > /dev/full', args);

/** The command begins when the reader of its output has closed it. */
async function toClosedPipe(...args: readonly string[]): Promise<Ended> {
  const fifo = join(await temporaryFolder(), "closed");
  const script = `mkfifo "$FIFO"
    { { read -r _ < "$FIFO"; "$0" "$@"; echo "code $?" >&2; } | { exec <&-; echo > "$FIFO"; }; }`;
  const { stderr } = await inShell(script, args, { FIFO: fifo });
  const [, text = "", code] = /^([^]*?)\n?code (\d+)$/.exec(stderr) ?? [];
  return { code: Number(code), stdout: "", stderr: text };
}

it("acquire releases a lease whose id it could not print, and says so", SLOW, async () => {
  for (const json of [[], ["--json"]]) {
    const full = await toFullDisk("acquire", "unprinted", ...json);
    expect(full).toMatchObject({ code: 74, stderr: expect.stringContaining("ENOSPC") });
    const closed = await toClosedPipe("acquire", "unprinted", ...json);
    expect(closed).toMatchObject({ code: 141, stderr: expect.stringContaining("EPIPE") });
    for (const { stderr } of [full, closed]) {
      expect(stderr.split("\n")).toHaveLength(1);
      expect(stderr.replaceAll("\\", "")).toContain('"unprinted" was released');
    }
  }
  expect(await run("acquire", "unprinted")).toMatchObject({ code: 0 });
});

const COMMANDS = [
  "ls",
  "tasks",
  "keys --help",
  "--help",
  "--version",
  "completion bash",
  "pause --list --json",
  "audit list",
  "limits show",
  "watch",
  "elect unled --observe",
  "elect unprinted-election",
];

it.each(COMMANDS)("%s reports a full disk in one line", SLOW, async (words) => {
  await run("acquire", "held");
  const { code, stderr } = await toFullDisk(...words.split(" "));
  expect({ code, stderr }).toEqual({
    code: 74,
    stderr: expect.stringMatching(/^[^\n]*cannot write the output: ENOSPC[^\n]*$/),
  });
});

it.each(COMMANDS)("%s ends quietly if its reader is gone", SLOW, async (words) => {
  await run("acquire", "held");
  const { code, stderr } = await toClosedPipe(...words.split(" "));
  expect({ code, stderr }).toEqual({ code: 141, stderr: "" });
});

it("enqueue says how many tasks it has added, if it cannot print their ids", SLOW, async () => {
  const { code, stderr } = await toClosedPipe("enqueue", "unprinted");
  expect({ code, stderr }).toEqual({
    code: 141,
    stderr: expect.stringContaining("tasks added: 1"),
  });
});

it("keys create names the key whose text it could not print", SLOW, async () => {
  const { directory, remove } = await freshPglite();
  onTestFinished(remove);
  const store = ["--store", `pglite:${directory}`];
  const { code, stderr } = await toFullDisk(
    "keys",
    "create",
    "--name",
    "x",
    "--role",
    "admin",
    ...store,
  );
  const [, id] = /: key (\S+) was created, and its text is lost/.exec(stderr) ?? [];
  const { stdout } = await run("keys", "list", "--json", ...store);
  expect({ code, keys: JSON.parse(stdout) as unknown }).toMatchObject({ code: 74, keys: [{ id }] });
});

it("a warning that cannot be written fails no command", SLOW, async () => {
  expect(await inShell('"$0" "$@" 2> /dev/full', ["enqueue", "k", "-"])).toMatchObject({ code: 0 });
});
