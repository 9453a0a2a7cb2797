/**
 * The schema of the tables. Every statement of the stores names it `leasehold`. In a database where it has another
 * name, each text gets that name before it is sent. The search path would not do: behind a pooler in transaction mode
 * a SET reaches the sessions of other clients.
 *
 *   leasehold.lease             the table           "app".lease
 *   'leasehold.task_seq'        its name as text    '"app".task_seq'
 *   'leasehold', 'leasehold x'  channel, locks      'leasehold_app', 'leasehold_app x'
 */
import { checkSchema } from "../../lease/index.js";
import {
  type Backend,
  CHANNEL,
  type RawBackend,
  type Schema,
  type Session,
  type Sql,
} from "./connection.js";
import { explainingRights } from "./rights.js";

const NAME = "leasehold";

export const DEFAULT_SCHEMA: Schema = {
  name: NAME,
  sqlName: NAME,
  channel: CHANNEL,
  sql: (text) => text,
};

/** @throws InvalidOptionError */
export function schemaNamed(name: string = NAME): Schema {
  checkSchema(name);
  if (name === NAME) return DEFAULT_SCHEMA;
  const [sqlName, channel] = [`"${name}"`, `${CHANNEL}_${name}`];
  const texts = new Map<string, string>();
  return {
    name,
    sqlName,
    channel,
    sql(text) {
      let found = texts.get(text);
      if (found === undefined) {
        found = text
          .replaceAll(/'leasehold\b(?!\.)/g, `'${channel}`)
          .replaceAll(/\bleasehold\./g, `${sqlName}.`);
        if (texts.size < MOST_TEXTS) texts.set(text, found);
      }
      return found;
    },
  };
}

/** Above the number of statements; some have one text per number of queues. */
const MOST_TEXTS = 300;

/** The backend, for statements that name the schema `leasehold`. */
export function inSchema(backend: RawBackend, schema: Schema): Backend {
  const within = (sql: Sql) => sqlIn(schema, explainingRights(sql, schema.name, backend.general));
  return { ...backend, general: within(backend.general), control: within(backend.control), schema };
}

function sqlIn(schema: Schema, sql: Sql): Sql {
  return {
    query: (text, values, options) => sql.query(schema.sql(text), values, options),
    transaction: (work, options) =>
      sql.transaction((session) => work(sessionIn(schema, session)), options),
  };
}

function sessionIn(schema: Schema, session: Session): Session {
  return { query: (text, values) => session.query(schema.sql(text), values) };
}
