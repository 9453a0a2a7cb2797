/** The suite on SQLite. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { sqlite } from "../../packages/leasehold/src/stores/sqlite/index.js";
import { exerciseLeaseStore } from "../../packages/leasehold/src/testing/index.js";

exerciseLeaseStore({
  name: "SQLite",
  vitest: { afterAll, beforeAll, describe, expect, it },
  async open() {
    const folder = await mkdtemp(join(tmpdir(), "leasehold-sqlite-"));
    const open = () => sqlite({ file: join(folder, "leases.db") }).open(systemEnv);
    let opened = await open();
    return {
      store: opened.leases,
      async restart() {
        await opened.close();
        opened = await open();
        return opened.leases;
      },
      async close() {
        await opened.close();
        await rm(folder, { recursive: true });
      },
    };
  },
});
