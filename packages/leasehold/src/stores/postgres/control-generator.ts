/** The generator's wanted state in PostgreSQL. */
import type { GeneratorState, GeneratorWanted } from "../../tasks/port.js";
import type { Connections } from "./shared.js";

interface Row {
  readonly running: boolean;
  readonly ratePerSecond: number;
}
const COLUMNS = `running, rate_per_second AS "ratePerSecond"`;
const UNWRITTEN: GeneratorWanted = { running: false, ratePerSecond: 1 };

const READ = `SELECT ${COLUMNS} FROM leasehold.generator WHERE namespace = $1`;
/** Values: namespace, running, ratePerSecond; null keeps the current value. */
const WRITE = `
INSERT INTO leasehold.generator AS g (namespace, running, rate_per_second)
VALUES ($1, coalesce($2::bool, ${UNWRITTEN.running}), coalesce($3::float8, ${UNWRITTEN.ratePerSecond}))
ON CONFLICT (namespace) DO UPDATE SET
  running = coalesce($2::bool, g.running),
  rate_per_second = coalesce($3::float8, g.rate_per_second)
RETURNING ${COLUMNS}`;

export class PostgresGeneratorState implements GeneratorState {
  readonly #sql: Connections["backend"]["general"];

  constructor({ backend }: Connections) {
    this.#sql = backend.general;
  }

  async read(namespace: string): Promise<GeneratorWanted> {
    const [row] = await this.#sql.query<Row>(READ, [namespace]);
    return row ?? { ...UNWRITTEN };
  }

  async write(namespace: string, change: Partial<GeneratorWanted>): Promise<GeneratorWanted> {
    const { running = null, ratePerSecond = null } = change;
    const [row] = await this.#sql.query<Row>(WRITE, [namespace, running, ratePerSecond]);
    return row ?? this.read(namespace);
  }
}
