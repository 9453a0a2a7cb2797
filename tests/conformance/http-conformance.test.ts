/** Client, HTTP and server together against what the suite of task stores says of them; http.test.ts has the leases. */
import { readFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { exerciseTaskStore } from "../../packages/leasehold/src/testing/index.js";
import { onlyTests } from "../support/chosen-tests.js";
import { openHttpHarness, openTwice } from "../support/http-harness.js";
import { lockTask } from "../support/locks.js";
import { readModule } from "../support/modules.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";
import { TASK_WIRE, TASKS_OF_SEVERAL_SERVERS } from "../support/wire-tests.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

exerciseTaskStore({
  name: "http over memory",
  vitest: onlyTests(vitest, TASK_WIRE),
  async open() {
    const { tasks, generator, close } = await openHttpHarness([await memory().open(systemEnv)]);
    return { store: tasks, generator, close };
  },
});

exerciseTaskStore({
  name: "http over PostgreSQL",
  vitest: onlyTests({ ...vitest, describe: describePostgres }, TASKS_OF_SEVERAL_SERVERS),
  async open() {
    const { url, drop } = await freshDatabase();
    const { tasks, generator, close } = await openHttpHarness(await openTwice(url));
    return {
      store: tasks,
      generator,
      lockRow: (task) => lockTask(url, task),
      async close() {
        await close();
        await drop();
      },
    };
  },
});

it("the client loads neither node nor a schema library", () => {
  const root = new URL("../../packages/leasehold/src/", import.meta.url);
  const seen = new Set<string>();
  const packages = new Set<string>();
  const visit = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const { specifier, kind } of readModule(path, readFileSync(new URL(path, root), "utf8"))
      .imports) {
      if (kind === "type" || specifier === null) continue;
      if (!specifier.startsWith(".")) packages.add(specifier);
      else visit(posix.join(dirname(path), specifier).replace(/\.js$/, ".ts"));
    }
  };
  visit("stores/http/index.ts");
  expect(seen.size).toBeGreaterThan(10);
  const hashes = ["@noble/hashes/sha2.js", "@noble/hashes/utils.js"];
  const known = [...hashes, "eventsource-parser", "tinyqueue"];
  expect([...packages].filter((name) => !known.includes(name))).toEqual([]);
});
