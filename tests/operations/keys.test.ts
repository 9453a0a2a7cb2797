/** API keys and the commands about them, directly on the stores. */
import { mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import {
  type ApiKeyOrder,
  type AuditEntry,
  type Control,
  createApiKey,
  equalDigests,
  KEEP_ENDED_KEYS_MS,
  type MadeApiKey,
  MOST_KEYS,
  newApiKeyText,
  parseApiKeyText,
  revokeApiKey,
  rotateApiKey,
  TooManyApiKeysError,
} from "../../packages/leasehold/src/control/index.js";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { manualEnv } from "../../packages/leasehold/src/testing/index.js";
import { describeFailure } from "../../packages/leasehold-server/src/cli/failures.js";
import { loadProgram } from "../../packages/leasehold-server/src/cli/program.js";
import { createApp } from "../../packages/leasehold-server/src/http/index.js";
import {
  CONTROL_ENGINES,
  type OpenedControl,
  type OpenedSql,
  SQL_ENGINES,
} from "../support/engines/control-engines.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const { random } = systemEnv;
const BY = { actor: "cli:tester", reason: null };
const HOLDER: ApiKeyOrder = {
  namespace: "n",
  name: "CI",
  role: "holder",
  prefixes: ["a/", 'odd "\\%_'],
  lifetimeMs: 60_000,
};
const NO_KEYS = { items: [], nextCursor: null };
const ADMIN: ApiKeyOrder = { ...HOLDER, role: "admin", prefixes: [], lifetimeMs: null };

/** Gives a tenant so many keys; in a database by one statement. */
async function fill(opened: OpenedControl, namespace: string, count: number): Promise<void> {
  if ("query" in opened) {
    const { query } = opened as OpenedSql;
    await query(`INSERT INTO leasehold.api_key (id, namespace, name, role, prefixes, digest, created_at)
      SELECT lpad(n::text, 12, 'f'), '${namespace}', 'n', 'admin', '[]', md5(n::text), clock_timestamp()
      FROM generate_series(1, ${count}) n`);
    return;
  }
  for (let made = 0; made < count; made += 1) {
    const { id, digest } = newApiKeyText(random);
    await opened.control.actors.keys.add({ ...ADMIN, namespace, id, digest });
  }
}

for (const engine of CONTROL_ENGINES) {
  engine.describe(`keys in ${engine.name}`, () => {
    let opened: OpenedControl;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());

    it("are found by their id, and known by their secret", async () => {
      const { control } = opened;
      expect(await control.keys.any()).toBe(false);
      const { key, text } = await createApiKey(control, random, HOLDER, BY);
      expect(key).toEqual({
        id: key.id,
        namespace: "n",
        name: "CI",
        role: "holder",
        prefixes: HOLDER.prefixes,
        queues: [],
        createdAt: key.createdAt,
        expiresAt: key.expiresAt,
        revoked: false,
        lastUsedAt: null,
        remainingMs: key.remainingMs,
      });
      expect(Date.parse(key.expiresAt ?? "") - Date.parse(key.createdAt)).toBe(60_000);
      expect(key.remainingMs).toBeGreaterThan(0);
      expect(key.remainingMs).toBeLessThanOrEqual(60_000);
      const asked = parseApiKeyText(text);
      expect(asked?.id).toBe(key.id);
      const record = await control.keys.find(key.id);
      expect(record).toMatchObject({ ...key, remainingMs: expect.any(Number) });
      expect(equalDigests(record?.digest ?? "", asked?.digest ?? "-")).toBe(true);
      expect(await control.keys.find("0".repeat(12))).toBeNull();
      expect(await control.keys.any()).toBe(true);
    });

    it("show when they were last used, at most once a minute", async () => {
      const { control, close } = await engine.open();
      try {
        const [used, other] = [
          await createApiKey(control, random, HOLDER, BY),
          await createApiKey(control, random, HOLDER, BY),
        ];
        await control.keys.noteUsed([]);
        await control.keys.noteUsed([used.key.id, "0".repeat(12)]);
        const lastUsedOf = async ({ key }: MadeApiKey) =>
          (await control.keys.find(key.id))?.lastUsedAt;
        const first = await lastUsedOf(used);
        expect(first).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        expect(await lastUsedOf(other)).toBe(null);
        await control.keys.noteUsed([used.key.id, other.key.id]);
        expect(await lastUsedOf(used)).toBe(first);
        expect(await lastUsedOf(other)).not.toBe(null);
        const rotation = { namespace: HOLDER.namespace, id: used.key.id, overlapMs: 1_000 };
        expect(await rotateApiKey(control, random, rotation, BY)).toMatchObject({
          key: { lastUsedAt: null },
          old: { lastUsedAt: first },
        });
      } finally {
        await close();
      }
    });

    it("of operators may be limited to prefixes and queues, which a rotation keeps", async () => {
      const { control, close } = await engine.open();
      try {
        const limits = { prefixes: ["shop/"], queues: ["mails", 'odd "\\%_'] };
        const order = { namespace: "n", name: "on call", lifetimeMs: null, ...limits };
        const { key } = await createApiKey(control, random, { ...order, role: "operator" }, BY);
        expect(key).toMatchObject({ role: "operator", ...limits });
        const { items } = await control.keys.list({ namespace: "n" });
        expect(items).toEqual([key]);
        const old = { namespace: "n", id: key.id, overlapMs: 0 };
        const rotated = await rotateApiKey(control, random, old, BY);
        expect(rotated?.key).toMatchObject({ role: "operator", ...limits });
        const viewer = await createApiKey(control, random, { ...order, role: "viewer" }, BY);
        expect(viewer.key).toMatchObject({ prefixes: [], queues: [] });
      } finally {
        await close();
      }
    });

    it("have existed for good, also when all have ended and were collected", async () => {
      const { control, close } = await engine.open();
      try {
        expect(await control.keys.existed()).toBe(false);
        const { key } = await createApiKey(control, random, HOLDER, BY);
        expect(await control.keys.existed()).toBe(true);
        await revokeApiKey(control, key, BY);
        expect(await control.keys.collect(0)).toBe(1);
        expect(await control.keys.find(key.id)).toBeNull();
        expect(await control.keys.existed()).toBe(true);
      } finally {
        await close();
      }
    });

    it("are listed by tenant, the newest first, without what could be used", async () => {
      const { control } = opened;
      const made = [
        await createApiKey(control, random, { ...HOLDER, namespace: "listed" }, BY),
        await createApiKey(control, random, { ...ADMIN, namespace: "listed" }, BY),
      ];
      const { items: listed } = await control.keys.list({ namespace: "listed" });
      expect(listed.map(({ id }) => id)).toEqual(made.map(({ key }) => key.id).toReversed());
      expect(listed[0]).toMatchObject({ remainingMs: null, expiresAt: null, prefixes: [] });
      for (const key of listed) expect(key).not.toHaveProperty("digest");
      expect((await control.keys.list({ namespace: null })).items.length).toBeGreaterThan(2);
      expect(await control.keys.list({ namespace: "keyless" })).toEqual(NO_KEYS);
    });

    it("are listed page by page, each once, also while others are made and go", async () => {
      const { control } = opened;
      const order = { ...ADMIN, namespace: "paged" };
      const ids: string[] = [];
      for (let n = 0; n < 5; n += 1) {
        ids.unshift((await createApiKey(control, random, order, BY)).key.id);
      }
      const first = await control.keys.list({ namespace: "paged", limit: 2 });
      expect(first.items.map(({ id }) => id)).toEqual(ids.slice(0, 2));
      await createApiKey(control, random, order, BY);
      await revokeApiKey(control, { namespace: "paged", id: ids[1] ?? "" }, BY);
      await control.keys.collect(0);
      const found: string[] = [];
      for (let cursor = first.nextCursor; cursor !== null; ) {
        const page = await control.keys.list({ namespace: "paged", limit: 2, cursor });
        found.push(...page.items.map(({ id }) => id));
        cursor = page.nextCursor;
      }
      expect(found).toEqual(ids.slice(2));
      for (const cursor of ["", "x", "1.2", "-1", "9".repeat(17), `${"9".repeat(17)}.${ids[0]}`]) {
        const listing = (async () => control.keys.list({ namespace: "paged", cursor }))();
        await expect(listing).rejects.toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
      }
    });

    it("are no more than a thousand good ones of a tenant, those that take another's place too", async () => {
      const { control } = opened;
      const namespace = "full";
      await fill(opened, namespace, MOST_KEYS - 1);
      const make = () => createApiKey(control, random, { ...ADMIN, namespace }, BY);
      // Neither sees the other.
      const both = await Promise.allSettled([make(), make()]);
      expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      await expect(make()).rejects.toBeInstanceOf(TooManyApiKeysError);
      const [newest] = (await control.keys.list({ namespace, limit: 1 })).items;
      const id = newest?.id ?? expect.fail("no key");
      const rotate = (overlapMs: number) =>
        rotateApiKey(control, random, { namespace, id, overlapMs }, BY);
      await expect(rotate(60_000)).rejects.toBeInstanceOf(TooManyApiKeysError);
      expect(await control.keys.find(id)).toMatchObject({ remainingMs: null, revoked: false });
      const rotated = (await rotate(0)) ?? expect.fail("not rotated");
      await expect(make()).rejects.toBeInstanceOf(TooManyApiKeysError);
      await revokeApiKey(control, { namespace, id: rotated.key.id }, BY);
      expect((await make()).key.namespace).toBe(namespace);
      const [refused] = (await control.audit.list({ namespace, target: id })).items.filter(
        ({ details }) => details.includes('"full"'),
      );
      expect(refused?.action).toBe("key.rotate");
    });

    it("are forgotten when they have ended long ago, and not while they are good", async () => {
      const { control } = opened;
      const order = { ...HOLDER, namespace: "ended" };
      const made = async (lifetimeMs: number | null) =>
        (await createApiKey(control, random, { ...order, lifetimeMs }, BY)).key.id;
      const [endless, good] = [await made(null), await made(600_000)];
      const [expired, revoked] = [await made(1), await made(null)];
      await revokeApiKey(control, { namespace: "ended", id: revoked }, BY);
      await vi.waitFor(async () => {
        expect((await control.keys.find(expired))?.remainingMs).toBe(0);
      }, 10_000);
      const left = async () =>
        (await control.keys.list({ namespace: "ended" })).items.map(({ id }) => id);
      expect(await control.keys.collect(600_000)).toBe(0);
      expect(await left()).toEqual([revoked, expired, good, endless]);
      expect(await control.keys.collect(0)).toBeGreaterThanOrEqual(2);
      expect(await left()).toEqual([good, endless]);
      expect(await control.keys.find(expired)).toBeNull();
    });

    it("get no successor when they are revoked while they are exchanged", async () => {
      const { control } = opened;
      const namespace = "raced";
      const { key } = await createApiKey(control, random, { ...HOLDER, namespace }, BY);
      const { id } = key;
      const late: Control = {
        ...control,
        async perform(act, work, onEntry) {
          await revokeApiKey(control, { namespace, id }, BY);
          return control.perform(act, work, onEntry);
        },
      };
      const old = { namespace, id, overlapMs: 60_000 };
      expect(await rotateApiKey(late, random, old, BY)).toBeNull();
      const { items } = await control.keys.list({ namespace });
      expect(items).toMatchObject([{ id, revoked: true, remainingMs: 0 }]);
    });

    it("are exchanged with an overlap, and keep rights and length of life", async () => {
      const { control } = opened;
      const first = await createApiKey(control, random, HOLDER, BY);
      const { id } = first.key;
      const rotated = await rotateApiKey(
        ...([control, random, { namespace: "n", id, overlapMs: 1_000 }, BY] as const),
      );
      const { key, old, text } = rotated ?? expect.fail("not rotated");
      const { name, role, prefixes } = HOLDER;
      expect(key).toMatchObject({ name, role, prefixes, revoked: false });
      expect(Date.parse(key.expiresAt ?? "") - Date.parse(key.createdAt)).toBe(60_000);
      expect(text).not.toBe(first.text);
      expect(old).toMatchObject({ id, revoked: false });
      expect(old).not.toHaveProperty("digest");
      expect(old.remainingMs).toBeLessThanOrEqual(1_000);
      await vi.waitFor(async () => {
        expect(await control.keys.find(id)).toMatchObject({ remainingMs: 0, revoked: false });
      }, 10_000);
      const again = { namespace: "n", id, overlapMs: 0 };
      const refused = { name: "ApiKeyRotatedError", successor: key.id };
      await expect(rotateApiKey(control, random, again, BY)).rejects.toMatchObject(refused);
      const elsewhere = { namespace: "other", id: key.id, overlapMs: 0 };
      expect(await rotateApiKey(control, random, elsewhere, BY)).toBeNull();
      const endless = await createApiKey(control, random, ADMIN, BY);
      const now = { namespace: "n", id: endless.key.id, overlapMs: 0 };
      expect(await rotateApiKey(control, random, now, BY)).toMatchObject({
        key: { expiresAt: null },
        old: { revoked: true, remainingMs: 0 },
      });
      await expect(rotateApiKey(control, random, now, BY)).rejects.toThrow("was rotated before");
      const entries = (await control.audit.list({ namespace: "n", target: id })).items;
      const came = entries
        .filter(({ action, phase }) => action === "key.rotate" && phase !== "intent")
        .map(({ details }) => JSON.parse(details));
      expect(came).toMatchObject([{ refused: "rotatedBefore" }, { successor: key.id }]);
    });

    it("do not outlive their own end in the overlap", async () => {
      const { control } = opened;
      const { key } = await createApiKey(control, random, HOLDER, BY);
      const day = { namespace: "n", id: key.id, overlapMs: 86_400_000 };
      const { old } = (await rotateApiKey(control, random, day, BY)) ?? expect.fail("not rotated");
      expect(old.expiresAt).toBe(key.expiresAt);
    });

    it("are rotated once: the successor is rotated next, and has the whole lifetime", async () => {
      const { control } = opened;
      const { key: first } = await createApiKey(control, random, HOLDER, BY);
      const rotate = (id: string) =>
        rotateApiKey(control, random, { namespace: "n", id, overlapMs: 30_000 }, BY);
      const { key: second } = (await rotate(first.id)) ?? expect.fail("not rotated");
      await expect(rotate(first.id)).rejects.toMatchObject({
        name: "ApiKeyRotatedError",
        successor: second.id,
        message: expect.stringContaining(second.id),
      });
      const [entry] = (await control.audit.list({ namespace: "n", target: first.id })).items;
      expect(JSON.parse(entry?.details ?? "")).toMatchObject({ refused: "rotatedBefore" });
      const { key: third } = (await rotate(second.id)) ?? expect.fail("not rotated");
      expect(Date.parse(third.expiresAt ?? "") - Date.parse(third.createdAt)).toBe(60_000);
      const successors = (await control.keys.list({ namespace: "n" })).items.slice(0, 3);
      expect(successors.map(({ id }) => id)).toEqual([third.id, second.id, first.id]);
    });

    it("are revoked at once, for good, and by their own tenant alone", async () => {
      const { control } = opened;
      const { key } = await createApiKey(control, random, HOLDER, BY);
      const { id } = key;
      expect(await revokeApiKey(control, { namespace: "other", id }, BY)).toBeNull();
      expect((await control.keys.find(id))?.revoked).toBe(false);
      const revoked = await revokeApiKey(control, { namespace: "n", id }, BY);
      expect(revoked).toMatchObject({ id, revoked: true, remainingMs: 0 });
      const again = await revokeApiKey(control, { namespace: "n", id }, BY);
      expect(again).toMatchObject({ id, revoked: true, remainingMs: 0 });
      // The texts are for people: the memory store words them by the wall clock, which may be set meanwhile.
      const endOf = (made: typeof again) => Date.parse(made?.expiresAt ?? "");
      expect(Math.abs(endOf(again) - endOf(revoked))).toBeLessThan(1_000);
      expect(
        await rotateApiKey(control, random, { namespace: "n", id, overlapMs: 9 }, BY),
      ).toBeNull();
    });

    it("are refused when their options are invalid", async () => {
      const { control } = opened;
      const before = await control.audit.head();
      for (const [change, path] of [
        [{ prefixes: [] }, "prefixes"],
        [{ prefixes: ["NUL \0"] }, "prefixes"],
        [{ prefixes: Array.from({ length: 101 }, (_, n) => `${n}`) }, "prefixes"],
        [{ name: "" }, "name"],
        [{ namespace: "x".repeat(257) }, "namespace"],
        [{ lifetimeMs: 0 }, "lifetimeMs"],
      ] as const) {
        const making = createApiKey(control, random, { ...HOLDER, ...change }, BY);
        await expect(making).rejects.toMatchObject({ code: "INVALID_OPTION", path });
      }
      expect(await control.audit.head()).toEqual(before);
    });

    it("leave limits as they are but for the one that is named", async () => {
      const { control } = opened;
      const set = (change: Parameters<typeof control.actors.limits.set>[1]) =>
        control.perform(
          { ...BY, namespace: "limited", action: "limits.set", target: "limited" },
          async ({ limits }) => ({ value: await limits.set("limited", change), details: change }),
        );
      expect(await control.limits.read("limited")).toEqual({
        leases: null,
        tasks: null,
        ratePerSecond: null,
      });
      await set({ leases: 5, ratePerSecond: 0.5 });
      await set({ tasks: 0, leases: null });
      const after = { leases: null, tasks: 0, ratePerSecond: 0.5 };
      expect(await set({})).toEqual(after);
      expect(await control.limits.read("limited")).toEqual(after);
      const changes = [{ leases: 6 }, { tasks: 7 }, { ratePerSecond: 8 }, { tasks: null }];
      for (const [at, change] of changes.entries()) {
        const before = await control.limits.read("limited");
        expect(await set(change), `change ${at}`).toEqual({ ...before, ...change });
      }
      expect(await set({ ratePerSecond: null })).toEqual({
        leases: 6,
        tasks: null,
        ratePerSecond: null,
      });
    });
  });
}

for (const engine of SQL_ENGINES) {
  engine.describe(`keys that two change at once in ${engine.name}`, () => {
    it("are revoked in the end, and exchanged only before that", async () => {
      const { control, other, close } = await engine.open();
      try {
        const namespace = "at-once";
        const came = { rotated: 0, refused: 0 };
        for (let round = 0; round < 20; round += 1) {
          const { key } = await createApiKey(control, random, { ...HOLDER, namespace }, BY);
          const { id } = key;
          const rotating = () =>
            rotateApiKey(control, random, { namespace, id, overlapMs: 60_000 }, BY);
          const revoking = () => revokeApiKey(other.control, { namespace, id }, BY);
          const [rotated] =
            round % 2 === 0
              ? await Promise.all([rotating(), revoking()])
              : (await Promise.all([revoking(), rotating()])).toReversed();
          expect(await control.keys.find(id)).toMatchObject({ revoked: true, remainingMs: 0 });
          const { items } = await control.audit.list({ namespace, target: id });
          const acts = items.toReversed().map(({ action, details }) => {
            const { refused } = JSON.parse(details) as { refused?: string };
            return refused === undefined ? action : `${action}: ${refused}`;
          });
          came[rotated ? "rotated" : "refused"] += 1;
          expect(acts).toEqual(
            rotated
              ? ["key.create", "key.rotate", "key.revoke"]
              : ["key.create", "key.revoke", "key.rotate: notGood"],
          );
        }
        expect(came.rotated + came.refused).toBe(20);
      } finally {
        await close();
      }
    });
  });

  engine.describe(`secrets in ${engine.name}`, () => {
    it("stand in no table, and leaseIds in those of leases alone", async () => {
      const opened = await engine.open();
      try {
        const { control, leases, query } = opened;
        const { key, text } = await createApiKey(control, random, HOLDER, BY);
        const old = { namespace: "n", id: key.id, overlapMs: 1_000 };
        const rotated = await rotateApiKey(control, random, old, BY);
        const leaseId = "0".repeat(16) + "5ec4e7".padEnd(32, "0");
        const ttlMs = 60_000;
        const resource = { namespace: "n", resource: "r" };
        await leases.acquire([{ ...resource, leaseId, holder: "h", ttlMs }]);
        await control.perform(
          { ...BY, namespace: "n", action: "lease.revoke", target: "r" },
          async (actors) => {
            const [value] = await actors.leases.revoke([{ ...resource, free: "now" }]);
            return { value, details: { ...value } };
          },
        );
        const secrets = [text, rotated?.text ?? ""].map((one) => one.slice(-38, -6));
        for (const secret of secrets) expect(secret).toMatch(/^[0-9a-f]{32}$/);
        const tables = await query(
          "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'leasehold'",
        );
        expect(tables.length).toBeGreaterThan(10);
        const withLeaseId: unknown[] = [];
        for (const { name } of tables) {
          const rows = await query(`SELECT t::text AS row FROM leasehold.${name} t`);
          const contents = rows.map(({ row }) => row).join("\n");
          for (const secret of secrets) expect(contents).not.toContain(secret);
          if (contents.includes(leaseId)) withLeaseId.push(name);
        }
        expect(withLeaseId).toEqual(["lease"]);
      } finally {
        await opened.close();
      }
    });
  });
}

it("keys end by the store's clock", async () => {
  const env = manualEnv({ seed: 3 });
  const { control } = await memory().open(env);
  if (!control) throw new Error("memory keeps a control");
  const { key } = await createApiKey(control, env.random, HOLDER, BY);
  await env.clock.advance(59_999);
  expect(await control.keys.any()).toBe(true);
  await env.clock.advance(1);
  expect(await control.keys.find(key.id)).toMatchObject({ remainingMs: 0, revoked: false });
  expect(await control.keys.any()).toBe(false);
});

it("a server looks every hour for keys that ended a month ago", async () => {
  const env = manualEnv({ seed: 4 });
  const { control, ...stores } = await memory().open(env);
  if (!control) throw new Error("memory keeps a control");
  const collected: number[] = [];
  const keys = { ...control.keys, collect: async (ms: number) => collected.push(ms) };
  const app = createApp({ ...stores, control: { ...control, keys }, env, version: "0" });
  await env.clock.advance(3 * 3_600_000);
  await app.close();
  expect(collected.length).toBeGreaterThanOrEqual(2);
  expect(new Set(collected)).toEqual(new Set([KEEP_ENDED_KEYS_MS]));
});

describePostgres("on the command line", () => {
  let directory = "";
  let database: FreshDatabase;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "leasehold-keys-"));
    database = await freshDatabase();
  });
  afterAll(async () => {
    await rm(directory, { recursive: true });
    await database.drop();
  });

  /** Runs a command in this process; what it prints, and its code. */
  async function leasehold(...args: readonly string[]) {
    const said = { out: "", err: "" };
    type Write = (text: string | Uint8Array, callback?: () => void) => boolean;
    const write: Write = (text, callback) => {
      said.out += String(text);
      callback?.();
      return true;
    };
    const out = vi.spyOn(process.stdout, "write").mockImplementation(write as never);
    const err = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      said.err += String(text);
      return true;
    });
    try {
      const { program } = await loadProgram(args);
      await program.parseAsync(["node", "leasehold", ...args, "--store", database.url]);
      return { ...said, code: 0 };
    } catch (error) {
      const { exitCode, text } = describeFailure(error, { verbose: false, json: false });
      return { ...said, err: said.err + text, code: exitCode };
    } finally {
      out.mockRestore();
      err.mockRestore();
    }
  }
  const json = async (...args: readonly string[]) => {
    const { out, code } = await leasehold(...args, "--json");
    expect(code).toBe(0);
    return JSON.parse(out);
  };

  it("keys are made, listed, exchanged and revoked, in the name of the user", async () => {
    const args = ["--name", "CI", "--role", "holder", "--prefix", "a/", "--prefix", ""];
    const made = await leasehold("keys", "create", ...args, "--expires", "90d");
    expect(made.out).toMatch(/^lh_[0-9a-f]{12}_[0-9a-f]{32}[0-9A-Za-z]{6}\n$/);
    expect(made.err).toContain("it cannot be shown again");
    expect(made.err).not.toContain(made.out.trim().split("_")[2]);
    expect(made.err).toMatch(/, id [0-9a-f]{12}, expires at \d{4}-.*Z\)\n$/);
    const { id } = parseApiKeyText(made.out.trim()) ?? expect.fail("no key");

    const { key, old } = await json("keys", "rotate", id, "--overlap", "1h");
    expect(old.id).toBe(id);
    expect(old.remainingMs).toBeGreaterThan(3_000_000);
    expect(old.remainingMs).toBeLessThanOrEqual(3_600_000);
    expect(key).toMatchObject({ role: "holder", prefixes: ["a/", ""], namespace: "default" });
    expect(Date.parse(key.expiresAt) - Date.parse(key.createdAt)).toBe(90 * 86_400_000);
    const again = await leasehold("keys", "rotate", id);
    expect(again).toMatchObject({ code: 64, out: "", err: expect.stringContaining(key.id) });

    const revoked = await leasehold("keys", "revoke", id, "--reason", "was in a log");
    expect(revoked).toMatchObject({ code: 0, out: `revoked: ${id}, CI\n` });
    expect(await json("keys", "list")).toMatchObject([
      { id: key.id, revoked: false },
      { id, revoked: true },
    ]);
    const table = (await leasehold("keys", "list")).out;
    expect(table).toContain(id);
    const one = await leasehold("keys", "list", "--limit", "1", "--json");
    expect(JSON.parse(one.out)).toMatchObject([{ id: key.id }]);
    expect(one.err).toBe("there is more than 1 key: raise --limit\n");
    expect(table).not.toContain(made.out.trim().split("_")[2]);

    const entries: AuditEntry[] = await json("audit", "list");
    expect(entries.filter(({ phase }) => phase !== "intent")).toMatchObject([
      { action: "key.revoke", target: id, reason: "was in a log" },
      { action: "key.rotate", target: id, details: { refused: "rotatedBefore" } },
      { action: "key.rotate", target: id, reason: null },
      { action: "key.create", target: id, actor: `cli:${userInfo().username}` },
    ]);
    expect((await leasehold("audit", "list", "--action", "key.rotate")).out).toContain(id);
  });

  it("wrong usage ends with 64", async () => {
    const link = join(directory, "link");
    await symlink(join(directory, "elsewhere"), link);
    const create = ["keys", "create", "--name", "x"];
    for (const args of [
      create,
      [...create, "--role", "king"],
      [...create, "--role", "holder"],
      [...create, "--role", "viewer", "--prefix", "a/"],
      [...create, "--role", "viewer", "--expires", "0"],
      ["keys", "revoke", "0123456789ab"],
      ["keys", "revoke", "0123456789ab", "--reason", "x"],
      ["keys", "rotate", "0123456789ab"],
      ["limits", "set", "--reason", "x"],
      ["audit", "verify", "--export", join(directory, "missing")],
      ["audit", "export", "--out", join(directory, "missing", "audit.jsonl")],
      ["audit", "export", "--out", link],
    ]) {
      expect(await leasehold(...args)).toMatchObject({ code: 64, out: "" });
    }
    const holder = await leasehold(...create, "--role", "holder");
    expect(holder.err).toContain("--prefix '' means any resource");
    const { code, err } = await leasehold("audit", "export", "--control", "http://127.0.0.1:2");
    expect({ code, err }).toMatchObject({ code: 64, err: expect.stringContaining("--control") });
  });

  it("the generator is started and stopped, which the audit knows", async () => {
    const busy = ["--reason", "busy night", "--actor", "cli:night"];
    const started = await json("generator", "start", "--rate", "3", ...busy);
    expect(started).toMatchObject({ running: true, ratePerSecond: 3 });
    await leasehold("generator", "stop");
    // Only a server knows that a key has acted.
    await leasehold("generator", "stop", "--actor", "key:0123456789ab");
    expect(await json("generator", "status")).toMatchObject({ running: false, ratePerSecond: 3 });
    const entries: AuditEntry[] = await json("audit", "list", "--target", "generator");
    expect(entries.filter(({ phase }) => phase !== "intent")).toMatchObject([
      { action: "generator.stop", reason: null, actor: "cli:key:0123456789ab" },
      { action: "generator.stop", reason: null, actor: `cli:${userInfo().username}` },
      { action: "generator.start", reason: "busy night", actor: "cli:night" },
    ]);
  });

  it("limits are set and taken away", async () => {
    const set = ["limits", "set", "--reason", "as agreed"];
    await leasehold(...set, "--leases", "5000", "--rate", "0.5");
    await leasehold(...set, "--rate", "none", "--tasks", "7");
    expect(await json("limits", "show")).toEqual({
      namespace: "default",
      leases: 5_000,
      tasks: 7,
      ratePerSecond: null,
    });
    expect((await leasehold("limits", "show")).out).toContain("5000");
    expect((await json("audit", "list", "--limit", "1"))[0]).toMatchObject({
      action: "limits.set",
      target: "default",
      reason: "as agreed",
    });
  });

  it("an export ends with the end of the chain, and verification ends with 1 when the chain is not what it was", async () => {
    const file = join(directory, "audit.jsonl");
    expect((await leasehold("audit", "export", "--out", file)).code).toBe(0);
    const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
    const entries = lines.slice(0, -1).map((line) => JSON.parse(line));
    const { seq, hash } = entries.at(-1);
    expect(JSON.parse(lines.at(-1) ?? "")).toEqual({ end: { seq, hash } });
    expect(entries.map((entry) => entry.seq)).toEqual(entries.map((_, n) => n + 1));
    expect((await leasehold("audit", "export")).out).toBe(`${lines.join("\n")}\n`);

    // It is for this user alone, and a link beside it chooses no other file.
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const elsewhere = join(directory, "elsewhere");
    await symlink(elsewhere, `${file}.part`);
    expect((await leasehold("audit", "export", "--out", file)).code).toBe(0);
    await expect(stat(elsewhere)).rejects.toMatchObject({ code: "ENOENT" });

    // An export that fails leaves the one before it as it is.
    const nothing = `pglite:${join(directory, "nothing")}`;
    const failing = ["audit", "export", "--out", file, "--control", nothing];
    expect((await leasehold(...failing)).code).toBe(64);
    expect(await readFile(file, "utf8")).toBe(`${lines.join("\n")}\n`);
    await expect(stat(`${file}.part`)).rejects.toMatchObject({ code: "ENOENT" });

    const verify = ["audit", "verify", "--export", file];
    expect(await leasehold(...verify)).toMatchObject({
      code: 0,
      out: expect.stringContaining(`entries: ${seq}, all unchanged`),
    });
    expect(await json("audit", "verify")).toEqual({ ok: true, entries: seq, head: { seq, hash } });

    const longer = { seq: seq + 1, hash };
    await writeFile(file, JSON.stringify(longer));
    const cut = await leasehold(...verify);
    expect(cut).toMatchObject({ code: 1, out: expect.stringMatching(/^BROKEN at entry \d+: /) });
    const other = { seq: 1, hash: "f".repeat(64) };
    await writeFile(file, JSON.stringify(other));
    const { code, out } = await leasehold(...verify, "--json");
    expect({ code, ...JSON.parse(out) }).toMatchObject({ code: 1, ok: false, seq: 1 });
  });
});
