/** Every task store against the suite that holds all of them to the same rules. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../src/env/index.js";
import { memory } from "../src/stores/memory/index.js";
import { exerciseTaskStore, manualEnv } from "../src/testing/index.js";

const vitest = { afterAll, beforeAll, describe, expect, it };

exerciseTaskStore({
  name: "memory",
  vitest,
  async open() {
    const env = manualEnv({ seed: 12 });
    const { tasks, generator, close } = await memory().open(env);
    return { store: tasks, generator, advance: (ms) => env.clock.advance(ms), close };
  },
});

exerciseTaskStore({
  name: "memory in real time",
  vitest,
  async open() {
    const { tasks, generator, close } = await memory().open(systemEnv);
    return { store: tasks, generator, close };
  },
});
