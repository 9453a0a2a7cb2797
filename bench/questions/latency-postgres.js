// The overhead of a lease for a single caller over the bare statement, on durable PostgreSQL.
//
// ratio = median latency of tryAcquire / that of one handwritten statement on a connection of its own.

import { connect } from "leasehold";
import pg from "pg";
import { interleaved, latenciesOf, median, ms, ratioRow } from "../measure.js";

const TABLE = `CREATE TABLE bare_lease (resource text PRIMARY KEY, holder text NOT NULL,
  token bigint NOT NULL, expires_at timestamptz NOT NULL)`;
const STATEMENT = `INSERT INTO bare_lease AS l (resource, holder, token, expires_at)
  VALUES ($1, $2, 1, now() + $3 * interval '1 millisecond')
  ON CONFLICT (resource) DO UPDATE SET holder = excluded.holder, token = l.token + 1,
    expires_at = excluded.expires_at
  WHERE l.expires_at <= now() RETURNING token`;

/** @type {import("../measure.js").Question} */
export default {
  question: "Latency of one idle caller's tryAcquire on PostgreSQL",
  sideBySide: "the bare SQL statement",
  ids: ["lease-latency-postgres"],
  async run({ engines, size, progress }) {
    const url = await engines.freshDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(TABLE);
    const leases = await connect(url, { defaults: { ttlMs: 60_000, autoRenew: false } });
    const times = size(1_000, 300);
    let round = 0;
    const { ours, theirs } = await interleaved(
      size(9, 4),
      {
        async ours() {
          round += 1;
          return median(
            await latenciesOf(times, (turn) => leases.tryAcquire(`o-${round}-${turn}`)),
          );
        },
        async theirs() {
          round += 1;
          const latencies = await latenciesOf(times, (turn) =>
            client.query({
              name: "bare",
              text: STATEMENT,
              values: [`t-${round}-${turn}`, "me", 60_000],
            }),
          );
          return median(latencies);
        },
      },
      progress,
    );
    await leases.close();
    await client.end();
    const row = {
      id: "lease-latency-postgres",
      what: "p50 of tryAcquire",
      reach: 1.15,
      better: /** @type {const} */ ("lower"),
      figures: { ours: ms(median(ours)), theirs: ms(median(theirs)) },
    };
    return [ratioRow(row, ours, theirs)];
  },
};
