/**
 * SQL over the connections of a pool. Where each connection is a session of its own, statements stay
 * prepared: planning takes several times as long as running them.
 */

import { type Clock, digestOf } from "../../env/index.js";
import { type CallOptions, StoreUnavailableError } from "../../lease/index.js";
import {
  DEFAULT_TIMEOUT_MS,
  decoderOf,
  encode,
  type Parameter,
  type Session,
  type Sql,
} from "./connection.js";
import { Demotions } from "./connection-demotions.js";
import type { Notice, PgClient, PgPool, PgPoolClient } from "./connection-drivers.js";
import {
  breaksConnection,
  connectError,
  isNotPrepared,
  isReadOnly,
  storeError,
} from "./failures.js";

/** Above the needs of most clients; some statements have one text per number of queues. */
const MOST_PREPARED = 200;

/**
 * Plans must use the indexes from the start. A plan may be made while its tables are small enough for a
 * full scan, and kept after they have grown. A statement has one process: counting the tasks of one tenant with
 * parallel workers would take the processors from the renewals of others.
 */
const SETTINGS = `SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false),
  set_config('max_parallel_workers_per_gather', '0', false)`;

/**
 * Ends a statement of a connection that was destroyed, such as a scan that took too long: otherwise it would run to its
 * end beside those that come after it. PostgreSQL can do that since version 14, and not on Windows.
 */
const END_ABANDONED = `DO $$ BEGIN
  PERFORM set_config('client_connection_check_interval', '1s', false);
EXCEPTION WHEN undefined_object OR invalid_parameter_value THEN NULL;
END $$`;

/**
 * Commits a record without content, and so waits for the synchronous standbys, if there are any. Their
 * confirmation covers this record and every earlier commit.
 */
export const CONFIRM = "SELECT pg_logical_emit_message(true, 'leasehold', '')::text AS at";
/** The server function that warns when that wait was cancelled, after the commit. */
const CANCELLED_WAIT = "SyncRepWaitForLSN";

const TYPES = { getTypeParser: decoderOf };

export function sessionOf(client: PgClient): Session {
  return {
    query: <Row>(text: string, values: readonly Parameter[] = []) =>
      send<Row>(client, text, values),
  };
}

async function send<Row>(
  client: PgClient,
  text: string,
  values: readonly Parameter[],
  name?: string,
): Promise<Row[]> {
  const named = name === undefined ? {} : { name };
  const { rows } = await client.query({ ...named, text, values: values.map(encode), types: TYPES });
  return rows as Row[];
}

/**
 * Names of prepared statements. There are none until a connection is known to be a session of its own,
 * and none again once a server does not know a statement that was prepared.
 */
export class Prepared {
  readonly #names = new Map<string, string>();
  /** Connections whose session has the store's settings. */
  readonly #settled = new WeakSet<PgClient>();
  #enabled = false;

  enable(): void {
    this.#enabled = true;
  }

  /**
   * @returns the result of `query`: run by name, or once more without a name
   */
  async ask<Row>(client: PgClient, text: string, values: readonly Parameter[]): Promise<Row[]> {
    if (!this.#enabled) return send(client, text, values);
    const name = this.#nameOf(text);
    if (name === undefined) return send(client, text, values);
    try {
      if (!this.#settled.has(client)) {
        this.#settled.add(client);
        await send(client, SETTINGS, []);
        await send(client, END_ABANDONED, []);
      }
      return await send(client, text, values, name);
    } catch (error) {
      if (!isNotPrepared(error)) throw error;
      // The server rejected the statement before running it. A pooler shares the sessions although
      // notifications arrive.
      this.#enabled = false;
      return send(client, text, values);
    }
  }

  /**
   * Derives the name from the text, so that two clients never mean different statements by one name.
   */
  #nameOf(text: string): string | undefined {
    let name = this.#names.get(text);
    if (name === undefined && this.#names.size < MOST_PREPARED) {
      name = `leasehold_${digestOf(text).slice(0, 32)}`;
      this.#names.set(text, name);
    }
    return name;
  }
}

/** SQL over the connections of a pool. */
export function poolSql(
  pool: PgPool,
  clock: Clock,
  prepared = new Prepared(),
  demotions = new Demotions(),
): Sql {
  const from = { pool, clock, demotions };
  return {
    query: <Row>(text: string, values: readonly Parameter[] = [], options?: CallOptions) =>
      withClient(from, options, (client) => prepared.ask<Row>(client, text, values)),
    transaction: (work, options) =>
      withClient(from, options, async (client) => {
        const session = sessionOf(client);
        await session.query("BEGIN ISOLATION LEVEL READ COMMITTED");
        try {
          const result = await work(session);
          await session.query("COMMIT");
          return result;
        } catch (error) {
          // If ROLLBACK fails too, the connection is broken, and the transaction ends with it.
          await session.query("ROLLBACK");
          throw error;
        }
      }),
  };
}

/**
 * Runs `work` on a connection of its own, within `timeoutMs`.
 *
 * A connection that has not responded in time is destroyed. After a failover or a network partition it
 * would never respond, and it would occupy its slot in the pool. Its statement may still take effect,
 * so the outcome is unknown. A busy server sees no storm of new connections, because callers batch:
 * each lane has one statement in flight.
 *
 * If an administrator cancels a wait for a synchronous standby (`pg_cancel_backend`), the server
 * reports success although a failover may still lose the commit. So the store waits again.
 */
function withClient<T>(
  { pool, clock, demotions }: { pool: PgPool; clock: Clock; demotions: Demotions },
  { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
  work: (client: PgClient) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let client: PgPoolClient | undefined;
    let over = false;
    // A checked-out client emits `error` when it loses its connection; without a listener that would
    // end the process.
    const onError = () => {};
    let unconfirmed = false;
    const onNotice = ({ routine }: Notice) => {
      if (routine === CANCELLED_WAIT) unconfirmed = true;
    };
    const finish = (destroy: boolean) => {
      over = true;
      timer.cancel();
      if (!client) return;
      client.removeListener("notice", onNotice);
      // A destroyed client may report its end later.
      if (!destroy) client.removeListener("error", onError);
      client.release(destroy);
    };
    const timer = clock.timer(timeoutMs, () => {
      const what = client ? "no response" : "no free connection";
      const outcome = client ? "unknown" : "none";
      finish(true);
      const within = `within ${Math.round(timeoutMs)} ms`;
      reject(new StoreUnavailableError(`PostgreSQL: ${what} ${within}`, { outcome }));
    });
    const run = async (connected: PgPoolClient) => {
      if (over) return connected.release();
      client = connected;
      client.on("error", onError);
      client.on("notice", onNotice);
      try {
        const result = await work(client);
        while (unconfirmed && !over) {
          unconfirmed = false;
          await send(client, CONFIRM, []);
        }
        if (over) return;
        finish(false);
        resolve(result);
      } catch (error) {
        if (over) return;
        finish(breaksConnection(error));
        if (isReadOnly(error)) demotions.refused(connected);
        reject(storeError(error, true));
      }
    };
    // A pool may also throw if its settings are invalid.
    demotions.take(pool).then(run, (error) => {
      if (over) return;
      finish(false);
      reject(connectError(error));
    });
  });
}
