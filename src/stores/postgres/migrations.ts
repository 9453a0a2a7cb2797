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
];
