/** Where the wanted state of the generator is kept, and what the audit says of its changes. */
import { migrate } from "leasehold";
import { systemEnv } from "leasehold/internal";
import { ENGINES, migrateBy } from "leasehold/internal/open";
import { http } from "leasehold/stores/http";
import { openPostgres } from "leasehold/stores/postgres";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { SQL_ENGINES } from "../../../../tests/support/engines/control-engines.js";
import { openPglite } from "../../../../tests/support/engines/pglite.js";
import { describePostgres, freshDatabase } from "../../../../tests/support/engines/postgres.js";
import { openTestApp } from "../../../../tests/support/server/app.js";
import { BY, openControl } from "../../../../tests/support/worlds/control-world.js";
import { createApp } from "../http/index.js";
import { CREATE_TABLE, GeneratorState } from "./state.js";

it.each([
  [{ running: true }, "generator.start"],
  [{ running: false }, "generator.stop"],
  [{ ratePerSecond: 7 }, "generator.rate"],
])("steering the generator by %j is the action %s", async (change, action) => {
  const { control, backing, lastEntry } = await openControl();
  const state = new GeneratorState(backing);
  const wanted = await state.steer(control, "n", change, BY);
  expect(wanted).toMatchObject(change);
  expect(await state.read("n")).toMatchObject(wanted);
  expect(await lastEntry()).toMatchObject({
    ...BY,
    namespace: "n",
    action,
    target: "generator",
    details: { ...wanted, intent: expect.any(Number) },
  });
});

it("is in one object alone where the stores have no place for it", async () => {
  const state = new GeneratorState();
  await state.write("n", { running: true });
  expect(await state.read("n")).toEqual({ running: true, ratePerSecond: 1 });
  expect(await new GeneratorState().read("n")).toMatchObject({ running: false });
});

it("is that of the server behind a server, which enters who changed it and why", async () => {
  const { app, ask, stores } = await openTestApp();
  const fetch: typeof globalThis.fetch = (input, init) => app.fetch(new Request(input, init));
  const reached = await http({ url: "http://localhost", fetch }).open(systemEnv);
  const front = createApp({ ...reached, auth: "none", version: "test" });
  onTestFinished(async () => {
    await front.close();
    await reached.close();
  });
  const asked = async (method: string, path: string) =>
    (await front.fetch(new Request(`http://front${path}`, { method }))).json();
  expect(await asked("POST", "/api/generator/start")).toMatchObject({ running: true });
  expect(await new GeneratorState(stores.backing).read("default")).toMatchObject({ running: true });
  const state = new GeneratorState(reached.backing);
  const change = { running: false, ratePerSecond: 3 };
  const by = { actor: "cli:ada", reason: "a & b" };
  if (!reached.operator) throw new Error("a server is behind it");
  expect(await state.steer(reached.operator, "default", change, by)).toEqual(change);
  expect(await asked("GET", "/api/generator")).toMatchObject({ status: "STOPPED", ...change });
  const who = { claimedActor: "cli:ada", reason: "a & b" };
  expect((await ask("GET", "/v1/audit?target=generator&limit=4")).body.items).toMatchObject([
    { action: "generator.stop", phase: "result", ...who },
    { action: "generator.stop", phase: "intent", ...who },
    { action: "generator.rate", phase: "result", ...who },
    { action: "generator.rate", phase: "intent", ...who },
  ]);
});

for (const engine of SQL_ENGINES) {
  engine.describe(`the table of the generator in ${engine.name}`, () => {
    const open = async () => {
      const stores = await engine.open();
      onTestFinished(() => stores.close());
      const exists = async () => {
        const [row] = await stores.query("SELECT to_regclass('leasehold.generator')::text AS name");
        return row?.["name"] !== null;
      };
      return { ...stores, exists };
    };

    it("is created by the first writes, however many come at once", async () => {
      const { backing, other, exists } = await open();
      const states = [backing, other.backing].flatMap((one) =>
        Array.from({ length: 4 }, () => new GeneratorState(one)),
      );
      for (const state of states) expect(await state.read("n")).toMatchObject({ running: false });
      expect(await exists()).toBe(false);
      await Promise.all(states.map((state) => state.write("n", { running: true })));
      expect(await exists()).toBe(true);
      for (const state of states) expect(await state.read("n")).toMatchObject({ running: true });
    });

    it("is changed in the transaction of the audit's entry", async () => {
      const { backing, control } = await open();
      const state = new GeneratorState(backing);
      await state.steer(control, "n", { running: true }, BY);
      const { items } = await control.audit.list({ namespace: "n" });
      expect(items).toMatchObject([{ action: "generator.start", phase: "done", ...BY }]);
      const failing = { ...BY, actor: "\0" };
      await expect(state.steer(control, "n", { running: false }, failing)).rejects.toThrow();
      expect(await state.read("n")).toMatchObject({ running: true });
    });

    it("is the one that an older release has created", async () => {
      const { backing, query } = await open();
      await query(`CREATE TABLE leasehold.generator (
        namespace text COLLATE "C" PRIMARY KEY,
        running boolean NOT NULL,
        rate_per_second double precision NOT NULL
      )`);
      await query("INSERT INTO leasehold.generator VALUES ('n', true, 2.5)");
      const state = new GeneratorState(backing);
      expect(await state.read("n")).toEqual({ running: true, ratePerSecond: 2.5 });
      expect(await state.write("n", { running: false })).toEqual({
        running: false,
        ratePerSecond: 2.5,
      });
    });
  });
}

it("is in the schema of its store", async () => {
  const db = await openPglite();
  const [one, other] = await Promise.all(
    ["one", "other"].map((schema) => openPostgres({ db, schema }, systemEnv)),
  );
  onTestFinished(async () => {
    await Promise.all([one?.close(), other?.close()]);
    await db.close();
  });
  await new GeneratorState(one?.backing).write("n", { running: true });
  await new GeneratorState(other?.backing).write("n", { ratePerSecond: 9 });
  expect(await new GeneratorState(one?.backing).read("n")).toEqual({
    running: true,
    ratePerSecond: 1,
  });
  const { rows } = await db.query("SELECT * FROM other.generator");
  expect(rows).toEqual([{ namespace: "n", running: false, rate_per_second: 9 }]);
});

describePostgres("a user who may not change tables", () => {
  it("learns that the owner must migrate, and can then start the generator", async () => {
    const database = await freshDatabase();
    const admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    const role = `generating_${process.pid}`;
    await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'app'`);
    onTestFinished(async () => {
      await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
      await admin.end();
      await database.drop();
    });
    const grant = () =>
      admin.query(`GRANT USAGE ON SCHEMA leasehold TO ${role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO ${role}`);
    await migrate(database.url);
    await grant();
    const url = new URL(database.url);
    Object.assign(url, { username: role, password: "app" });
    const stores = await openPostgres({ url }, systemEnv);
    const state = new GeneratorState(stores.backing);
    const write = () => state.write("n", { running: true });
    try {
      expect(await state.read("n")).toMatchObject({ running: false });
      await expect(write()).rejects.toThrow("run `leasehold migrate` as the owner of the schema");
      const owned = () => migrateBy(ENGINES, database.url, systemEnv, [CREATE_TABLE]);
      expect(await owned()).toEqual([]);
      const needed = `GRANT SELECT, INSERT, UPDATE ON leasehold.generator TO ${role};`;
      await expect(write()).rejects.toThrow(needed);
      await grant();
      expect(await write()).toMatchObject({ running: true });
      // Both must be possible without the right to create tables.
      await migrateBy(ENGINES, url, systemEnv, [CREATE_TABLE]);
      await new GeneratorState(stores.backing).write("n", { running: false });
    } finally {
      await stores.close();
    }
  });
});
