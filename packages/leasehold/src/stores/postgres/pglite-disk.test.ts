import fs from "node:fs";
import { readdir } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { freshPglite } from "../../../../../tests/support/engines/pglite.js";
import { type Clock, newLeaseId, systemEnv } from "../../env/index.js";
import { openPostgres } from "./index.js";

/** As docs/guarantees.md and docs/errors.md promise. */
const RESERVE_BYTES = 64 * 1024 * 1024;

let directory: string;
let remove: () => Promise<void>;

beforeEach(async () => {
  ({ directory, remove } = await freshPglite());
});
afterEach(async () => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  await remove();
});

/** Sets the free space of every file system. */
function leave(bytes: number, blocks = 1_000_000): void {
  const stats = { bavail: Math.floor(bytes / 4_096), bsize: 4_096, blocks };
  vi.spyOn(fs, "statfsSync").mockReturnValue(stats as fs.StatsFs);
  syncBuiltinESMExports();
}

it("below the reserve, only renewals and releases write, and what is stored can be read", async () => {
  const { leases, close } = await openPostgres({ directory }, systemEnv);
  const acquire = async (resource: string) => {
    const grant = { namespace: "n", resource, leaseId: newLeaseId(systemEnv.random) };
    const [outcome] = await leases.acquire([{ ...grant, holder: "h", ttlMs: 60_000 }]);
    return { grant, outcome };
  };
  const held = await acquire("held");
  expect(held.outcome).toMatchObject({ status: "acquired" });
  leave(RESERVE_BYTES - 4_096);
  const message = expect.stringMatching(/less than 64 MiB of free disk space.*: try again$/);
  expect((await acquire("other")).outcome).toMatchObject({
    status: "failed",
    applied: "no",
    error: { code: "STORE_UNAVAILABLE", message },
  });
  expect(await leases.get([held.grant])).toMatchObject([{ state: "live" }]);
  const [renewed] = await leases.renew([{ ...held.grant, ttlMs: 60_000 }]);
  expect(renewed).toMatchObject({ status: "renewed" });
  expect(await leases.release([held.grant])).toMatchObject([{ status: "released" }]);
  leave(RESERVE_BYTES);
  expect((await acquire("other")).outcome).toMatchObject({ status: "acquired" });
  await close();
});

it("does not open a database below the reserve", async () => {
  leave(RESERVE_BYTES - 4_096);
  await expect(openPostgres({ directory }, systemEnv)).rejects.toMatchObject({
    code: "STORE_MISCONFIGURED",
    message: expect.stringContaining(
      "needs 64 MiB of free disk space, but its disk has 63 MiB left",
    ),
  });
  // Its file system does not say how large it is.
  leave(0, 0);
  await (await openPostgres({ directory }, systemEnv)).close();
});

it("uses the files of its log again", async () => {
  let nowMs = 0;
  const clock: Clock = { ...systemEnv.clock, monotonic: () => (nowMs += 1_000) };
  const { connections, close } = await openPostgres({ directory }, { ...systemEnv, clock });
  const { general } = connections.backend;
  await general.query("CREATE TABLE t (n int)");
  for (let n = 0; n < 20; n += 1) {
    await general.query("INSERT INTO t VALUES ($1)", [n]);
    // Begins the next file, of 16 MB.
    await general.query("SELECT pg_switch_wal()");
  }
  const files = (await readdir(join(directory, "pg_wal"))).filter((name) =>
    /^[0-9A-F]+$/.test(name),
  );
  expect(files.length).toBeLessThanOrEqual(7);
  await close();
});
