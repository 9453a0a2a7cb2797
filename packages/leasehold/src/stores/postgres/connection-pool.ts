/**
 * SQL over the connections of a pool. Statements are planned once a connection where each of ours is a
 * session of its own: planning takes several times as long as what they do.
 */

import { type CallOptions, StoreUnavailableError } from "../../core/index.js";
import { type Clock, digestOf } from "../../env/index.js";
import {
  DEFAULT_TIMEOUT_MS,
  decoderOf,
  encode,
  type Parameter,
  type Session,
  type Sql,
} from "./connection.js";
import type { Notice, PgClient, PgPool, PgPoolClient } from "./connection-drivers.js";
import { breaksConnection, isNotPrepared, storeError } from "./failures.js";

/** More than most clients use; some statements have a text for each number of queues. */
const MOST_PREPARED = 200;

/**
 * A plan is made once, perhaps while its tables are small enough to be read as a whole, and kept when they
 * have grown. It must look rows up by their indexes from the start.
 */
const SETTINGS = `SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)`;

/**
 * Commits something that means nothing, and so waits for the synchronous standbys, if there are any: what they
 * confirm is this and all that was committed before.
 */
export const CONFIRM = "SELECT pg_logical_emit_message(true, 'leasehold', '')::text AS at";
/** The function of the server that warns when somebody has cancelled that wait, after the commit. */
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
 * The names under which statements are kept prepared. None until it is known that a connection is a
 * session of its own, and none again where a server turns out not to know one that was prepared.
 */
export class Prepared {
  readonly #names = new Map<string, string>();
  /** Whose session has our settings. */
  readonly #settled = new WeakSet<PgClient>();
  #enabled = false;

  enable(): void {
    this.#enabled = true;
  }

  /** @returns what `query` returns: asked for by name, or once more without one */
  async ask<Row>(client: PgClient, text: string, values: readonly Parameter[]): Promise<Row[]> {
    if (!this.#enabled) return send(client, text, values);
    const name = this.#nameOf(text);
    if (name === undefined) return send(client, text, values);
    try {
      if (!this.#settled.has(client)) {
        this.#settled.add(client);
        await send(client, SETTINGS, []);
      }
      return await send(client, text, values, name);
    } catch (error) {
      if (!isNotPrepared(error)) throw error;
      // Refused before it was run. Something pools our sessions although notifications arrive.
      this.#enabled = false;
      return send(client, text, values);
    }
  }

  /** Says what is in it, so that no two clients can mean different statements by one name. */
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
export function poolSql(pool: PgPool, clock: Clock, prepared = new Prepared()): Sql {
  return {
    query: <Row>(text: string, values: readonly Parameter[] = [], options?: CallOptions) =>
      withClient(pool, clock, options, (client) => prepared.ask<Row>(client, text, values)),
    transaction: (work, options) =>
      withClient(pool, clock, options, async (client) => {
        const session = sessionOf(client);
        await session.query("BEGIN ISOLATION LEVEL READ COMMITTED");
        try {
          const result = await work(session);
          await session.query("COMMIT");
          return result;
        } catch (error) {
          // Where this fails too the connection is broken, and with it goes the transaction.
          await session.query("ROLLBACK");
          throw error;
        }
      }),
  };
}

/**
 * Runs `work` on a connection of its own, within `timeoutMs`.
 *
 * A connection that has not answered in time is destroyed rather than awaited: after a failover or
 * a cut network it would never answer, and it would block its place in the pool. What it was
 * running may still take effect: the outcome is unknown. A busy server gets no storm of new
 * connections from this, because callers batch: each lane has one statement in flight.
 *
 * A statement that waits for a synchronous standby is answered as done when an administrator cancels the
 * wait (`pg_cancel_backend`), although a failover may still lose it. So it is waited for again.
 */
function withClient<T>(
  pool: PgPool,
  clock: Clock,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
  work: (client: PgClient) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let client: PgPoolClient | undefined;
    let over = false;
    // A client that loses its connection while it is ours emits `error`, which would end the process.
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
      // A destroyed client may report its end later on.
      if (!destroy) client.removeListener("error", onError);
      client.release(destroy);
    };
    const timer = clock.timer(timeoutMs, () => {
      const what = client ? "no answer" : "no free connection";
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
        reject(storeError(error, true));
      }
    };
    // What is wrong with its settings a pool may also throw.
    const connected = (async () => pool.connect())();
    connected.then(run, (error) => {
      if (over) return;
      finish(false);
      reject(storeError(error, false));
    });
  });
}
