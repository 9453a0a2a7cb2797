/**
 * What happens while a fleet is upgraded, on each engine. Every step that is yielded has been seen.
 *
 *   PostgreSQL   old clients work ──▶ a next one may not migrate: refused ──▶ one that may: migrates, while a lease is
 *                held and a task waits ──▶ all contend, hand over, do each other's tasks ──▶ a step that does not suit
 *                the old code: old clients are refused, next ones go on
 *   others       leases in the records of Redis, etcd and so on
 *   server       clients of both at servers of both, on one database
 */

import { setTimeout as delay } from "node:timers/promises";
import { systemEnv } from "leasehold/internal";
import { ENGINES, openBy } from "leasehold/internal/open";
import pg from "pg";
import { poolSql } from "../../packages/leasehold/src/stores/postgres/connection-pool.js";
import { migrate } from "../../packages/leasehold/src/stores/postgres/migrate.js";
import {
  MIGRATIONS,
  type Migration,
} from "../../packages/leasehold/src/stores/postgres/migrations.js";
import { EXPAND, EXPAND_NAME } from "./additions.js";
import { type Client, Reported, Stage } from "./stage.js";
import type { Version, Versions } from "./versions.js";

/** Times that each client holds a contended resource. */
const TIMES = 5;
const POLL_MS = 10;

export async function* onPostgres({ old, next }: Versions, url: string): AsyncGenerator<string> {
  const stage = await Stage.open();
  const pool = new pg.Pool({ connectionString: url });
  const versionOf = async () => {
    const { rows } = await pool.query("SELECT max(version) AS version FROM leasehold.migration");
    return rows[0]?.version as number;
  };
  try {
    const [before, other] = [await stage.client(old, url), await stage.client(old, url)];
    const version = await versionOf();
    const expand = stepAfter(MIGRATIONS, EXPAND_NAME, EXPAND);
    const token = await before.ask("hold", "kept");
    const task = await before.ask("enqueue", "waiting", "a task");
    yield `two clients of the old version work at version ${version} of the schema`;

    const app = await withoutRights(pool, url);
    const message = await refusalOf(stage, next, app.url);
    await app.remove();
    expectText(message, [`"${EXPAND_NAME}" of this release`, "run `leasehold migrate` as"]);
    yield `a client of the next version that may not migrate is refused: ${message}`;

    const during = [before, other].map((client) => client.ask("contend", "during", TIMES));
    const after = await stage.client(next, url);
    await Promise.all(during);
    await expectOneAtATime(stage, "during", 2 * TIMES);
    expectEqual(await versionOf(), expand.version, "the version of the schema");
    expectEqual(await before.ask("renew", "kept"), token, "the token of the lease that was held");
    await before.ask("release", "kept");
    yield `a client of the next version migrates to version ${expand.version}, and the old ones go on meanwhile`;

    await after.ask("work", "waiting");
    expectEqual(await before.ask("result", task), `a task by ${after.holder}`, "the output");
    await after.ask("stopWork");
    yield "it does the task that the old version has left";

    const late = await stage.client(old, url);
    yield "a client of the old version that starts now goes on";

    const clients = [before, other, late, after, await stage.client(next, url)];
    yield* leases(stage, clients, url);
    yield* once(clients);
    yield* tasks(stage, old, next, url);

    const contract = stepAfter([...MIGRATIONS, expand], "contract", []);
    const compatibleFrom = contract.version - 1;
    const steps = [...MIGRATIONS, expand, { ...contract, compatibleFrom }];
    await migrate(poolSql(pool, systemEnv.clock), undefined, steps);
    const refused = await refusalOf(stage, old, url);
    expectText(refused, [`since its step "contract" it needs code of version ${compatibleFrom}`]);
    await (await stage.client(next, url)).ask("hold", "after");
    yield `after a step that does not suit it the old version is refused, and the next one goes on: ${refused}`;
  } finally {
    await stage.close();
    await pool.end();
  }
}

/** An engine that keeps leases alone. */
export async function* onLeases({ old, next }: Versions, url: string): AsyncGenerator<string> {
  const stage = await Stage.open();
  try {
    const clients = [await stage.client(old, url), await stage.client(next, url)];
    yield* leases(stage, [...clients, await stage.client(old, url)], url);
  } finally {
    await stage.close();
  }
}

/** @param url of a database, on which servers of both versions run */
export async function* onServers({ old, next }: Versions, url: string): AsyncGenerator<string> {
  const stage = await Stage.open();
  try {
    const oldServer = await stage.server(old, url);
    const nextServer = await stage.server(next, url);
    yield "a server of each version runs on one database";
    const clients = [
      await stage.client(old, oldServer),
      await stage.client(next, oldServer),
      await stage.client(old, nextServer),
      await stage.client(next, nextServer),
    ];
    yield* leases(stage, clients, url);
    yield* once(clients);
    yield* tasks(stage, old, next, oldServer, nextServer);

    const capable = async (server: string) => {
      const response = await fetch(`${server}/v1/capabilities`);
      const { leases } = (await response.json()) as { leases: { upgradeNote?: boolean } };
      return leases.upgradeNote ?? false;
    };
    expectEqual(await capable(nextServer), true, "the capability of the next server");
    expectEqual(await capable(oldServer), false, "that of the old one");
    const noted = async (server: string) => {
      const leaseId = `${Buffer.from("noted").toString("base64url")}.${"0".repeat(48)}`;
      const body = JSON.stringify([{ leaseId, holder: "h", ttlMs: 1_000, upgradeNote: "next" }]);
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${server}/v1/leases/acquire`, {
        method: "POST",
        headers,
        body,
      });
      return response.status;
    };
    expectEqual(await noted(nextServer), 200, "the answer of the next server");
    expectEqual(await noted(oldServer), 422, "the answer of the old server");
    yield "a member that only the next version knows is sent to servers that announce it; the old one would refuse it";
  } finally {
    await stage.close();
  }
}

/** What clients of both versions do with leases, wherever they are kept. */
async function* leases(
  stage: Stage,
  clients: readonly Client[],
  url: string,
): AsyncGenerator<string> {
  const stores = await openBy(ENGINES, url, systemEnv);
  const waiting = (resource: string) => stores.waiters?.({ namespace: "default", resource });
  try {
    // All wait before the first turn, so that they take turns.
    const [first, ...others] = clients as [Client, ...Client[]];
    await first.ask("hold", "contended");
    const contending = others.map((client) => client.ask("contend", "contended", TIMES));
    await untilWaiting("contended", waiting, others.length, Promise.race(contending));
    await first.ask("release", "contended");
    await Promise.all([first.ask("contend", "contended", TIMES), ...contending]);
    await expectOneAtATime(stage, "contended", clients.length * TIMES + 1 / 2);
    yield `${clients.length} clients of both versions hold one lease ${TIMES} times each, never two at once`;

    for (const from of clients) {
      for (const to of clients.filter(({ version }) => version !== from.version)) {
        const resource = `from ${from.holder} to ${to.holder}`;
        const token = await from.ask("hold", resource);
        const holding = to.ask("hold", resource);
        await untilWaiting(resource, waiting, 1, holding);
        // Neither a poll nor an expiry can wake it now.
        if (stores.waiters) await to.ask("freeze");
        await from.ask("renew", resource);
        await from.ask("release", resource);
        const next = await holding;
        await to.ask("thaw");
        if (!(next > token)) throw new Error(`${resource}: token ${next} follows ${token}`);
        await to.ask("release", resource);
      }
    }
  } finally {
    await stores.close();
  }
  yield stores.waiters
    ? "a release by either version wakes the waiter of the other one, with a greater token"
    : "what either version releases is granted to the waiter of the other one, with a greater token";
}

/**
 * Resolves when so many wait, or at once where a store does not list them.
 * @param ended resolves when one of those that should wait has what it wants
 * @throws Error if that comes first
 */
async function untilWaiting(
  resource: string,
  waiting: (resource: string) => Promise<readonly unknown[]> | undefined,
  count: number,
  ended: Promise<unknown>,
): Promise<void> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  ended.then(over, over);
  for (let found = await waiting(resource); found; found = await waiting(resource)) {
    if (found.length >= count) return;
    if (isOver) {
      await ended;
      throw new Error(`${resource} was granted to a second holder`);
    }
    await delay(POLL_MS);
  }
}

async function* once(clients: readonly Client[]): AsyncGenerator<string> {
  const values = await Promise.all(clients.map((client) => client.ask("once", "once")));
  for (const value of values) expectEqual(value, values[0], "the value of work that is done once");
  yield `work that is done once is done by ${values[0]}, and all have its value`;
}

/**
 * Tasks that one version adds and the other one does, in both directions, also after the first worker has died.
 * @param url where clients add tasks; they are done at `otherUrl`
 */
async function* tasks(
  stage: Stage,
  old: Version,
  next: Version,
  url: string,
  otherUrl = url,
): AsyncGenerator<string> {
  for (const [from, to] of [
    [old, next],
    [next, old],
  ] as const) {
    const adding = await stage.client(from, url);
    const doing = await stage.client(to, otherUrl);
    const kind = `of ${adding.holder}`;
    const dying = await stage.client(from, url);
    const first = await adding.ask("enqueue", kind, "one");
    await dying.ask("hang", kind);
    await dying.end("SIGKILL");
    await doing.ask("work", kind);
    const second = await adding.ask("enqueue", kind, "two");
    expectEqual(await adding.ask("result", second), `two by ${doing.holder}`, "the output");
    expectEqual(await adding.ask("result", first), `one by ${doing.holder}`, "the output");
    await doing.ask("close");
    yield `the ${to.name} version does tasks of the ${from.name} one, also one whose worker was killed`;
  }
}

const stepAfter = (steps: readonly Migration[], name: string, statements: readonly string[]) => {
  const { version, compatibleFrom } = steps.at(-1) as Migration;
  return { version: version + 1, compatibleFrom, name, statements };
};

async function refusalOf(stage: Stage, version: Version, url: string): Promise<string> {
  const error = await stage
    .start(version, url)
    .opened()
    .then(
      () => new Error(`a client of the ${version.name} version was not refused`),
      (reason: unknown) => reason,
    );
  if (error instanceof Reported && error.code === "STORE_MISCONFIGURED") return error.message;
  throw error;
}

/** A role that may use the tables and not change them. */
async function withoutRights(pool: pg.Pool, url: string) {
  const role = `app_${new URL(url).pathname.slice(1)}`;
  await pool.query(`CREATE ROLE ${role} LOGIN PASSWORD 'app'; GRANT USAGE ON SCHEMA leasehold TO ${role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO ${role}`);
  const own = new URL(url);
  own.username = role;
  own.password = "app";
  return { url: own.href, remove: () => pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`) };
}

/** Each time a client holds the resource it writes twice, renews, and writes twice. */
async function expectOneAtATime(stage: Stage, resource: string, times: number): Promise<void> {
  const tokens = await stage.written(resource);
  expectEqual(tokens.length, times * 4, "the number of writes");
  expectEqual(tokens.toSorted((a, b) => a - b).join(), tokens.join(), "the order of tokens");
}

function expectEqual(actual: unknown, expected: unknown, what: string): void {
  if (actual !== expected)
    throw new Error(`${what}: ${String(actual)} instead of ${String(expected)}`);
}

function expectText(text: string, parts: readonly string[]): void {
  for (const part of parts) {
    if (!text.includes(part)) throw new Error(`"${text}" does not say: ${part}`);
  }
}
