/**
 * What a later release may add, beside which the last one goes on: a column and a table in PostgreSQL, a field in the
 * records of other engines, a capability of servers, a member of requests that clients send to servers with that
 * capability, and a member of answers.
 */
export interface Change {
  readonly file: string;
  /** Is there once. */
  readonly find: string;
  readonly by: string;
  /** At the end of the file. */
  readonly append?: string;
}

const LIBRARY = "packages/leasehold/src";
const SERVER = "packages/leasehold-server/src";

/** The statements of the additive step. */
export const EXPAND = [
  "ALTER TABLE leasehold.lease ADD COLUMN upgrade_note text",
  "ALTER TABLE leasehold.task ADD COLUMN upgrade_note text NOT NULL DEFAULT 'none'",
  'CREATE TABLE leasehold.upgrade_note (namespace text COLLATE "C" PRIMARY KEY, note text NOT NULL)',
];
export const EXPAND_NAME = "upgrade note";

export const ADDITIONS: readonly Change[] = [
  {
    file: `${LIBRARY}/stores/postgres/migrations.ts`,
    find: "export const MIGRATIONS: readonly Migration[] =",
    by: "const BEFORE: readonly Migration[] =",
    append: `
const LAST = BEFORE.at(-1) as Migration;
export const MIGRATIONS: readonly Migration[] = [...BEFORE, {
  version: LAST.version + 1,
  name: ${JSON.stringify(EXPAND_NAME)},
  compatibleFrom: LAST.compatibleFrom,
  statements: ${JSON.stringify(EXPAND)},
}];
`,
  },
  {
    file: `${LIBRARY}/stores/postgres/lease-lean-statements.ts`,
    find: "lease_id = k.asked_id, holder =",
    by: "upgrade_note = 'next', lease_id = k.asked_id, holder =",
  },
  {
    file: `${LIBRARY}/stores/redis/lease-save.ts`,
    find: "'renewedAt', r.renewedAt, 'metadata', r.metadata)",
    by: "'renewedAt', r.renewedAt, 'metadata', r.metadata, 'upgradeNote', 'next')",
  },
  {
    file: `${LIBRARY}/stores/redis/lean-scripts.ts`,
    find: "'renewedAt', '', 'metadata', metadata)",
    by: "'renewedAt', '', 'metadata', metadata, 'upgradeNote', 'next')",
  },
  {
    file: `${LIBRARY}/stores/etcd/records.ts`,
    find: "return JSON.stringify(record.token === 0 ? { ...record, token: undefined } : record);",
    by: "return JSON.stringify({ ...record, token: record.token || undefined, upgradeNote: 'next' });",
  },
  {
    file: `${LIBRARY}/stores/consul/records.ts`,
    find: "return JSON.stringify(record);",
    by: "return JSON.stringify({ ...record, upgradeNote: 'next' });",
  },
  {
    file: `${LIBRARY}/stores/zookeeper/records.ts`,
    find: "JSON.stringify({ leasehold: FORMAT, ...record })",
    by: "JSON.stringify({ leasehold: FORMAT, ...record, upgradeNote: 'next' })",
  },
  {
    file: `${LIBRARY}/stores/kubernetes/records-changes.ts`,
    find: "      token: String(record.token),",
    by: "      'upgrade-note': 'next', token: String(record.token),",
  },
  {
    file: `${SERVER}/http/native/leases-routes.ts`,
    find: "leases: { ...capabilities,",
    by: "leases: { ...capabilities, upgradeNote: true,",
  },
  {
    file: `${SERVER}/protocol/leases.ts`,
    find: "metadata: Metadata.optional(),",
    by: "metadata: Metadata.optional(), upgradeNote: z.string().optional(),",
  },
  {
    file: `${SERVER}/http/native/outcomes.ts`,
    find: "return outcome;",
    by: "return { ...outcome, upgradeNote: 'next' };",
  },
  {
    file: `${LIBRARY}/stores/http/store.ts`,
    find: "...(metadata === undefined ? {} : { metadata }),",
    by: "...(metadata === undefined ? {} : { metadata }), ...('upgradeNote' in this.capabilities ? { upgradeNote: 'next' } : {}),",
  },
];
