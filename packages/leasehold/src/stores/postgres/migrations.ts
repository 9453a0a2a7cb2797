/**
 * The schema, step by step. A step that has been released is never edited: changes are new steps at
 * the end. Each holds for servers and for PGlite, from PostgreSQL 13 on.
 */
export interface Migration {
  readonly name: string;
  readonly statements: readonly string[];
}

export const MIGRATIONS: readonly Migration[] = [
  {
    name: "leases",
    statements: [
      // Names are compared byte by byte: the same order and prefixes whatever the database's locale.
      // No index on times, and room in each page: a renewal then touches neither index nor new page.
      `CREATE TABLE leasehold.lease (
         namespace text COLLATE "C" NOT NULL,
         resource text COLLATE "C" NOT NULL,
         lease_id text NOT NULL,
         holder text NOT NULL,
         token bigint NOT NULL,
         ttl_ms integer NOT NULL,
         granted_at timestamptz NOT NULL,
         renewed_at timestamptz,
         expires_at timestamptz NOT NULL,
         ended text CHECK (ended IN ('released', 'revoked')),
         metadata text,
         PRIMARY KEY (namespace, resource)
       ) WITH (fillfactor = 70)`,
      // The largest token among collected leases: a new record starts above it.
      `CREATE TABLE leasehold.token_floor (
         namespace text COLLATE "C" PRIMARY KEY,
         token bigint NOT NULL
       )`,
      // A record that was collected while its key was being granted anew, by a statement that had
      // read the floor before: nothing else can stop that token from being smaller than an earlier
      // one. Called once the new row stands, when nobody can come in between, and reads anew
      // because it is volatile.
      `CREATE FUNCTION leasehold.above_floor(place text, granted bigint) RETURNS bigint
       LANGUAGE plpgsql VOLATILE AS $$
       BEGIN
         IF granted <= (SELECT f.token FROM leasehold.token_floor f WHERE f.namespace = place) THEN
           RAISE EXCEPTION 'a collection of old leases overtook this grant'
             USING ERRCODE = 'serialization_failure';
         END IF;
         RETURN granted;
       END $$`,
      // Who was answered "held" and waits: a release notifies only where somebody does.
      `CREATE TABLE leasehold.waiter (
         namespace text COLLATE "C" NOT NULL,
         resource text COLLATE "C" NOT NULL,
         lease_id text NOT NULL,
         expires_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, resource, lease_id)
       )`,
    ],
  },
  {
    name: "tasks",
    statements: [
      // The row carries the last grant, running or ended. JSON is kept as text: jsonb knows no
      // \u0000 and neither keeps the order of keys nor all numbers. No index on a time that a
      // heartbeat sets, and room in each page: a heartbeat then touches no index and no new page.
      // Vacuum often: every task dies several times over as a row version.
      `CREATE TABLE leasehold.task (
         namespace text COLLATE "C" NOT NULL,
         id uuid NOT NULL,
         state text NOT NULL
           CHECK (state IN ('pending', 'running', 'done', 'dead', 'cancelled')),
         kind text COLLATE "C" NOT NULL,
         queue text COLLATE "C" NOT NULL,
         priority smallint NOT NULL,
         scheduled_at timestamptz NOT NULL,
         dedupe_key text COLLATE "C",
         data text NOT NULL,
         output text,
         error text,
         failures integer NOT NULL DEFAULT 0,
         crashes integer NOT NULL DEFAULT 0,
         max_attempts integer NOT NULL,
         crash_limit integer NOT NULL,
         backoff_ms bigint NOT NULL,
         max_backoff_ms bigint NOT NULL,
         created_at timestamptz NOT NULL,
         finished_at timestamptz,
         attempt integer NOT NULL DEFAULT 0,
         token bigint NOT NULL DEFAULT 0,
         lease_id text,
         holder text,
         previous_holder text,
         ttl_ms integer,
         started_at timestamptz,
         heartbeat_at timestamptz,
         expires_at timestamptz,
         result text CHECK (result IN ('done', 'failed', 'expired', 'returned', 'cancelled')),
         progress text,
         PRIMARY KEY (namespace, id)
       ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,
         autovacuum_analyze_scale_factor = 0.01)`,
      // In the order in which claims take them.
      `CREATE INDEX task_pending ON leasehold.task (namespace, queue, priority, scheduled_at, id)
       WHERE state = 'pending'`,
      // Few, whatever the backlog: what is reaped is found by reading all of them.
      `CREATE INDEX task_running ON leasehold.task (namespace, id) WHERE state = 'running'`,
      // Few among many, for those who look for them.
      `CREATE INDEX task_stopped ON leasehold.task (namespace, id)
       WHERE state IN ('dead', 'cancelled')`,
      `CREATE UNIQUE INDEX task_dedupe ON leasehold.task (namespace, kind, dedupe_key)
       WHERE state IN ('pending', 'running') AND dedupe_key IS NOT NULL`,
      // Grants that have ended. Only ever added to.
      `CREATE TABLE leasehold.attempt (
         namespace text COLLATE "C" NOT NULL,
         task_id uuid NOT NULL,
         attempt integer NOT NULL,
         holder text NOT NULL,
         grant_id text NOT NULL,
         token bigint NOT NULL,
         started_at timestamptz NOT NULL,
         ended_at timestamptz NOT NULL,
         result text NOT NULL,
         error text,
         progress text,
         PRIMARY KEY (namespace, task_id, attempt)
       )`,
      // What each claim took, for as long as it may come again.
      `CREATE TABLE leasehold.claim (
         namespace text COLLATE "C" NOT NULL,
         claim_id text COLLATE "C" NOT NULL,
         task_ids uuid[] NOT NULL,
         claimed_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, claim_id)
       )`,
      `CREATE INDEX claim_age ON leasehold.claim (claimed_at)`,
      `CREATE TABLE leasehold.generator (
         namespace text COLLATE "C" PRIMARY KEY,
         running boolean NOT NULL,
         rate_per_second double precision NOT NULL
       )`,
    ],
  },
  {
    name: "fence",
    statements: [
      // The same as FENCE_TABLE of the fence, which makes it where no leases live: whichever comes first.
      `CREATE TABLE IF NOT EXISTS leasehold.fence (
         namespace text COLLATE "C" NOT NULL,
         resource text COLLATE "C" NOT NULL,
         token bigint NOT NULL,
         passed_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, resource)
       )`,
    ],
  },
  {
    name: "grant history",
    statements: [
      // Only ever added to, and collected by age. The id orders grants with the same token.
      `CREATE TABLE leasehold.grant_history (
         id bigint GENERATED ALWAYS AS IDENTITY,
         namespace text COLLATE "C" NOT NULL,
         resource text COLLATE "C" NOT NULL,
         grant_id text COLLATE "C" NOT NULL,
         holder text NOT NULL,
         token bigint NOT NULL,
         state text NOT NULL CHECK (state IN ('expired', 'released', 'revoked')),
         ttl_ms bigint NOT NULL,
         granted_at timestamptz,
         renewed_at timestamptz,
         expires_at timestamptz,
         metadata text,
         recorded_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, resource, grant_id)
       )`,
      `CREATE INDEX grant_history_newest ON leasehold.grant_history (namespace, token, id)`,
      `CREATE INDEX grant_history_resource
       ON leasehold.grant_history (namespace, resource, token, id)`,
      // Few among many, for those who look for them.
      `CREATE INDEX grant_history_unreleased ON leasehold.grant_history (namespace, token, id)
       WHERE state <> 'released'`,
      `CREATE INDEX grant_history_age
       ON leasehold.grant_history (coalesce(expires_at, recorded_at))`,
    ],
  },
  {
    name: "attempts as leases",
    statements: [
      // Null for what ended before.
      `ALTER TABLE leasehold.attempt ADD COLUMN ttl_ms integer, ADD COLUMN heartbeat_at timestamptz`,
      // Few among many, for those who look for them.
      `CREATE INDEX attempt_unreleased ON leasehold.attempt (namespace, task_id, attempt)
       WHERE result IN ('expired', 'cancelled')`,
      `CREATE INDEX attempt_renewed ON leasehold.attempt (namespace, task_id, attempt)
       WHERE heartbeat_at IS NOT NULL`,
    ],
  },
  {
    name: "waiting in line",
    statements: [
      // In the order in which they came; the holder is named to those behind it.
      `ALTER TABLE leasehold.waiter
         ADD COLUMN holder text NOT NULL DEFAULT '',
         ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY`,
      `CREATE INDEX waiter_place ON leasehold.waiter (namespace, resource, place)`,
    ],
  },
  {
    name: "fence function",
    statements: [
      // The same as in FENCE_TABLE of the fence, which makes it where no leases live.
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
    ],
  },
  {
    name: "control",
    statements: [
      // Prefixes as JSON. Of the secret only its SHA-256.
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
      // Texts as they were hashed: a time too, which as a timestamptz has digits that are not shown.
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
      // The end of the chain: who adds to it locks this row.
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
      `CREATE TABLE leasehold.pause (
         namespace text COLLATE "C" NOT NULL,
         kind text COLLATE "C" NOT NULL CHECK (kind IN ('resource', 'prefix', 'queue')),
         name text COLLATE "C" NOT NULL,
         actor text NOT NULL,
         reason text NOT NULL,
         since timestamptz NOT NULL,
         PRIMARY KEY (namespace, kind, name)
       )`,
      // What grants look at, under their own lock. A resource that was never leased gets a row for
      // it, with an empty lease id and token 0, which goes with the pause.
      `ALTER TABLE leasehold.lease ADD COLUMN paused boolean NOT NULL DEFAULT false`,
      `CREATE TABLE leasehold.tenant_limit (
         namespace text COLLATE "C" PRIMARY KEY,
         leases integer,
         tasks integer,
         rate_per_second double precision
       )`,
    ],
  },
];
