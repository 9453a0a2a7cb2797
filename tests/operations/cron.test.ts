/** The recipes of docs/cron.md, as they stand there: real processes on PostgreSQL, in place of pods and machines. */
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { parse } from "yaml";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { checkBuild, MAIN, ownEnvironment } from "../support/processes/cli.js";
import { Child, endAll, temporaryFolder } from "../support/processes/processes.js";

const page = await readFile(fileURLToPath(new URL("../../docs/cron.md", import.meta.url)), "utf8");
const blockAfter = (start: string) =>
  new RegExp(`^\`\`\`\\w+\\n${start}([^]*?)^\`\`\`$`, "m").exec(page)?.[1] ?? "";

interface CronJob {
  spec: { jobTemplate: { spec: { template: { spec: { containers: { command: string[] }[] } } } } };
}
const [container] = (parse(blockAfter("# cronjob.yaml\n")) as CronJob).spec.jobTemplate.spec
  .template.spec.containers;
const OVERLAP = container?.command.at(-1) ?? "";
/** As systemd reads it. */
const TIMER = (/^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(blockAfter("# report.service\n"))?.[1] ?? "")
  .replaceAll("$$", "$")
  .replaceAll("%%", "%");
const DEPLOY = blockAfter("(?=leasehold once)").trim();
const TIMEOUT_MS = 180_000;

describePostgres("docs/cron.md", () => {
  let database: FreshDatabase;
  let folder: string;
  beforeAll(checkBuild);
  beforeEach(async () => {
    database = await freshDatabase();
    folder = await temporaryFolder();
    await mkdir(join(folder, "bin"));
    await script("bin/leasehold", `exec "${process.execPath}" "${MAIN}" "$@"`);
  });
  afterEach(async () => {
    await endAll();
    await database.drop();
  });
  afterAll(() => endAll());

  async function script(name: string, code: string): Promise<void> {
    await writeFile(join(folder, name), `#!/bin/sh\n${code}\n`);
    await chmod(join(folder, name), 0o755);
  }
  const start = (command: string, env: Readonly<Record<string, string>> = {}) =>
    new Child("/bin/sh", ["-c", command], {
      cwd: folder,
      input: "",
      env: {
        ...ownEnvironment(),
        PATH: `${join(folder, "bin")}:${process.env.PATH}`,
        LEASEHOLD_STORE: database.url,
        ...env,
      },
    });
  const log = async () =>
    (await readFile(join(folder, "log"), "utf8").catch(() => "")).split("\n").filter(Boolean);
  const logged = (line: string) =>
    until(expect, `${line} is logged`, async () => (await log()).includes(line));
  const allow = (what: string) => writeFile(join(folder, what), "");

  it(
    "leaves out a run that would overlap, and passes the exit code on",
    async () => {
      await script(
        "report.sh",
        'echo "$POD" >> log; while [ ! -e go ]; do sleep 0.05; done; exit 3',
      );
      const first = start(OVERLAP, { POD: "first" });
      await logged("first");
      const second = await start(OVERLAP, { POD: "second" }).ended;
      expect(second).toMatchObject({ code: 0, stdout: "" });
      await allow("go");
      expect((await first.ended).code).toBe(3);
      expect((await start(OVERLAP, { POD: "third" }).ended).code).toBe(3);
      expect(await log()).toEqual(["first", "third"]);
    },
    TIMEOUT_MS,
  );

  it(
    "succeeds once a day on three machines, though the first machine fails",
    async () => {
      await script("bin/date", '[ "$*" = "-u +%F" ] && echo "$DAY"');
      await script(
        "report.sh",
        'echo "$MACHINE begins" >> log; [ -e failed ] || { touch failed; exit 1; }; echo "$DAY done" >> log',
      );
      const all = (DAY: string) =>
        Promise.all(["a", "b", "c"].map((MACHINE) => start(TIMER, { MACHINE, DAY }).ended));
      const codes = (await all("2026-11-25")).map(({ code }) => code);
      expect(codes.sort()).toEqual([0, 0, 1]);
      const [failed, succeeded, ...rest] = await log();
      expect([failed?.slice(1), succeeded?.slice(1), rest]).toEqual([
        " begins",
        " begins",
        ["2026-11-25 done"],
      ]);
      // A machine that was off comes back, and then the next day begins.
      const late = await start(TIMER, { MACHINE: "c", DAY: "2026-11-25" }).ended;
      expect(late).toMatchObject({ code: 0, stderr: expect.stringContaining("was done by") });
      await all("2026-11-26");
      expect((await log()).filter((line) => line.endsWith("done"))).toEqual([
        "2026-11-25 done",
        "2026-11-26 done",
      ]);
    },
    TIMEOUT_MS,
  );

  it(
    "migrates in one of ten pods, and starts all of them after it",
    async () => {
      await script(
        "migrate.sh",
        "echo migrating >> log; while [ ! -e go ]; do sleep 0.05; done; echo migrated >> log",
      );
      await script("server.sh", "echo started >> log");
      const pods = Array.from({ length: 10 }, () => start(DEPLOY, { RELEASE: "1.4.0" }));
      await logged("migrating");
      await allow("go");
      const codes = (await Promise.all(pods.map(({ ended }) => ended))).map(({ code }) => code);
      expect(codes).toEqual(Array.from({ length: 10 }, () => 0));
      const started = Array.from({ length: 10 }, () => "started");
      expect(await log()).toEqual(["migrating", "migrated", ...started]);
      await start(DEPLOY, { RELEASE: "1.5.0" }).ended;
      expect((await log()).slice(-3)).toEqual(["migrating", "migrated", "started"]);
    },
    TIMEOUT_MS,
  );

  it(
    "starts no pod after a migration that fails three times",
    async () => {
      await script("migrate.sh", "echo migrating >> log; exit 2");
      await script("server.sh", "echo started >> log");
      const deploy = () => start(DEPLOY, { RELEASE: "1.4.0" }).ended;
      const codes: unknown[] = [];
      for (let pod = 0; pod < 4; pod += 1) codes.push((await deploy()).code);
      expect(await log()).toEqual(["migrating", "migrating", "migrating"]);
      expect(codes.at(-1)).toBe(1);
    },
    TIMEOUT_MS,
  );
});
