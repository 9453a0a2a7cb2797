/**
 * The wanted state of the generator: whether it should run, and how fast. It is kept where the tasks are, so that all
 * instances return the same:
 *
 *   PostgreSQL, PGlite   a table in the schema of the store, created at the first write or by `leasehold migrate`
 *   memory               a map
 *   a server             the routes of that server
 */
import { StoreMisconfiguredError } from "leasehold";
import { type Backing, type By, memoryBacking, type Operator } from "leasehold/internal";
import { GENERATOR_RESOURCE, type GeneratorStatus } from "./shared.js";

export interface GeneratorWanted {
  readonly running: boolean;
  /** Tasks per second, 0.01 to 1,000. */
  readonly ratePerSecond: number;
}

type Change = Partial<GeneratorWanted>;

const UNWRITTEN: GeneratorWanted = { running: false, ratePerSecond: 1 };

export class GeneratorState {
  readonly #backing: Backing;
  /** Only a database may lack its place. */
  #hasPlace: boolean;

  /** @param backing default: in this object alone */
  constructor(backing = memoryBacking()) {
    this.#backing = backing;
    this.#hasPlace = backing.kind !== "sql";
  }

  /** `{ running: false, ratePerSecond: 1 }` until the first write. */
  async read(namespace: string): Promise<GeneratorWanted> {
    const backing = this.#backing;
    if (backing.kind === "sql" && !this.#hasPlace) {
      const [found] = await backing.query<{ there: boolean }>(IS_THERE);
      if (!found?.there) return UNWRITTEN;
      this.#hasPlace = true;
    }
    return readFrom(backing, namespace);
  }

  /** Without an entry in the audit. */
  async write(namespace: string, change: Change): Promise<GeneratorWanted> {
    await this.#createPlace();
    return writeTo(this.#backing, namespace, change, null);
  }

  /** An operator action. Returns what is wanted from then on. */
  async steer(
    operator: Operator,
    namespace: string,
    change: Change,
    by: By,
  ): Promise<GeneratorWanted> {
    // Apart from the transaction of the action, which writes a row as all later ones do.
    await this.#createPlace();
    const action = `generator.${verbOf(change)}`;
    return operator.perform(
      { ...by, namespace, action, target: GENERATOR_RESOURCE },
      async ({ backing }) => {
        const value = await writeTo(backing, namespace, change, by.reason);
        return { value, details: value };
      },
    );
  }

  async #createPlace(): Promise<void> {
    const backing = this.#backing;
    if (backing.kind !== "sql" || this.#hasPlace) return;
    await backing.query(CREATE_TABLE).catch((error: unknown) => {
      throw isRefused(error) ? withoutTable(error) : error;
    });
    this.#hasPlace = true;
  }
}

function verbOf({ running }: Change): "start" | "stop" | "rate" {
  if (running === undefined) return "rate";
  return running ? "start" : "stop";
}

async function readFrom(backing: Backing, namespace: string): Promise<GeneratorWanted> {
  switch (backing.kind) {
    case "sql":
      return (await backing.query<GeneratorWanted>(READ, [namespace]))[0] ?? UNWRITTEN;
    case "memory":
      return backing.update(placeOf(namespace), (wanted = UNWRITTEN) => wanted);
    case "server":
      return wantedOf(await backing.read(namespace, PATH));
  }
}

/** @param reason for the audit of a server; elsewhere the caller writes the entry */
async function writeTo(
  backing: Backing,
  namespace: string,
  change: Change,
  reason: string | null,
): Promise<GeneratorWanted> {
  const { running, ratePerSecond } = change;
  switch (backing.kind) {
    case "sql": {
      const values = [namespace, running ?? null, ratePerSecond ?? null];
      const [row] = await backing.query<GeneratorWanted>(WRITE, values);
      return row ?? UNWRITTEN;
    }
    case "memory":
      return backing.update(placeOf(namespace), (wanted = UNWRITTEN) => ({ ...wanted, ...change }));
    case "server": {
      const why = reason === null ? {} : { reason };
      let wanted: GeneratorWanted | undefined;
      if (ratePerSecond !== undefined) {
        const body = JSON.stringify({ ratePerSecond, ...why });
        const rate = { method: "PUT", path: `${PATH}/rate`, body } as const;
        wanted = wantedOf(await backing.change(namespace, rate));
      }
      if (running !== undefined) {
        const query = reason === null ? "" : `?${new URLSearchParams(why).toString()}`;
        const path = `${PATH}/${verbOf(change)}${query}`;
        wanted = wantedOf(await backing.change(namespace, { method: "POST", path }));
      }
      return wanted ?? readFrom(backing, namespace);
    }
  }
}

const PATH = "/api/generator";

function wantedOf(answer: unknown): GeneratorWanted {
  const { running, ratePerSecond } = answer as GeneratorStatus;
  return { running, ratePerSecond };
}

/** In memory. */
const placeOf = (namespace: string) => `generator of ${namespace}`;

const IS_THERE = "SELECT to_regclass('leasehold.generator') IS NOT NULL AS there";
/**
 * Creates the table unless it exists. IF NOT EXISTS alone would demand the right to create tables even then, and fails
 * where two run at once, which the lock prevents.
 */
export const CREATE_TABLE = `
DO $$ BEGIN
  IF to_regclass('leasehold.generator') IS NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('leasehold generator', 0));
    CREATE TABLE IF NOT EXISTS leasehold.generator (
      namespace text COLLATE "C" PRIMARY KEY,
      running boolean NOT NULL,
      rate_per_second double precision NOT NULL
    );
  END IF;
END $$`;
const COLUMNS = `running, rate_per_second AS "ratePerSecond"`;
const READ = `SELECT ${COLUMNS} FROM leasehold.generator WHERE namespace = $1`;
/** Values: namespace, running, ratePerSecond; null keeps the current value. */
const WRITE = `
INSERT INTO leasehold.generator AS g (namespace, running, rate_per_second)
VALUES ($1, coalesce($2::bool, ${UNWRITTEN.running}), coalesce($3::float8, ${UNWRITTEN.ratePerSecond}))
ON CONFLICT (namespace) DO UPDATE SET
  running = coalesce($2::bool, g.running),
  rate_per_second = coalesce($3::float8, g.rate_per_second)
RETURNING ${COLUMNS}`;

const PERMISSION_DENIED = "42501";

function isRefused(error: unknown): error is StoreMisconfiguredError {
  if (!(error instanceof StoreMisconfiguredError)) return false;
  return (error.cause as { code?: unknown } | undefined)?.code === PERMISSION_DENIED;
}

function withoutTable({ cause }: StoreMisconfiguredError): StoreMisconfiguredError {
  return new StoreMisconfiguredError(
    "this database has no table of the generator, and its user may not create one: run `leasehold migrate` as the owner of the schema",
    cause,
  );
}
