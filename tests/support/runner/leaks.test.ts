/** The guard against leaks in test files, held by files that leak: each in a run of its own. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { describePostgres, freshDatabase } from "../engines/postgres.js";
import { ownEnvironment } from "../processes/cli.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Each run starts a runner and waits for what does not settle. */
vi.setConfig({ testTimeout: 120_000 });

/** By file: what fails it, or null. */
type Verdicts = Readonly<Record<string, string | null>>;

interface JsonReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

async function verdicts(files: readonly string[], url = ""): Promise<Verdicts> {
  const config = join(root, "tests/support/runner/leaking/vitest.config.ts");
  const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--config", config, ...files];
  const env = { ...ownEnvironment(), LEAKING_URL: url };
  const report = await new Promise<string>((resolve) => {
    execFile(process.execPath, args, { env }, (_, stdout) => resolve(stdout));
  });
  return Object.fromEntries(
    (JSON.parse(report) as JsonReport).testResults.map(({ name, status, message, ...rest }) => {
      expect(rest.assertionResults).toMatchObject([{ status: "passed" }]);
      const [, file = ""] = /(\w+)\.leaks\.ts$/.exec(name) ?? [];
      return [file, status === "passed" ? null : message];
    }),
  );
}

it("fails files that leave timers, servers, processes, watchers, handlers of signals or mocks, and no others", async () => {
  const files = ["timer", "server", "process", "watcher", "signal", "mock", "nothing"];
  expect(await verdicts(files)).toEqual({
    timer: "left behind: timers that hold the process open: 1",
    server: expect.stringMatching(/^left behind: tcp at \S+:\d+$/),
    process: expect.stringMatching(/^left behind: process \d+$/),
    watcher: expect.stringMatching(/^left behind: watcher of .*leaking$/),
    signal: "left behind: handlers of signals: 1",
    mock: "left behind: timers of a mock: call vi.useRealTimers()",
    nothing: null,
  });
});

describePostgres("on a PostgreSQL server", () => {
  it("fails files that leave a connection or a client, idle as it may be", async () => {
    const database = await freshDatabase();
    try {
      const { port } = new URL(database.url);
      const open = expect.stringMatching(new RegExp(`^left behind: tcp from \\S+ to \\S+:${port}`));
      expect(await verdicts(["connection", "client"], database.url)).toEqual({
        connection: open,
        client: open,
      });
    } finally {
      await database.drop();
    }
  });
});
