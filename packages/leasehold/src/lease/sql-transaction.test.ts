import { expect, it } from "vitest";
import { checkInTransaction, type SqlTransaction } from "./sql-transaction.js";

const refused = expect.objectContaining({ code: "INVALID_OPTION", path: "client" });

/** A client whose statements fail with this error, if any. */
function clientThat(fails?: Error | null) {
  const sent: unknown[] = [];
  const client: SqlTransaction = {
    async query(text, values) {
      sent.push([text, values]);
      if (fails !== undefined) return Promise.reject(fails);
      return { rows: [] };
    },
  };
  return { client, sent };
}

it("is checked in one round trip, with a lock that reads take as well", async () => {
  const { client, sent } = clientThat();
  await checkInTransaction(client, "t");
  expect(sent).toEqual([["LOCK TABLE t IN ACCESS SHARE MODE", []]]);
});

it("is missing if the server says so; other errors stay as they are", async () => {
  const reported = { code: "25P01", severity: "ERROR" };
  const inDriver = Object.assign(new Error("no transaction"), reported);
  const inLibrary = new Error("Failed query", { cause: inDriver });
  for (const error of [inDriver, inLibrary]) {
    await expect(checkInTransaction(clientThat(error).client, "t")).rejects.toEqual(refused);
  }
  for (const error of [
    Object.assign(new Error("no table"), { code: "42P01", severity: "ERROR" }),
    new Error("down"),
    null,
  ]) {
    const { client } = clientThat(error);
    await expect(checkInTransaction(client, "t")).rejects.toBe(error);
  }
});

it("is none of a pool's, nor of what is no client", async () => {
  const { client, sent } = clientThat();
  const pool = { ...client, totalCount: 0 };
  for (const wrong of [pool, null, undefined, {}, { query: "q" }]) {
    await expect(checkInTransaction(wrong as never, "t")).rejects.toEqual(refused);
  }
  expect(sent).toEqual([]);
  // Only a number marks a pool.
  await checkInTransaction({ ...client, totalCount: undefined } as never, "t");
});

it("has no use for a client whose results have no rows, as those of TypeORM", async () => {
  for (const result of [[], undefined, null, { rows: 1 }]) {
    const client = { query: async () => result } as never;
    await expect(checkInTransaction(client, "t")).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "client",
      message: expect.stringContaining("wrap your library's transaction"),
    });
  }
});
