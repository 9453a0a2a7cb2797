/** The stories of leader election by lease, on every engine. */
import { afterAll, beforeAll } from "vitest";
import { ENGINES, type RunningEngine } from "../../verification/matrix/engines.js";
import { describeUnless, type FreshDatabase, freshDatabase } from "../support/engines/postgres.js";
import { tellStories } from "../support/engines/stories.js";
import { compile } from "../support/processes/compile.js";
import { endAll } from "../support/processes/processes.js";

let program: Awaited<ReturnType<typeof compile>>;
beforeAll(async () => {
  program = await compile(new URL("../../verification/matrix/process.ts", import.meta.url));
});
afterAll(async () => {
  await endAll();
  await program.remove();
});

const missing = await Promise.all(ENGINES.map((engine) => engine.missing()));
for (const [at, engine] of ENGINES.entries()) {
  describeUnless(missing[at] ?? null, engine.name, () => {
    let running: RunningEngine;
    let database: FreshDatabase | undefined;
    beforeAll(async () => {
      const needsDatabase = engine.name === "postgres" || engine.name === "http";
      if (needsDatabase) database = await freshDatabase();
      running = await engine.start(program.path, database?.url);
    });
    afterAll(async () => {
      await running.close();
      await database?.drop();
    });
    tellStories(() => ({ engine, running, program: program.path }));
  });
}
