/** Commands against a PostgreSQL database or schema in which Leasehold has no tables. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { checkBuild, endAll, leasehold } from "../support/processes/cli.js";

const SLOW = { timeout: 120_000 };

describePostgres("a schema without tables", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    checkBuild();
    database = await freshDatabase();
  });
  afterAll(async () => {
    await endAll();
    await database.drop();
  });

  const schemas = async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      const { rows } = await client.query<{ name: string }>(
        "SELECT nspname AS name FROM pg_namespace WHERE nspname IN ('leasehold', 'mistyped', 'app')",
      );
      return rows.map(({ name }) => name);
    } finally {
      await client.end();
    }
  };
  const inSchema = (name: string) => {
    const url = new URL(database.url);
    url.searchParams.set("schema", name);
    return url.href;
  };

  it(
    "is refused by commands that only read or change what is there and by doctor, and created by others",
    SLOW,
    async () => {
      for (const store of [database.url, inSchema("mistyped")]) {
        for (const words of [
          "ls",
          "tasks",
          "audit verify",
          "doctor",
          "generate status",
          "generate stop",
          "generate rate 5",
          "elect n --observe",
        ]) {
          const { code, stderr } = await leasehold([...words.split(" "), "--store", store]);
          expect({ words, code, stderr }).toEqual({
            words,
            code: 64,
            stderr: expect.stringMatching(/ has no Leasehold tables: check .* "leasehold migrate /),
          });
        }
      }
      expect(await schemas()).toEqual([]);
      const made = await leasehold(["enqueue", "k", "--store", inSchema("app")]);
      expect(made).toMatchObject({ code: 0 });
      expect(await schemas()).toEqual(["app"]);
      const listed = await leasehold(["ls", "--store", inSchema("app")]);
      expect(listed).toMatchObject({ code: 0, stderr: "" });
    },
  );
});
