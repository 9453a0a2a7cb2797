/** Nothing that a store contains reaches a terminal as a control or an invisible character. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStores } from "../../packages/leasehold/src/index.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import { freshPglite } from "../support/engines/pglite.js";
import { Cli, checkBuild, endAll, leasehold } from "../support/processes/cli.js";

const SLOW = { timeout: 120_000 };

/** Sets the title, clears the screen, forges a line, C1, bidirectional text, without width, tags. */
const BAD =
  "\u001b]0;x\u0007\u001b[2J\u001b[8m\r\nFORGED \u009b2J\u0085\u202e\u2066\u200f\u061c\u200b\u2060\ufeff\u2028\u{e0041}end";
const TASK_ID = "01890000-0000-7000-8000-000000000001";
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function expectSafe(text: string): void {
  const hidden = text.match(HIDDEN) ?? [];
  expect(hidden.filter((character) => character !== "\n" && character !== "\t")).toEqual([]);
  expect(text).not.toMatch(/^FORGED/m);
}

let url: string;
let server: Cli;
let removeStore: () => Promise<void>;

/** By the stores themselves: what stands before them refuses such names for something new. */
async function fill(store: string): Promise<void> {
  const { leases, tasks, close } = await openStores(store);
  const key = { namespace: "default", resource: `held ${BAD}` };
  const holder = `holder ${BAD}`;
  const metadata = JSON.stringify({ note: `metadata ${BAD}` });
  for (const digit of ["1", "2"]) {
    const leaseId = digit.repeat(48);
    await leases.acquire([{ ...key, leaseId, holder, ttlMs: 600_000, metadata }]);
    if (digit === "1") await leases.release([{ ...key, leaseId }]);
  }
  const watched = { namespace: "default", resource: "watched", leaseId: "4".repeat(48) };
  await leases.acquire([{ ...watched, holder, ttlMs: 600_000 }]);
  const named = { kind: `kind ${BAD}`, queue: "default", data: { text: BAD } };
  const add = (id: string) => tasks.enqueue([newTaskOf({ namespace: "default", id }, named)]);
  await add(TASK_ID);
  const claimed = await tasks.claim({
    namespace: "default",
    claimId: "3".repeat(48),
    holder,
    queues: ["default"],
    kinds: null,
    limit: 1,
    ttlMs: 600_000,
  });
  if (claimed.status === "failed") throw claimed.error;
  const failures = claimed.tasks.map(({ id, leaseId, token }) => ({
    namespace: "default",
    id,
    leaseId,
    token,
    error: `error ${BAD}`,
    retryInMs: null,
    final: true,
  }));
  expect(await tasks.fail(failures)).toMatchObject([{ status: "recorded", state: "dead" }]);
  await add(TASK_ID.replace(/.$/, "2"));
  await close();
}
beforeAll(async () => {
  checkBuild();
  const { directory, remove } = await freshPglite();
  removeStore = remove;
  await fill(`pglite:${directory}`);
  server = new Cli([
    "serve",
    "--port",
    "0",
    "--store",
    `pglite:${directory}`,
    "--log-level",
    "debug",
  ]);
  url = await server.until(({ err }) =>
    err.map((line) => (JSON.parse(line) as { url?: string }).url).find(Boolean),
  );
}, SLOW.timeout);
afterAll(async () => {
  await endAll();
  await removeStore?.();
});

const run = (...args: readonly string[]) => leasehold(args, { env: { LEASEHOLD_STORE: url } });

const name = `held ${BAD}`;
/** A server takes no control characters in the name of an actor. */
const reason = ["--reason", `reason ${BAD}`, "--actor", `actor ${BAD.replace(/\p{Cc}/gu, "")}`];
/** In this order: each of the first ones leaves something for the others to show. */
const COMMANDS: readonly (readonly string[])[] = [
  ["pause", name, ...reason],
  ["pause", "--prefix", `held ${BAD}`, ...reason],
  ["pause", "--queue", `queue ${BAD}`, ...reason],
  ["pause", "--list"],
  ["ls"],
  ["ls", "--owner", `holder ${BAD}`],
  ["show", name],
  ["show", `missing ${BAD}`],
  ["why", name],
  ["acquire", name, "--holder", `other ${BAD}`],
  ["run", name, "--wait", "0", "--", "true"],
  ["tasks"],
  ["tasks", "--state", "dead"],
  ["tasks", "show"],
  ["tasks", "retry", `id ${BAD}`, ...reason],
  ["enqueue", "kind", `{"bad ${BAD}`],
  ["audit", "list"],
  ["audit", "list", "--action", BAD],
  ["keys", "list"],
  ["limits", "show"],
  ["doctor", "--for", "100ms", "--samples", "2"],
  ["generate", "status"],
  ["revoke", name, ...reason],
  ["revoke", name, ...reason],
  ["resume", name, ...reason],
  ["resume", "--prefix", `held ${BAD}`, ...reason],
  ["resume", "--queue", `queue ${BAD}`, ...reason],
  ["ls", "--state", "any"],
  [`--${BAD}`],
  [BAD],
];

describe("names with control and invisible characters", () => {
  it.each(COMMANDS.map((command) => ({ command, words: JSON.stringify(command) })))(
    "$words",
    SLOW,
    async ({ command: [first = "", ...rest] }) => {
      const command = first === "tasks" && rest[0] === "show" ? [first, TASK_ID] : [first, ...rest];
      for (const json of [[], ["--json"]]) {
        const at = command.indexOf("--");
        const end = at < 0 ? command.length : at;
        const given = [...command.slice(0, end), ...json, ...command.slice(end)];
        const { code, stdout, stderr } = await run(...given);
        expect(stdout + stderr).not.toBe("");
        if (first === "pause" || first === "resume") expect(code).toBe(0);
        if (first !== "acquire" || json.length > 0) expectSafe(stdout);
        expectSafe(stderr);
      }
    },
  );

  it.each([
    ["watch", "watched"],
    ["elect", "watched", "--observe"],
  ])("%s %s", SLOW, async (...command) => {
    for (const json of [[], ["--json"]]) {
      const watching = new Cli([...command, "--store", url, ...json]);
      await watching.until(({ out }) => out.find((line) => line.includes("holder")));
      watching.kill("SIGTERM");
      const { stdout, stderr } = await watching.ended;
      expectSafe(stdout);
      expectSafe(stderr);
    }
  });

  it("keep their value in JSON", SLOW, async () => {
    const { stdout } = await run("ls", "watched", "--json");
    const { items } = JSON.parse(stdout) as { items: { holder: string }[] };
    expect(new Set(items.map(({ holder }) => holder))).toEqual(new Set([`holder ${BAD}`]));
  });

  it("the log of the server", SLOW, async () => {
    server.kill("SIGTERM");
    const { stdout, stderr } = await server.ended;
    expectSafe(stdout);
    expectSafe(stderr);
    expect(stderr).toContain("\\u202e");
  });
});
