/** Values that a PostgreSQL database refuses for good, and databases that could not keep every text. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { silentLogger, systemEnv } from "../../packages/leasehold/src/env/index.js";
import {
  connect,
  defineTask,
  type Leasehold,
  migrate,
} from "../../packages/leasehold/src/index.js";
import { postgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { describePostgres, freshDatabase } from "../support/postgres.js";

const env = { ...systemEnv, logger: silentLogger };
const REFUSED = { code: "INVALID_OPTION", retryable: false, outcome: "none" };

describePostgres("a PostgreSQL database that is not in UTF8", () => {
  it.each(["LATIN1", "SQL_ASCII", "EUC_JP"] as const)("is refused: %s", async (encoding) => {
    const { url, drop } = await freshDatabase(undefined, encoding);
    const error = { code: "STORE_MISCONFIGURED", retryable: false };
    for (const open of [() => connect(postgres({ url }), { env }), () => migrate(url, { env })]) {
      const opened = open();
      await expect(opened).rejects.toMatchObject(error);
      await expect(opened).rejects.toThrow(`encoded in ${encoding}`);
      await expect(opened).rejects.toThrow("ENCODING 'UTF8' TEMPLATE template0");
    }
    await drop();
  });
});

describePostgres("a value that PostgreSQL refuses for good", () => {
  let client: Leasehold;
  let drop: () => Promise<void>;
  const echo = defineTask<string>("echo");

  beforeAll(async () => {
    const database = await freshDatabase();
    drop = database.drop;
    client = await connect(postgres({ url: database.url }), { env });
    await client.tasks.counts();
    const admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    await admin.query(`ALTER TABLE leasehold.task
      ADD CHECK (data NOT LIKE '%check%'), ADD CHECK (data NOT LIKE '%divide%' OR 1 / length(left(data, 0)) > 0),
      ADD CHECK (output NOT LIKE '%check%'), ADD CHECK (error NOT LIKE '%check\u00e9%')`);
    await admin.end();
  });
  afterAll(async () => {
    await client.close();
    await drop();
  });

  it.each(["check", "divide"])(
    "rejects the enqueue, and no other of its batch: %s",
    async (bad) => {
      const texts = ["a", "b", bad, "c", bad, "d"];
      const all = await Promise.allSettled(texts.map((text) => client.tasks.enqueue(echo, text)));
      expect(all.map(({ status }) => status === "fulfilled")).toEqual(texts.map((t) => t !== bad));
      await expect(client.tasks.enqueue(echo, bad)).rejects.toMatchObject(REFUSED);
    },
  );

  it("ends the attempt as failed, once, while the other reports are taken", async () => {
    const kind = defineTask<string>("report", { maxAttempts: 1 });
    const handles = await Promise.all(
      ["fine", "output", "error"].map((what) => client.tasks.enqueue(kind, what)),
    );
    let runs = 0;
    const worker = client.tasks.work([
      kind.handle((what) => {
        runs += 1;
        if (what === "error") throw new Error("check\u00e9");
        return what === "output" ? "check" : "done";
      }),
    ]);
    const ended = await Promise.allSettled(handles.map((handle) => handle.result()));
    await worker.close();
    expect(ended.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
    const tasks = await Promise.all(handles.map(({ id }) => client.tasks.get(id)));
    expect(tasks.map((task) => task?.state)).toEqual(["done", "dead", "dead"]);
    expect(tasks[1]?.attempts[0]?.error).toMatch(/^the output cannot be stored: .*\(23514\)/);
    expect(tasks[2]?.attempts[0]?.error).toMatch(/^the error cannot be stored: .*\(23514\)/);
    expect(runs).toBe(3);
  });
});
