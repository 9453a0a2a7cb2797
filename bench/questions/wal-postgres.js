// How much an operation writes to PostgreSQL's write-ahead log.
//
// ratio = bytes of WAL per operation, ours / those of the lean batched statement on a table like ours.
// A checkpoint precedes each phase, so that both sides write the same full-page images.
import pg from "pg";
import * as limit from "../contenders/leases/limit.js";
import * as ours from "../contenders/leases/ours.js";
import { namesOf, phasesOf } from "../contenders/leases/phases.js";
import { interleaved } from "../measure.js";
import { ratioRow } from "../rows.js";

const CALLERS = 512;

/** @type {import("../measure.js").Question} */
export default {
  question: "Bytes of write-ahead log per operation on PostgreSQL, with 512 callers",
  async run({ engines, size, progress }) {
    const sides = {
      ours: await ours.open(await engines.freshDatabase(), CALLERS),
      limit: await limit.open(await engines.freshDatabase()),
    };
    const sql = new pg.Client({ connectionString: await engines.postgres() });
    await sql.connect();
    const count = size(40_000, 10_000);
    const walOf = async (/** @type {() => Promise<void>} */ work) => {
      await sql.query("CHECKPOINT");
      const { rows: before } = await sql.query("SELECT pg_current_wal_lsn() AS lsn");
      await work();
      const { rows: after } = await sql.query(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1)::float8 AS bytes",
        [before[0].lsn],
      );
      return { value: after[0].bytes / count };
    };
    const bytes = (/** @type {keyof typeof sides} */ name) => (/** @type {number} */ round) =>
      phasesOf(sides[name], namesOf(`r-${round}`, count), walOf);
    const measured = await interleaved(
      size(3, 2),
      { ours: bytes("ours"), limit: bytes("limit") },
      progress,
    );
    for (const side of Object.values(sides)) await side.close();
    await sql.end();
    return /** @type {const} */ (["acquire", "renew", "release"]).map((what) =>
      ratioRow(
        {
          id: `wal-${what}-postgres`,
          what: `WAL per ${what}`,
          beside: "the lean batched statement",
          reach: 1.25,
          better: "lower",
          gate: true,
        },
        "bytes",
        {
          ours: measured.ours.map((round) => round[what]),
          limit: measured.limit.map((round) => round[what]),
        },
      ),
    );
  },
};
