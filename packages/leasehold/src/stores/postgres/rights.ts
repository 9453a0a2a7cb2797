/** What a refused user lacks: the statements that grant the rights, for the owner of the schema. */

import { reasonOf } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import type { Scalar, Sql } from "./connection.js";

/** The rights that the stores use, by table. A right to lock a row is UPDATE. */
const RIGHTS: Readonly<Record<string, string>> = {
  lease: "SELECT INSERT UPDATE DELETE",
  token_floor: "SELECT INSERT UPDATE",
  waiter: "SELECT INSERT UPDATE DELETE",
  task: "SELECT INSERT UPDATE DELETE",
  attempt: "SELECT INSERT DELETE",
  claim: "SELECT INSERT DELETE",
  task_key: "SELECT INSERT UPDATE DELETE",
  due_key: "SELECT INSERT UPDATE DELETE",
  task_limit: "SELECT INSERT UPDATE DELETE",
  key_rate: "SELECT INSERT UPDATE DELETE",
  once: "SELECT INSERT UPDATE DELETE",
  once_failure: "SELECT INSERT UPDATE DELETE",
  result_wait: "SELECT INSERT UPDATE DELETE",
  schedule: "SELECT INSERT UPDATE DELETE",
  fence: "SELECT INSERT UPDATE",
  grant_history: "SELECT INSERT UPDATE DELETE",
  api_key: "SELECT INSERT UPDATE DELETE",
  // Entries are only ever added.
  audit: "SELECT INSERT",
  audit_head: "SELECT UPDATE",
  pause: "SELECT INSERT UPDATE DELETE",
  tenant_limit: "SELECT INSERT UPDATE",
  migration: "SELECT",
};
const PAIRS = Object.entries(RIGHTS).flatMap(([table, rights]) =>
  rights.split(" ").map((right) => [table, right] as const),
);

/** $1 schema, $2 tables, $3 rights: one row a statement. Other tables are those of programs, which read and write them. */
const MISSING = `
WITH own AS (SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname = $1),
wanted AS (
  SELECT * FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS w ("table", "right", n)
  UNION ALL
  SELECT c.relname::text, r."right", r.n FROM own
    JOIN pg_catalog.pg_class c ON c.relnamespace = own.oid AND c.relkind = 'r' AND c.relname <> ALL ($2::text[])
    CROSS JOIN unnest('{SELECT,INSERT,UPDATE}'::text[]) WITH ORDINALITY AS r ("right", n)
),
lacking AS (
  SELECT w."table", string_agg(w."right", ', ' ORDER BY w.n) AS rights
  FROM wanted w
    JOIN own ON true
    JOIN pg_catalog.pg_class c ON c.relnamespace = own.oid AND c.relname = w."table"
  WHERE NOT has_table_privilege(c.oid, w."right")
  GROUP BY w."table"
)
SELECT format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user) AS grant
WHERE NOT EXISTS (SELECT FROM own) AND NOT has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', own.nspname, current_user) FROM own
WHERE NOT has_schema_privilege(own.oid, 'USAGE')
UNION ALL
SELECT format('GRANT CREATE ON SCHEMA %I TO %I', own.nspname, current_user) FROM own
WHERE NOT has_schema_privilege(own.oid, 'CREATE')
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = own.oid)
UNION ALL (
  SELECT format('GRANT %s ON %s TO %I', l.rights,
    string_agg(format('%I.%I', $1::text, l."table"), ', ' ORDER BY l."table"), current_user)
  FROM lacking l GROUP BY l.rights ORDER BY l.rights
)
UNION ALL
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', p.oid::regprocedure, current_user)
FROM own JOIN pg_catalog.pg_proc p ON p.pronamespace = own.oid
WHERE NOT has_function_privilege(p.oid, 'EXECUTE')`;

/** SQL whose failures for lack of a right say which statements grant it. */
export function explainingRights(sql: Sql, schema: string, general: Sql): Sql {
  const explain = async (error: unknown): Promise<never> => {
    throw isRefused(error) ? await explained(error, schema, general) : error;
  };
  return {
    query: (text, values, options) => sql.query<never>(text, values, options).catch(explain),
    transaction: (work, options) => sql.transaction(work, options).catch(explain),
  };
}

const PERMISSION_DENIED = "42501";

export function isRefused(error: unknown): error is StoreMisconfiguredError {
  if (!(error instanceof StoreMisconfiguredError)) return false;
  return (error.cause as { code?: unknown } | undefined)?.code === PERMISSION_DENIED;
}

async function explained(
  error: StoreMisconfiguredError,
  schema: string,
  sql: Sql,
): Promise<StoreMisconfiguredError> {
  const { cause } = error;
  const columns = [PAIRS.map(([table]) => table), PAIRS.map(([, right]) => right)];
  // The first failure is what matters, whether or not its reason can be found.
  const rows = await sql
    .query<{ grant: Scalar }>(MISSING, [schema, ...columns])
    .catch(() => [] as const);
  if (rows.length === 0) return error;
  const grants = rows.map(({ grant }) => `  ${grant};`).join("\n");
  const reported = reasonOf(cause);
  return new StoreMisconfiguredError(
    `PostgreSQL reported: ${reported}; as the owner of the schema, or as a superuser, run\n${grants}`,
    cause,
  );
}
