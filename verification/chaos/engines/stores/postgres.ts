/** PostgreSQL: one server, under a clock that can be set, its data on a small disk that can be filled. */
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { startPostgres } from "../../../../tests/support/engines/postgres-engine.js";
import { missingClocks, setClock } from "../../../../tests/support/processes/fake-clock.js";
import { asAdmin, type OpenedPostgres, postgresKinds } from "../faults/postgres.js";
import type { Engine, StoreSettings } from "../site.js";
import { missingTmpfs, mountTmpfs, openFolder } from "../small-disk.js";

const DISK_MB = 320;
/** Small enough to be used up. */
const CONNECTIONS = 100;

async function openPostgres(): Promise<Engine & OpenedPostgres> {
  const disk = missingTmpfs() === null ? await mountTmpfs(DISK_MB) : null;
  if (disk) await mkdir(join(disk.folder, "data"));
  const clock = missingClocks() === null ? join(await openFolder("clock"), "clock") : null;
  if (clock !== null) setClock(clock, {});
  const server = await startPostgres({
    ...(disk && { dataDir: join(disk.folder, "data") }),
    ...(clock !== null && { clock: { file: clock, wallOnly: true } }),
    settings: {
      max_connections: CONNECTIONS,
      // Its log is bounded by the disk: no more of it is kept than a checkpoint needs.
      min_wal_size: "32MB",
      max_wal_size: "64MB",
    },
  });
  const version = await asAdmin(server.url, async (admin) => {
    const { rows } = await admin.query<{ version: string }>("SELECT version()");
    return rows[0]!.version.split(" ").slice(0, 2).join(" ");
  });
  return {
    server,
    disk,
    clock,
    version,
    kinds: postgresKinds({ server, disk, clock }),
    portsFor: () => [server.port],
    urlOf([port]) {
      const url = new URL(server.url);
      url.port = `${port}`;
      return url.href;
    },
    async remove() {
      await server.remove();
      await disk?.unmount();
      if (clock !== null) await rm(dirname(clock), { recursive: true, force: true });
    },
  };
}

export const postgres: StoreSettings = {
  name: "postgres",
  ttlMs: 1_000,
  lifeMs: 1_000,
  epsilonMs: 1_000,
  deadWaiter: { ticketMs: 6_000, costMs: 500 },
  missing: () => null,
  open: openPostgres,
};
