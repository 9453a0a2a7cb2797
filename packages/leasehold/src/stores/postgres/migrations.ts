/**
 * The schema, step by step. A released step is never edited: changes are new steps at the end. Each
 * step works on servers and PGlite, from PostgreSQL 13 on.
 */
import { KEY_STEPS } from "./migrations-keys.js";
import { KIND_STEPS } from "./migrations-kinds.js";
import { SCHEDULE_STEPS } from "./migrations-schedules.js";
import { TASK_STEPS } from "./migrations-tasks.js";

export interface Migration {
  readonly name: string;
  readonly statements: readonly string[];
}

export const MIGRATIONS: readonly Migration[] = [
  {
    name: "leases",
    statements: [
      // Names are compared by bytes: the same order and prefixes in every locale.
      // No index on times, and free space in each page: a renewal then touches no index and no new page.
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
      // The largest token among collected leases: new records start above it.
      `CREATE TABLE leasehold.token_floor (
         namespace text COLLATE "C" PRIMARY KEY,
         token bigint NOT NULL
       )`,
      // Covers a record that was collected while a statement that had read the older floor granted its
      // key anew. Nothing else stops that token from being smaller than an earlier one. The function is
      // called once the new row exists, when no other transaction can interfere, and reads the floor
      // again because it is volatile.
      `CREATE FUNCTION leasehold.above_floor(place text, granted bigint) RETURNS bigint
       LANGUAGE plpgsql VOLATILE AS $$
       BEGIN
         IF granted <= (SELECT f.token FROM leasehold.token_floor f WHERE f.namespace = place) THEN
           RAISE EXCEPTION 'a collection of old leases overtook this grant'
             USING ERRCODE = 'serialization_failure';
         END IF;
         RETURN granted;
       END $$`,
      // Records that a client got "held" and waits: a release notifies only then.
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
      // The row carries the last grant, live or ended. JSON is stored as text: jsonb rejects \u0000 and
      // keeps neither the key order nor all numbers. No index on a time that a heartbeat sets, and free
      // space in each page: a heartbeat then touches no index and no new page. Vacuum often, because
      // every task leaves several dead row versions.
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
      // In claim order.
      `CREATE INDEX task_pending ON leasehold.task (namespace, queue, priority, scheduled_at, id)
       WHERE state = 'pending'`,
      // Few rows, whatever the backlog: reaping reads all of them.
      `CREATE INDEX task_running ON leasehold.task (namespace, id) WHERE state = 'running'`,
      // A partial index for rare rows.
      `CREATE INDEX task_stopped ON leasehold.task (namespace, id)
       WHERE state IN ('dead', 'cancelled')`,
      `CREATE UNIQUE INDEX task_dedupe ON leasehold.task (namespace, kind, dedupe_key)
       WHERE state IN ('pending', 'running') AND dedupe_key IS NOT NULL`,
      // Ended grants. Rows are only inserted.
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
      // The tasks that each claim took, kept while the claim may be repeated.
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
      // The same as FENCE_TABLE of the fence, which creates it in databases without leases: whichever
      // runs first.
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
      // Rows are only inserted, and collected by age. The id orders grants with equal tokens.
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
      // A partial index for rare rows.
      `CREATE INDEX grant_history_unreleased ON leasehold.grant_history (namespace, token, id)
       WHERE state <> 'released'`,
      `CREATE INDEX grant_history_age
       ON leasehold.grant_history (coalesce(expires_at, recorded_at))`,
    ],
  },
  {
    name: "attempts as leases",
    statements: [
      // Null for attempts that ended before this step.
      `ALTER TABLE leasehold.attempt ADD COLUMN ttl_ms integer, ADD COLUMN heartbeat_at timestamptz`,
      // A partial index for rare rows.
      `CREATE INDEX attempt_unreleased ON leasehold.attempt (namespace, task_id, attempt)
       WHERE result IN ('expired', 'cancelled')`,
      `CREATE INDEX attempt_renewed ON leasehold.attempt (namespace, task_id, attempt)
       WHERE heartbeat_at IS NOT NULL`,
    ],
  },
  {
    name: "waiting in line",
    statements: [
      // In arrival order; later waiters see the holder's name.
      `ALTER TABLE leasehold.waiter
         ADD COLUMN holder text NOT NULL DEFAULT '',
         ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY`,
      `CREATE INDEX waiter_place ON leasehold.waiter (namespace, resource, place)`,
    ],
  },
  {
    name: "fence function",
    statements: [
      // The same as in FENCE_TABLE of the fence, which creates it in databases without leases.
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
      `CREATE TABLE leasehold.pause (
         namespace text COLLATE "C" NOT NULL,
         kind text COLLATE "C" NOT NULL CHECK (kind IN ('resource', 'prefix', 'queue')),
         name text COLLATE "C" NOT NULL,
         actor text NOT NULL,
         reason text NOT NULL,
         since timestamptz NOT NULL,
         PRIMARY KEY (namespace, kind, name)
       )`,
      // The flag that grants check, under their own lock. Pausing a resource that was never leased
      // creates a row with an empty lease id and token 0, deleted with the pause.
      `ALTER TABLE leasehold.lease ADD COLUMN paused boolean NOT NULL DEFAULT false`,
      `CREATE TABLE leasehold.tenant_limit (
         namespace text COLLATE "C" PRIMARY KEY,
         leases integer,
         tasks integer,
         rate_per_second double precision
       )`,
    ],
  },
  {
    name: "first key",
    statements: [
      // Servers check every 2 s whether a key was ever created, while none was.
      `CREATE INDEX audit_first_key ON leasehold.audit (seq) WHERE action = 'key.create'`,
    ],
  },
  {
    name: "audit end",
    statements: [
      // Without its end, the chain could begin a second time, and a smaller one would hide entries.
      `CREATE TRIGGER audit_head_kept BEFORE DELETE OR TRUNCATE ON leasehold.audit_head
       FOR EACH STATEMENT EXECUTE FUNCTION leasehold.refuse_change()`,
      `CREATE TRIGGER audit_head_forward BEFORE UPDATE ON leasehold.audit_head
       FOR EACH ROW WHEN (NEW.seq <= OLD.seq) EXECUTE FUNCTION leasehold.refuse_change()`,
    ],
  },
  {
    name: "once",
    statements: [
      // Only successes: the primary key decides between two transactions that record one.
      `CREATE TABLE leasehold.once (
         namespace text COLLATE "C" NOT NULL,
         key text COLLATE "C" NOT NULL,
         value text NOT NULL,
         token bigint NOT NULL,
         holder text NOT NULL,
         done_at timestamptz NOT NULL,
         keep_until timestamptz,
         PRIMARY KEY (namespace, key)
       )`,
      `CREATE INDEX once_age ON leasehold.once (keep_until) WHERE keep_until IS NOT NULL`,
      `CREATE TABLE leasehold.once_failure (
         namespace text COLLATE "C" NOT NULL,
         key text COLLATE "C" NOT NULL,
         failures integer NOT NULL,
         is_last boolean NOT NULL,
         error text NOT NULL,
         token bigint NOT NULL,
         holder text NOT NULL,
         failed_at timestamptz NOT NULL,
         next_at timestamptz NOT NULL,
         PRIMARY KEY (namespace, key)
       )`,
    ],
  },
  ...TASK_STEPS,
  ...KEY_STEPS,
  ...SCHEDULE_STEPS,
  ...KIND_STEPS,
];
