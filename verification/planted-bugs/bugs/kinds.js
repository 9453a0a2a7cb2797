/** Kinds: who gets a task of a version, and what it is checked against. */
import { simulated, tested } from "../checks.js";

const VALUES = "packages/leasehold/src/tasks/values.ts";
const DEFINE = "packages/leasehold/src/tasks/define.ts";
const READY = "packages/leasehold/src/tasks/ready.ts";
const SCHEMA = "packages/leasehold/src/tasks/kinds/json-schema.ts";
const CLAIM_SQL = "packages/leasehold/src/stores/postgres/task-claim-statements.ts";
const KEY_SQL = "packages/leasehold/src/stores/postgres/task-key-statements.ts";

const versions = (name) =>
  tested("tests/conformance/tasks-conformance.test.ts", `PGlite: task store ... ${name}`);
const library = (name) => tested("packages/leasehold/src/tasks/kinds/kinds.test.ts", name);

export const KIND_BUGS = [
  {
    name: "version-ignored",
    what: "A claim takes tasks of versions that its worker does not know.",
    file: VALUES,
    find: "    : FIRST_VERSION;",
    by: "    : Number.POSITIVE_INFINITY;",
    check: simulated("versions"),
  },
  {
    name: "version-ignored-in-sql",
    what: "The same in SQL, for tasks without a key.",
    file: CLAIM_SQL,
    find: ' AND ${VERSION_TAKEN("t")}',
    by: "",
    check: versions("gives a claim no task of a larger version"),
  },
  {
    name: "version-ignored-at-the-head",
    what: "A claim takes the head of a key, whatever its version is.",
    file: KEY_SQL,
    find: 'AND t.scheduled_at <= ${CLOCK_NOW} AND ${VERSION_TAKEN("t")}',
    by: "AND t.scheduled_at <= ${CLOCK_NOW}",
    check: versions("lets the head of a key wait"),
  },
  {
    name: "version-ignored-at-the-head-in-memory",
    what: "A claim in memory takes the head of a key, whatever its version is.",
    file: "packages/leasehold/src/stores/memory/task-index.ts",
    find: "first.version <= versionTaken(wanted, first.kind)",
    by: "versionTaken(wanted, first.kind) > 0",
    check: tested(
      "tests/conformance/tasks-conformance.test.ts",
      "memory: task store ... lets the head of a key wait",
    ),
  },
  {
    name: "upgrade-skipped",
    what: "A handler gets the data of an earlier version without an upgrade.",
    file: DEFINE,
    find: "upgrade && from < version",
    by: "upgrade && from > version",
    check: simulated("versions"),
  },
  {
    name: "upgrade-final",
    what: "A task whose upgrade throws is dead at once.",
    file: DEFINE,
    find: "    throw new Error(`${what} failed: ${reasonOf(cause)}`, { cause });",
    by: "    throw new FinalTaskError(`${what} failed: ${reasonOf(cause)}`, { cause });",
    check: library("fails an attempt whose upgrade throws"),
  },
  {
    name: "versions-wait-together",
    what: "Waiting claims of two versions form one group, so a claim of the wrong version is woken.",
    file: READY,
    find: "[kind, versions[kind]]",
    by: "[kind]",
    check: library("is woken by a task of its version"),
  },
  {
    name: "schema-with-identifiers",
    what: "Parts of a schema may have identifiers of their own, and each doubles the work of compiling it.",
    file: SCHEMA,
    find: 'if (path.length > 1 && typeof node["$id"] === "string") {',
    by: 'if (path.length > 99 && typeof node["$id"] === "string") {',
    check: tested("packages/leasehold/src/tasks/kinds/json-schema.test.ts", "refuses"),
  },
  {
    name: "drain-waits-for-later-versions",
    what: "A draining worker waits for tasks of versions that it leaves to others.",
    file: "packages/leasehold/src/tasks/worker.ts",
    find: "const { versions = {} } = this.#work.versions;",
    by: "const versions = Object.fromEntries(kinds.map((kind) => [kind, 99]));",
    check: tested("packages/leasehold/src/tasks/draining.test.ts", "of a later version"),
  },
  {
    name: "drain-by-sql-of-any-version",
    what: "PostgreSQL counts tasks of any version for a draining worker.",
    file: "packages/leasehold/src/stores/postgres/task-waits.ts",
    find: "const taken = kinds && versions ? JSON.stringify(versions) : null;",
    by: "const taken = kinds && versions && queues ? JSON.stringify(versions) : null;",
    check: versions("counts only the versions that a claim takes"),
  },
  {
    name: "later-version-unreported",
    what: "Tasks of a later version count as handled by any worker of their kind.",
    file: "packages/leasehold/src/tasks/unhandled.ts",
    find: "version <= versionTaken(claim, kind),",
    by: "version <= versionTaken(claim, kind) + 99,",
    check: tested("packages/leasehold/src/tasks/unhandled.test.ts", "are later versions too"),
  },
  {
    name: "later-version-left-in-silence",
    what: "A worker does not report that it leaves tasks of later versions to others.",
    file: "packages/leasehold/src/tasks/unhandled.ts",
    find: "if (version <= taken || reported.has(name)) continue;",
    by: "if (version <= taken + 1 || reported.has(name)) continue;",
    check: tested(
      "packages/leasehold/src/tasks/unhandled-versions.test.ts",
      "names each later version",
    ),
  },
];
