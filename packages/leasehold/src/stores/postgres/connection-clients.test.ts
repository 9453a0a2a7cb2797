/** What queries do with the connections of a pool: a scripted pool under a manual clock. */
import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { manualClock } from "../../testing/index.js";
import type { PgPoolClient } from "./connection-drivers.js";
import { CONFIRM, Prepared, poolSql } from "./connection-pool.js";

/** A connection that notes each query, which the test may fail or annotate. */
class Connection extends EventEmitter {
  readonly asked: (readonly [text: string, name: string | undefined])[] = [];
  /** For each release, whether the connection was to be destroyed. */
  readonly released: (boolean | undefined)[] = [];
  onQuery: (text: string, name: string | undefined) => void = () => {};

  async query({ text, name }: { text: string; name?: string }) {
    this.asked.push([text, name]);
    this.onQuery(text, name);
    return { rows: [] };
  }
  release(destroy?: boolean): void {
    this.released.push(destroy);
  }
}

function open({ isPrepared = false } = {}) {
  const clock = manualClock();
  const connection = new Connection();
  const prepared = new Prepared();
  if (isPrepared) prepared.enable();
  let connect = async (): Promise<PgPoolClient> => connection;
  const sql = poolSql({ connect: () => connect() }, clock, prepared);
  /** Lets the next queries wait for their connection. */
  const hold = () => {
    let go = () => {};
    connect = () =>
      new Promise((resolve) => {
        go = () => resolve(connection);
      });
    return () => go();
  };
  return { clock, connection, hold, sql };
}

const serverError = (code: string) => Object.assign(new Error(code), { severity: "ERROR", code });

it("a query leaves no listener on its connection, whether or not it fails", async () => {
  const { clock, connection, sql } = open();
  for (let round = 0; round < 3; round += 1) {
    await sql.query("SELECT 1");
    connection.onQuery = () => {
      throw serverError("22012");
    };
    await expect(sql.query("SELECT 1/0")).rejects.toMatchObject({ outcome: "none" });
    connection.onQuery = () => {};
  }
  expect(connection.eventNames()).toEqual([]);
  expect(connection.released).toEqual(Array(6).fill(false));
  expect(clock.pendingTimers).toBe(0);
});

it("a connection that comes too late is released unused", async () => {
  const { clock, connection, hold, sql } = open();
  const go = hold();
  const late = expect(sql.query("SELECT 1", [], { timeoutMs: 50 })).rejects.toMatchObject({
    outcome: "none",
  });
  await clock.advance(50);
  await late;
  go();
  await clock.settle();
  expect(connection.asked).toEqual([]);
  expect(connection.released).toEqual([undefined]);
});

it("a cancelled wait for a standby is repeated once for each time that it is cancelled", async () => {
  const { connection, sql } = open();
  let cancelled = 0;
  connection.onQuery = () => {
    cancelled -= 1;
    if (cancelled >= 0) connection.emit("notice", { routine: "SyncRepWaitForLSN" });
  };
  for (const times of [2, 0, 1]) {
    cancelled = times;
    connection.asked.length = 0;
    await sql.query("UPDATE");
    const texts = connection.asked.map(([text]) => text);
    expect(texts).toEqual(["UPDATE", ...Array(times).fill(CONFIRM)]);
  }
});

it("a connection gets its settings once, before its first prepared statement", async () => {
  const { connection, sql } = open({ isPrepared: true });
  for (const text of ["SELECT 1", "SELECT 2", "SELECT 1"]) await sql.query(text);
  const [settings, abandoned, ...statements] = connection.asked;
  expect(settings?.[0]).toContain("enable_seqscan");
  expect(abandoned?.[0]).toContain("client_connection_check_interval");
  expect(statements.map(([text]) => text)).toEqual(["SELECT 1", "SELECT 2", "SELECT 1"]);
  const names = statements.map(([, name]) => name);
  expect(names[2]).toBe(names[0]);
  expect(names[1]).not.toBe(names[0]);
});

it("no statement is prepared any more once a server did not know one", async () => {
  const { connection, sql } = open({ isPrepared: true });
  await sql.query("SELECT 1");
  connection.onQuery = (_, name) => {
    if (name !== undefined) throw serverError("26000");
  };
  connection.asked.length = 0;
  for (let round = 0; round < 3; round += 1) await sql.query("SELECT 1");
  const named = connection.asked.map(([, name]) => name !== undefined);
  expect(named).toEqual([true, false, false, false]);
});

it("a bounded number of statements is prepared; others run without a name", async () => {
  const { connection, sql } = open({ isPrepared: true });
  for (let n = 0; n < 300; n += 1) await sql.query(`SELECT ${n}`);
  await sql.query("SELECT 0");
  const named = connection.asked.filter(([, name]) => name !== undefined);
  expect(new Set(named.map(([text]) => text)).size).toBe(200);
  expect(connection.asked.at(-1)?.[1], "one that was prepared before").toBeDefined();
});

it("a failed transaction is rolled back before its connection is released", async () => {
  const { connection, sql } = open();
  const texts: string[] = [];
  connection.onQuery = (text) => {
    expect(connection.released).toEqual([]);
    texts.push(text.split(" ")[0] ?? "");
  };
  const failing = sql.transaction(async (session) => {
    await session.query("INSERT");
    throw new Error("a mistake");
  });
  await expect(failing).rejects.toThrow();
  expect(texts).toEqual(["BEGIN", "INSERT", "ROLLBACK"]);
  expect(connection.released).toHaveLength(1);
});
