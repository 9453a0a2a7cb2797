/**
 * Records the final text of each SQL statement for readers: `statements/*.sql` holds what PostgreSQL
 * receives. A variant of another statement refers to shared lines by their numbers in the other's file.
 *
 * The texts are captured from the stores at the driver. Migrations are excluded, because migrations.ts
 * shows them, and so are statements that frame a transaction or a subscription.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { beforeAll, expect, it } from "vitest";
import { CONTROL_CALLS } from "../../../../../tests/support/engines/postgres-control-statements.js";
import { KIND_CALLS } from "../../../../../tests/support/engines/postgres-kind-statements.js";
import { ONCE_CALLS } from "../../../../../tests/support/engines/postgres-once-statements.js";
import { SCHEDULE_CALLS } from "../../../../../tests/support/engines/postgres-schedule-statements.js";
import {
  OPENING,
  STORE_CALLS,
  type Statement,
} from "../../../../../tests/support/engines/postgres-statements.js";
import { type Env, systemEnv } from "../../env/index.js";
import type { PgPool, PgPoolClient } from "./connection-drivers.js";
import { CONFIRM, Prepared, poolSql } from "./connection-pool.js";
import { openPostgres } from "./index.js";

const FOLDER = new URL("./statements/", import.meta.url);
const COMMAND =
  "UPDATE_GOLDEN=1 npx vitest run packages/leasehold/src/stores/postgres/statements.test.ts";
const UPDATES = process.env["UPDATE_GOLDEN"] === "1";
const CATALOGUE_FILES = "tests/support/postgres-*statements.ts";
/** Shorter runs of equal lines are written out. */
const SHORTEST_RUN = 6;
const FRAME = /^(BEGIN|COMMIT|ROLLBACK)\b/;

const CALLS = [...STORE_CALLS, ...ONCE_CALLS, ...KIND_CALLS, ...SCHEDULE_CALLS, ...CONTROL_CALLS];
const CATALOGUE: readonly Statement[] = [
  ...OPENING,
  ...CALLS.flatMap(([, ...statements]) => statements),
];
/** The statements that the stores send, by name. */
type Sent = Map<string, { readonly text: string; readonly values: readonly unknown[] }>;

let sent: Sent;
/** Texts that the catalogue does not expect at their position. */
const unexpected: string[] = [];

beforeAll(async () => {
  sent = await capture();
  if (UPDATES) update();
});

async function capture(schema = "leasehold"): Promise<Sent> {
  const texts: Sent = new Map();
  const known = new Map<string, Statement>();
  let next: Statement[] = [];
  const client: PgPoolClient = {
    async query({ text, values }) {
      if (FRAME.test(text)) return { rows: [] };
      const statement = known.get(text) ?? next.shift();
      if (!statement) {
        unexpected.push(text);
        return { rows: [] };
      }
      known.set(text, statement);
      texts.set(statement.name, { text, values });
      return { rows: [...statement.rows] };
    },
    on: () => {},
    removeListener: () => {},
    release: () => {},
  };
  const pool: PgPool = { connect: async () => client };
  let skippedMs = 0;
  const { clock } = systemEnv;
  const monotonic = () => clock.monotonic() + skippedMs;
  const env: Env = { ...systemEnv, clock: { ...clock, monotonic } };

  next = [...OPENING];
  const prepared = new Prepared();
  prepared.enable();
  await poolSql(pool, env.clock, prepared).query(CONFIRM);
  const database = await openPostgres({ pool, watch: "poll", schema }, env);
  for (const [send, ...statements] of CALLS) {
    next = [...statements];
    await send(database, (ms) => {
      skippedMs += ms;
    });
  }
  await database.close();
  return texts;
}

function render(statement: Statement): string {
  return `${[...headOf(statement), ...linesOf(statement)].join("\n")}\n`;
}

function headOf({ decides, parameters }: Statement): string[] {
  const comments = decides
    .replaceAll(/(.{1,96})(\s|$)/g, "-- $1\n")
    .trim()
    .split("\n");
  return [...comments, ...parameters.map((parameter, at) => `-- $${at + 1} ${parameter}`), ""];
}

function linesOf({ name, base }: Statement): string[] {
  const lines = textOf(name);
  const whole = base === undefined ? undefined : CATALOGUE.find((each) => each.name === base);
  if (!whole) return lines;
  const baseLines = textOf(whole.name);
  const baseHead = headOf(whole).length;
  const short: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const { start, length } = longestRun(lines.slice(at), baseLines);
    const first = baseHead + start + 1;
    const same = length >= SHORTEST_RUN;
    short.push(
      same ? `-- lines ${first} to ${first + length - 1} of ${base}.sql` : (lines[at] as string),
    );
    at += same ? length : 1;
  }
  return short;
}

function textOf(name: string): string[] {
  return sent.get(name)?.text.trim().split("\n") ?? [];
}

/** Returns the longest run of `whole` that starts `lines`. */
function longestRun(lines: readonly string[], whole: readonly string[]) {
  let longest = { start: 0, length: 0 };
  for (const start of whole.keys()) {
    const end = lines.findIndex((line, at) => line !== whole[start + at]);
    const length = end === -1 ? lines.length : end;
    if (length > longest.length) longest = { start, length };
  }
  return longest;
}

function update(): void {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER);
  for (const statement of CATALOGUE) writeFileSync(fileOf(statement), render(statement));
}

function fileOf({ name }: Statement): URL {
  return new URL(`${name}.sql`, FOLDER);
}

it("the catalogue names each statement", () => {
  expect(unexpected, `name them in ${CATALOGUE_FILES}, at the calls that send them`).toEqual([]);
});

it.each(CATALOGUE)("$name is in its file as it is sent", (statement) => {
  const { name, parameters } = statement;
  const values = sent.get(name)?.values;
  expect(values, `no call sends ${name}: remove it from ${CATALOGUE_FILES}`).toBeDefined();
  expect(values, `name the parameters in ${CATALOGUE_FILES}`).toHaveLength(parameters.length);
  const file = fileOf(statement);
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  expect(text, `statements/${name}.sql is out of date. Rewrite it: ${COMMAND}`).toBe(
    render(statement),
  );
});

it("in another schema, each statement is the same but for its name", async () => {
  const others = await capture("another");
  expect([...others.keys()]).toEqual([...sent.keys()]);
  for (const [name, { text }] of others) {
    const names = text
      .replaceAll('"another".', "leasehold.")
      .replaceAll("'leasehold_another", "'leasehold");
    expect(names).toBe(sent.get(name)?.text);
    // A message for the log of the database, which waits for all of its standbys.
    if (name !== "connection-confirm") expect(text).not.toMatch(/leasehold(?!_another)/);
  }
});

it("each file belongs to a statement", () => {
  const names = CATALOGUE.map(({ name }) => `${name}.sql`);
  expect(readdirSync(FOLDER).sort(), `Remove what is left over: ${COMMAND}`).toEqual(names.sort());
});
