/** The step of the schema for published kinds and the versions of tasks: see migrations.ts and kind-statements.ts. */
export const KIND_STEPS = [
  {
    name: "kinds",
    statements: [
      // Constants as defaults change no row.
      `ALTER TABLE leasehold.task ADD COLUMN version smallint NOT NULL DEFAULT 1`,
      `ALTER TABLE leasehold.schedule ADD COLUMN version smallint NOT NULL DEFAULT 1`,
      // The version of the task that keeps back the key: a claim of an earlier version need not look.
      `ALTER TABLE leasehold.due_key ADD COLUMN version smallint NOT NULL DEFAULT 1`,
      `CREATE TABLE leasehold.task_kind (
         namespace text COLLATE "C" NOT NULL,
         kind text COLLATE "C" NOT NULL,
         version smallint NOT NULL,
         schema text NOT NULL,
         published_at timestamptz NOT NULL,
         changed_at timestamptz NOT NULL,
         published_by text NOT NULL,
         PRIMARY KEY (namespace, kind, version)
       )`,
      // Roles that enqueue or run tasks may publish what they are.
      `DO $$
       DECLARE
         role text;
       BEGIN
         FOR role IN
           SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
           FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
           WHERE c.oid = 'leasehold.task'::regclass AND a.privilege_type = 'UPDATE'
         LOOP
           EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.task_kind TO ' || role;
         END LOOP;
       END $$`,
    ],
  },
];
