/** The tables of keys, the audit, pauses and limits of tenants, and of the fence: see migrations.ts. */
export const CONTROL_TABLES = [
  // Prefixes as JSON. Of the secret only its SHA-256 is stored.
  `CREATE TABLE leasehold.api_key (
     id text COLLATE "C" PRIMARY KEY,
     namespace text COLLATE "C" NOT NULL,
     name text NOT NULL,
     role text NOT NULL CHECK (role IN ('viewer', 'holder', 'operator', 'admin')),
     prefixes text NOT NULL,
     digest text NOT NULL,
     created_at timestamptz NOT NULL,
     expires_at timestamptz,
     revoked boolean NOT NULL DEFAULT false
   )`,
  `CREATE INDEX api_key_newest ON leasehold.api_key (namespace, created_at)`,
  // Text exactly as hashed. This includes the time: as a timestamptz it would have more digits.
  `CREATE TABLE leasehold.audit (
     seq bigint PRIMARY KEY,
     at text NOT NULL,
     namespace text COLLATE "C" NOT NULL,
     actor text NOT NULL,
     action text NOT NULL,
     target text COLLATE "C" NOT NULL,
     reason text,
     phase text NOT NULL CHECK (phase IN ('done', 'intent', 'result')),
     details text NOT NULL,
     hash text NOT NULL
   )`,
  `CREATE INDEX audit_namespace ON leasehold.audit (namespace, seq)`,
  `CREATE INDEX audit_target ON leasehold.audit (namespace, target, seq)`,
  // Servers check every 2 s whether a key was ever created, while none was.
  `CREATE INDEX audit_first_key ON leasehold.audit (seq) WHERE action = 'key.create'`,
  // The end of the chain: an append locks this row.
  `CREATE TABLE leasehold.audit_head (
     single boolean PRIMARY KEY DEFAULT true CHECK (single),
     seq bigint NOT NULL,
     hash text NOT NULL
   )`,
  `INSERT INTO leasehold.audit_head (seq, hash) VALUES (0, repeat('0', 64))`,
  `CREATE FUNCTION leasehold.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN
     RAISE EXCEPTION 'the audit is only ever added to';
   END $$`,
  `CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON leasehold.audit
   FOR EACH STATEMENT EXECUTE FUNCTION leasehold.refuse_change()`,
  // Without its end, the chain could begin a second time, and a smaller one would hide entries.
  `CREATE TRIGGER audit_head_kept BEFORE DELETE OR TRUNCATE ON leasehold.audit_head
   FOR EACH STATEMENT EXECUTE FUNCTION leasehold.refuse_change()`,
  `CREATE TRIGGER audit_head_forward BEFORE UPDATE ON leasehold.audit_head
   FOR EACH ROW WHEN (NEW.seq <= OLD.seq) EXECUTE FUNCTION leasehold.refuse_change()`,
  `CREATE TABLE leasehold.pause (
     namespace text COLLATE "C" NOT NULL,
     kind text COLLATE "C" NOT NULL CHECK (kind IN ('resource', 'prefix', 'queue')),
     name text COLLATE "C" NOT NULL,
     actor text NOT NULL,
     reason text NOT NULL,
     since timestamptz NOT NULL,
     PRIMARY KEY (namespace, kind, name)
   )`,
  `CREATE TABLE leasehold.tenant_limit (
     namespace text COLLATE "C" PRIMARY KEY,
     leases integer,
     tasks integer,
     rate_per_second double precision
   )`,
];

/** The same as FENCE_TABLE of the fence, which creates it in databases without leases: whichever runs first. */
export const FENCE_TABLES = [
  `CREATE TABLE IF NOT EXISTS leasehold.fence (
     namespace text COLLATE "C" NOT NULL,
     resource text COLLATE "C" NOT NULL,
     token bigint NOT NULL,
     passed_at timestamptz NOT NULL,
     PRIMARY KEY (namespace, resource)
   )`,
  `CREATE OR REPLACE FUNCTION leasehold.check_fence(
     resource text, token bigint, namespace text DEFAULT 'default'
   ) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
   #variable_conflict use_column
   DECLARE
     last bigint;
   BEGIN
     INSERT INTO leasehold.fence AS f (namespace, resource, token, passed_at)
     VALUES ($3, $1, $2, clock_timestamp())
     ON CONFLICT (namespace, resource) DO UPDATE
       SET token = excluded.token, passed_at = excluded.passed_at
       WHERE f.token <= excluded.token;
     IF NOT FOUND THEN
       SELECT f.token INTO last FROM leasehold.fence f
       WHERE f.namespace = $3 AND f.resource = $1;
       RAISE EXCEPTION 'token % for "%" is older than %, which has passed', $2, $1, last
         USING ERRCODE = 'LH001', HINT = 'roll back, and drop this work',
         DETAIL = json_build_object('resource', $1, 'token', $2, 'lastToken', last)::text;
     END IF;
   END $$`,
];
