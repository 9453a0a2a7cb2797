/** The tables of leases, waiters and ended grants, and the records of `once`: see migrations.ts. */
export const LEASE_TABLES = [
  // Names are compared by bytes: the same order and prefixes in every locale.
  // No index on times, and free space in each page: a renewal then touches no index and no new page.
  // `paused` is what grants check, under their own lock. Pausing a resource that was never leased creates a row
  // with an empty lease id and token 0, deleted with the pause.
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
     paused boolean NOT NULL DEFAULT false,
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
  // Records that a client got "held" and waits: a release notifies only then. In arrival order; later waiters see
  // the holder's name.
  `CREATE TABLE leasehold.waiter (
     namespace text COLLATE "C" NOT NULL,
     resource text COLLATE "C" NOT NULL,
     lease_id text NOT NULL,
     expires_at timestamptz NOT NULL,
     holder text NOT NULL DEFAULT '',
     place bigint GENERATED ALWAYS AS IDENTITY,
     PRIMARY KEY (namespace, resource, lease_id)
   )`,
  `CREATE INDEX waiter_place ON leasehold.waiter (namespace, resource, place)`,
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
];
