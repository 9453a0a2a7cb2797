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
import {
  openPostgres,
  planPostgres,
  postgres,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { checkBuild, leasehold } from "../support/processes/cli.js";

const env = { ...systemEnv, logger: silentLogger };
const REFUSED = { code: "INVALID_OPTION", retryable: false, outcome: "none" };

describePostgres("a PostgreSQL database that is not in UTF8", () => {
  beforeAll(checkBuild);

  it.each(["LATIN1", "SQL_ASCII", "EUC_JP"] as const)("is refused: %s", async (encoding) => {
    const { url, drop } = await freshDatabase(undefined, encoding);
    const error = { code: "STORE_MISCONFIGURED", retryable: false };
    const source = { url };
    const opens = [
      () => connect(postgres(source), { env }),
      () => migrate(url, { env }),
      () => planPostgres(source, env),
    ];
    for (const open of opens) {
      const opened = open();
      await expect(opened).rejects.toMatchObject(error);
      await expect(opened).rejects.toThrow(`encoded in ${encoding}`);
      await expect(opened).rejects.toThrow("ENCODING 'UTF8' TEMPLATE template0");
    }
    await drop();
  });

  it.each([
    ["doctor", []],
    ["migrate", ["--dry-run"]],
    ["migrate", ["--sql"]],
    ["migrate", ["--status"]],
    ["migrate", []],
  ])("is refused by leasehold %s %j", async (command, options) => {
    const { url, drop } = await freshDatabase(undefined, "LATIN1");
    const { code, stdout, stderr } = await leasehold([command, "--store", url, ...options]);
    expect({ code, stdout }).toEqual({ code: 78, stdout: "" });
    expect(stderr).toContain("encoded in LATIN1");
    expect(stderr).toContain("ENCODING 'UTF8' TEMPLATE template0");
    expect(stderr).not.toContain("try again");
    await drop();
  });
});

describePostgres("a value that PostgreSQL refuses for good", () => {
  let client: Leasehold;
  let url: string;
  let drop: () => Promise<void>;
  const echo = defineTask<string>("echo");

  beforeAll(async () => {
    const database = await freshDatabase();
    ({ url, drop } = database);
    client = await connect(postgres({ url: database.url }), { env });
    await client.tasks.counts();
    const admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    await admin.query(`ALTER TABLE leasehold.task
      ADD CHECK (data NOT LIKE '%check%'), ADD CHECK (data NOT LIKE '%divide%' OR 1 / length(left(data, 0)) > 0),
      ADD CHECK (state <> 'cancelled' OR data NOT LIKE '%kept%'),
      ADD CHECK (state <> 'cancelled' OR data NOT LIKE '%zero%' OR 1 / (length(data) * 0) > 0),
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

  it("rejects an enqueueAll as a whole, and adds none of its tasks", async () => {
    const whole = defineTask<string>("whole");
    for (const texts of [["a", "check", "b"], ["divide", "a"], ["check"]]) {
      const tasks = texts.map((data) => ({ data }));
      await expect(client.tasks.enqueueAll(whole, tasks)).rejects.toMatchObject(REFUSED);
    }
    const unlike = [{ data: "a" }, { data: "check", priority: 3 }];
    await expect(client.tasks.enqueueAll(whole, unlike)).rejects.toMatchObject(REFUSED);
    expect((await client.tasks.list({ kind: "whole" })).items).toEqual([]);
  });

  it("rejects it in the caller's transaction, which is rolled back", async () => {
    const within = defineTask<string>("within");
    const program = new pg.Client({ connectionString: url });
    await program.connect();
    await program.query("BEGIN");
    await client.tasks.enqueue(within, "before", { client: program });
    const tasks = [{ data: "a" }, { data: "check" }];
    const added = client.tasks.enqueueAll(within, tasks, { client: program });
    await expect(added).rejects.toMatchObject(REFUSED);
    expect((await program.query("COMMIT")).command).toBe("ROLLBACK");
    await program.end();
    expect((await client.tasks.list({ kind: "within" })).items).toEqual([]);
  });

  it.each(["kept", "zero"])("rejects an audited action, and records none: %s", async (data) => {
    const { control, close } = await openPostgres({ url }, env);
    const { id } = await client.tasks.enqueue(echo, data);
    const act = { namespace: "default", actor: "me", target: id, reason: null };
    const cancelled = control.perform({ ...act, action: "task.cancel" }, async ({ tasks }) => {
      return { value: await tasks.cancel([{ namespace: "default", id }]), details: {} };
    });
    await expect(cancelled).rejects.toMatchObject({ ...REFUSED, path: "the request" });
    await expect(cancelled).rejects.not.toThrow("?options=");
    expect((await control.audit.list({ namespace: "default" })).items).toEqual([]);
    await close();
  });

  it.each(["statement_timeout%3Dsoon", "DateStyle%3Dnone", "no_such%3D1"])(
    "is one of the URL while it connects: %s",
    async (setting) => {
      const opened = connect(`${url}?options=-c%20${setting}`, { env });
      await expect(opened).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
      await expect(opened).rejects.toThrow("?options=");
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
