/** Without --ttl, every command that takes one asks the store for what it allows. */
import { connect, defineTask } from "leasehold";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli, checkBuild, leasehold, type Serving, serve } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";

const TIMEOUT_MS = 120_000;

// The usual 30 s are longer than the first server allows, and shorter than the second; so are the 5 s of the generator there.
describe.each([
  ["longestTtlMs=20000", { above: 0, upTo: 20_000 }],
  ["shortestTtlMs=60000", { above: 30_000, upTo: 60_000 }],
])("on a server with --limits %s", (limits, { above, upTo }) => {
  let server: Serving;
  beforeAll(async () => {
    checkBuild();
    server = await serve("memory:", ["--limits", limits]);
  }, TIMEOUT_MS);
  afterAll(() => endAll());

  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: server.url } });

  it.each([
    ["run", "r"],
    ["once", "k"],
    ["elect", "e"],
  ])(
    "%s runs its command",
    async (command, name) => {
      const ended = await run(command, name, "--", "echo", "ran");
      expect(ended).toMatchObject({ code: 0, stdout: "ran" });
    },
    TIMEOUT_MS,
  );

  it(
    "acquire and renew print a lease",
    async () => {
      const acquired = await run("acquire", "a", "--json");
      const { leaseId, remainingMs } = JSON.parse(acquired.stdout) as {
        leaseId: string;
        remainingMs: number;
      };
      expect(remainingMs).toBeGreaterThan(above);
      expect(remainingMs).toBeLessThanOrEqual(upTo);
      const renewed = await run("renew", leaseId);
      expect([renewed.code, renewed.stderr]).toEqual([0, ""]);
    },
    TIMEOUT_MS,
  );

  it(
    "worker works on a task, and generate becomes ready",
    async () => {
      await run("enqueue", "sleep", '{"sleep_duration_seconds":0.01}');
      const worked = await run("worker", "--once", "--handlers", "examples/sleep.js");
      expect([worked.code, worked.stderr]).toEqual([0, expect.stringContaining('"draining"')]);
      const generate = new Cli(["generate"], { env: { LEASEHOLD_STORE: server.url } });
      await generate.until(({ err }) => err.some((line) => line.includes("ready to generate")));
      generate.kill("SIGTERM");
      expect((await generate.ended).code).toBe(0);
    },
    TIMEOUT_MS,
  );

  it(
    "the library's once, run and work do",
    async () => {
      const client = await connect(server.url);
      expect(await client.once("library", () => "done")).toMatchObject({ ran: true });
      expect(await client.run("library", () => "done")).toBe("done");
      const mail = defineTask<string>("mail");
      const task = await client.tasks.enqueue(mail, "ada");
      const sent = await new Promise((resolve) => {
        client.tasks.work([mail.handle((_, { task }) => resolve(task.id))]);
      });
      expect(sent).toBe(task.id);
      await client.close();
    },
    TIMEOUT_MS,
  );
});
