/** Pairs of PostgreSQL servers; clients reach them through one address, which moves. */
import { rm } from "node:fs/promises";
import {
  backUp,
  caughtUp,
  query,
  startOn,
  startStandby,
  untilTrue,
} from "../../../tests/support/engines/postgres-copies.js";
import {
  type PostgresServer,
  startPostgres,
} from "../../../tests/support/engines/postgres-engine.js";
import { openTcpProxy, type TcpProxy } from "../../../tests/support/faults/tcp-proxy.js";
import type { FakeClock } from "../../../tests/support/processes/fake-clock.js";
import type { Pair } from "./pair.js";

interface Opened {
  readonly primary: PostgresServer;
  /** Where clients connect. */
  readonly address: TcpProxy;
  readonly url: string;
}

async function openPrimary(): Promise<Opened> {
  const primary = await startPostgres({ settings: { wal_keep_size: "256MB" } });
  const address = await openTcpProxy({ port: primary.port });
  const url = new URL(primary.url);
  url.port = `${address.port}`;
  return { primary, address, url: url.href };
}

/** As docs/guarantees.md says it. */
async function raiseFloor(server: PostgresServer, above: number): Promise<void> {
  await query(
    server,
    `INSERT INTO leasehold.token_floor AS f VALUES ('default', ${above})
     ON CONFLICT (namespace) DO UPDATE SET token = greatest(f.token, excluded.token)`,
  );
}

/**
 * A primary and a standby that streams from it, which is promoted.
 *
 *   clients ──▶ address ──▶ primary ──▶ (WAL, until the cut) ──▶ standby
 *
 * @param options.clock of the standby
 */
export async function standbyPair(options: {
  readonly synchronous: boolean;
  readonly clock?: FakeClock;
}): Promise<Pair> {
  const { synchronous, clock } = options;
  const { primary, address, url } = await openPrimary();
  const wal = await openTcpProxy({ port: primary.port });
  const standby = await startStandby(primary, { follow: wal.port, ...(clock && { clock }) });
  if (synchronous) {
    await query(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    await query(primary, "SELECT pg_reload_conf()");
    await untilTrue(primary, "SELECT sync_state = 'sync' AS holds FROM pg_stat_replication");
  }
  return {
    url,
    async cut() {
      await caughtUp(primary, standby);
      wal.blackhole("toClient");
    },
    async cancelWaits() {
      const waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
      const hit = await query(primary, `SELECT pg_cancel_backend(pid) FROM (${waiting}) w`);
      return hit.length;
    },
    async failOver() {
      await primary.kill9();
      await query(standby, "SELECT pg_promote()");
      await untilTrue(standby, "SELECT NOT pg_is_in_recovery() AS holds");
      address.redirect(standby.port);
      address.reset();
    },
    raiseTokens: (above) => raiseFloor(standby, above),
    async close() {
      await Promise.all([address.close(), wal.close()]);
      await Promise.all([standby.remove(), primary.remove()]);
    },
  };
}

/**
 * A server, and itself again on a backup that was made while clients were at work.
 * @param clock under which it comes back
 */
export async function backupPair(clock?: FakeClock): Promise<Pair> {
  const { primary, address, url } = await openPrimary();
  let folder = "";
  let restored: PostgresServer | undefined;
  return {
    url,
    async cut() {
      folder = await backUp(primary);
    },
    async failOver() {
      await primary.kill9();
      restored = await startOn(folder, clock && { clock });
      address.redirect(restored.port);
      address.reset();
    },
    async raiseTokens(above) {
      if (restored) await raiseFloor(restored, above);
    },
    async close() {
      await address.close();
      await Promise.all([restored?.remove(), primary.remove()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
