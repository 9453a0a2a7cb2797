/**
 * What the steps make, as the catalog of the database has it: `catalog.txt`. A change of the baseline, which databases
 * already have, shows there, and so does what a new step adds.
 */
import pg from "pg";
import { expect, it } from "vitest";
import { describePostgres, freshDatabase } from "../../../../../tests/support/engines/postgres.js";
import { systemEnv } from "../../env/index.js";
import { migratePostgres } from "./index.js";

/** One line each. Grants are those to everybody: others depend on who migrates. Not-null constraints are part of a column. */
const CATALOG = `
WITH own AS (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'leasehold'),
relation AS (SELECT c.* FROM pg_class c JOIN own ON own.oid = c.relnamespace),
everybody AS (
  SELECT c.oid, string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type) AS rights
  FROM (
    SELECT r.oid, r.relacl AS acl FROM relation r
    UNION ALL SELECT p.oid, coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p
      JOIN own ON own.oid = p.pronamespace
  ) c CROSS JOIN LATERAL aclexplode(c.acl) a
  WHERE a.grantee = 0 GROUP BY c.oid
)
SELECT line FROM (
  SELECT r.relname AS of, 0 AS part, 0 AS n, concat_ws(' ',
    CASE r.relkind WHEN 'r' THEN 'table' ELSE 'sequence' END, r.relname,
    'persistence', r.relpersistence, 'replica identity', r.relreplident,
    'with ' || array_to_string(r.reloptions, ', '), 'for everybody ' || e.rights) AS line
  FROM relation r LEFT JOIN everybody e ON e.oid = r.oid WHERE r.relkind IN ('r', 'S')
UNION ALL
  SELECT r.relname, 1, row_number() OVER (PARTITION BY r.oid ORDER BY a.attnum), concat_ws(' ',
    '  column', a.attname, format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attcollation <> t.typcollation THEN 'collate ' || co.collname END,
    CASE WHEN a.attnotnull THEN 'not null' END,
    CASE a.attidentity WHEN 'a' THEN 'identity' END,
    'default ' || pg_get_expr(d.adbin, d.adrelid))
  FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_collation co ON co.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  WHERE r.relkind = 'r'
UNION ALL
  SELECT r.relname, 2, row_number() OVER (PARTITION BY r.oid ORDER BY c.conname),
    format('  constraint %s %s', c.conname, pg_get_constraintdef(c.oid))
  FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid AND c.contype <> 'n'
UNION ALL
  SELECT r.relname, 3, row_number() OVER (PARTITION BY r.oid ORDER BY i.indexrelid::regclass::text),
    concat_ws(' ', '  index', pg_get_indexdef(i.indexrelid))
  FROM relation r JOIN pg_index i ON i.indrelid = r.oid
UNION ALL
  SELECT r.relname, 4, row_number() OVER (PARTITION BY r.oid ORDER BY t.tgname),
    concat_ws(' ', '  trigger', t.tgenabled, pg_get_triggerdef(t.oid))
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal
UNION ALL
  SELECT s.relname, 5, 0, format('  owned by %s.%s', r.relname, a.attname)
  FROM relation s JOIN pg_depend d ON d.objid = s.oid AND d.deptype IN ('a', 'i')
    JOIN relation r ON r.oid = d.refobjid
    JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = d.refobjsubid
  WHERE s.relkind = 'S'
UNION ALL
  SELECT p.proname, 6, 0, concat_ws(E'\\n', 'for everybody ' || e.rights, pg_get_functiondef(p.oid))
  FROM pg_proc p JOIN own ON own.oid = p.pronamespace LEFT JOIN everybody e ON e.oid = p.oid
UNION ALL
  SELECT 'audit_head', 7, 0, format('  row %s %s %s', single, seq, hash) FROM leasehold.audit_head
) x ORDER BY (part = 6), of COLLATE "C", part, n`;

describePostgres("the catalog of a migrated database", () => {
  it("has what the golden file says", async () => {
    const database = await freshDatabase();
    const client = new pg.Client({ connectionString: database.url });
    try {
      await migratePostgres({ url: database.url }, systemEnv);
      await client.connect();
      const { rows } = await client.query<{ line: string }>(CATALOG);
      // How a body is indented says nothing.
      const text = rows.map(({ line }) => line.replaceAll(/\n\s+/g, "\n    ")).join("\n");
      await expect(
        `${text}\n`,
        "If the change is right: npx vitest run packages/leasehold/src/stores/postgres/catalog.test.ts --update",
      ).toMatchFileSnapshot("./catalog.txt");
    } finally {
      await client.end();
      await database.drop();
    }
  });
});
