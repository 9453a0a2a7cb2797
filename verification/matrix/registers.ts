/**
 * What leases protect in the matrix: each write is done twice, behind a guard and without one. The one
 * without must be seen to suffer from a late write, the other one must not.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Redis } from "ioredis";
import { StaleTokenError } from "leasehold";
import {
  FENCE_TABLE,
  FENCING_HEADER,
  fencing,
  memoryGuard,
  redisGuard,
  sqlGuard,
} from "leasehold/fence";
import pg from "pg";

/** The tokens that were written, in the order of the writes. */
export interface Written {
  readonly fenced: readonly number[];
  readonly unfenced: readonly number[];
}

export interface Registers {
  /** @returns `written`, or `STALE_TOKEN` where the guard has refused it */
  write(resource: string, token: number): Promise<string>;
  read(resource: string): Promise<Written>;
  close(): Promise<void>;
}

/** Where they are: behind HTTP handlers that are guarded, or in the engine itself behind its own guard. */
export interface RegistersPlace {
  readonly kind: "http" | "postgres" | "redis";
  readonly url: string;
}

export function openRegisters({ kind, url }: RegistersPlace): Promise<Registers> {
  return { http: httpRegisters, postgres: sqlRegisters, redis: redisRegisters }[kind](url);
}

/** A server in this process, which keeps them in memory. */
export async function serveRegisters(): Promise<RegistersPlace & { close(): Promise<void> }> {
  const written = { fenced: new Map<string, number[]>(), unfenced: new Map<string, number[]>() };
  const resourceOf = (path = "") => decodeURIComponent(path.split("/")[2] ?? "");
  const handle =
    (where: keyof Written) => async (request: AsyncIterable<Uint8Array>, to: Reply) => {
      const { url } = request as unknown as { url: string };
      const resource = resourceOf(url);
      const tokens = written[where].get(resource) ?? [];
      written[where].set(resource, [...tokens, Number(await text(request))]);
      to.end();
    };
  const guard = fencing<{ url?: string }>({
    store: memoryGuard(),
    resource: ({ url }) => resourceOf(url),
  });
  const fenced = guard.node(handle("fenced") as never);
  const unfenced = handle("unfenced");
  const server = createServer((request, response) => {
    if (request.url?.startsWith("/fenced/")) return fenced(request as never, response);
    if (request.url?.startsWith("/unfenced/")) return void unfenced(request, response);
    const resource = resourceOf(request.url);
    const read = (where: keyof Written) => written[where].get(resource) ?? [];
    response.end(JSON.stringify({ fenced: read("fenced"), unfenced: read("unfenced") }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    kind: "http",
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server.close(), "close");
      server.closeAllConnections();
      await closed;
    },
  };
}
interface Reply {
  end(): unknown;
}

async function httpRegisters(base: string): Promise<Registers> {
  const put = async (where: keyof Written, resource: string, token: number) => {
    const response = await fetch(`${base}/${where}/${encodeURIComponent(resource)}`, {
      method: "PUT",
      body: `${token}`,
      headers: { [FENCING_HEADER]: `${token}` },
    });
    await response.arrayBuffer();
    if (response.status === 412) return "STALE_TOKEN";
    if (!response.ok) throw new Error(`the registers answered ${response.status}`);
    return "written";
  };
  return {
    async write(resource, token) {
      await put("unfenced", resource, token);
      return put("fenced", resource, token);
    },
    async read(resource) {
      const response = await fetch(`${base}/read/${encodeURIComponent(resource)}`);
      return (await response.json()) as Written;
    },
    close: async () => {},
  };
}

/** In PostgreSQL, behind the guard that holds a row. */
async function sqlRegisters(url: string): Promise<Registers> {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  // The server may be killed meanwhile.
  pool.on("error", () => {});
  // Several may do so at once.
  await pool.query(`SELECT pg_advisory_xact_lock(1); ${FENCE_TABLE}
    CREATE TABLE IF NOT EXISTS written (at bigserial, resource text, fenced boolean, token bigint)`);
  const insert = (client: pg.Pool | pg.PoolClient, resource: string, fenced: boolean, to: number) =>
    client.query("INSERT INTO written (resource, fenced, token) VALUES ($1, $2, $3)", [
      resource,
      fenced,
      to,
    ]);
  const guard = sqlGuard<pg.PoolClient>(async (work) => {
    const client = await pool.connect();
    let failure: Error | undefined;
    client.on("error", () => {});
    try {
      await client.query("BEGIN");
      const value = await work(client);
      await client.query("COMMIT");
      return value;
    } catch (error) {
      await client.query("ROLLBACK").catch((broken: Error) => {
        failure = broken;
      });
      throw error;
    } finally {
      client.release(failure);
    }
  });
  return {
    async write(resource, token) {
      await insert(pool, resource, false, token);
      return refusedOrWritten(
        guard.guard(resource, token, (tx) => insert(tx, resource, true, token)),
      );
    },
    async read(resource) {
      const { rows } = await pool.query<{ fenced: boolean; token: number }>(
        "SELECT fenced, token::float8 AS token FROM written WHERE resource = $1 ORDER BY at",
        [resource],
      );
      const read = (fenced: boolean) =>
        rows.filter((row) => row.fenced === fenced).map(({ token }) => token);
      return { fenced: read(true), unfenced: read(false) };
    },
    close: () => pool.end(),
  };
}

/** In Redis, behind the guard that is one script with the write. */
async function redisRegisters(url: string): Promise<Registers> {
  const client = new Redis(url, { retryStrategy: () => 50 });
  client.on("error", () => {});
  const guard = redisGuard((command, ...args) => client.call(command, ...args));
  const keyOf = (resource: string, where: keyof Written) => `written:${where}:{${resource}}`;
  const read = async (resource: string, where: keyof Written) =>
    (await client.lrange(keyOf(resource, where), 0, -1)).map(Number);
  return {
    async write(resource, token) {
      await client.rpush(keyOf(resource, "unfenced"), token);
      const script = "return redis.call('RPUSH', KEYS[1], ARGV[1])";
      const keys = [keyOf(resource, "fenced")];
      return refusedOrWritten(guard.write(resource, token, { script, keys, args: [token] }));
    },
    read: async (resource) => ({
      fenced: await read(resource, "fenced"),
      unfenced: await read(resource, "unfenced"),
    }),
    close: async () => client.disconnect(),
  };
}

async function refusedOrWritten(writing: Promise<unknown>): Promise<string> {
  try {
    await writing;
    return "written";
  } catch (error) {
    if (error instanceof StaleTokenError) return error.code;
    throw error;
  }
}
