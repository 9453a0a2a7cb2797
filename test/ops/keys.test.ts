/** API keys and the commands about them, directly on the stores. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { describeFailure } from "../../src/cli/failures.js";
import { loadProgram } from "../../src/cli/program.js";
import {
  type AuditEntry,
  createKey,
  equalDigests,
  type KeyOrder,
  parseKeyText,
  revokeKey,
  rotateKey,
} from "../../src/control/index.js";
import { systemEnv } from "../../src/env/index.js";
import { memory } from "../../src/stores/memory/index.js";
import { manualEnv } from "../../src/testing/index.js";
import { CONTROL_ENGINES, type OpenedControl, SQL_ENGINES } from "../support/control-engines.js";

const { random } = systemEnv;
const BY = { actor: "cli:tester", reason: null };
const HOLDER: KeyOrder = {
  ...{ namespace: "n", name: "CI", role: "holder" },
  ...{ prefixes: ["a/", 'odd "\\%_'], lifetimeMs: 60_000 },
};
const ADMIN: KeyOrder = { ...HOLDER, role: "admin", prefixes: [], lifetimeMs: null };

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
      const { key, text } = await createKey(control, random, HOLDER, BY);
      expect(key).toEqual({
        ...{ id: key.id, namespace: "n", name: "CI", role: "holder", prefixes: HOLDER.prefixes },
        ...{ createdAt: key.createdAt, expiresAt: key.expiresAt, revoked: false },
        remainingMs: key.remainingMs,
      });
      expect(Date.parse(key.expiresAt ?? "") - Date.parse(key.createdAt)).toBe(60_000);
      expect(key.remainingMs).toBeGreaterThan(0);
      expect(key.remainingMs).toBeLessThanOrEqual(60_000);
      const asked = parseKeyText(text);
      expect(asked?.id).toBe(key.id);
      const record = await control.keys.find(key.id);
      expect(record).toMatchObject({ ...key, remainingMs: expect.any(Number) });
      expect(equalDigests(record?.digest ?? "", asked?.digest ?? "-")).toBe(true);
      expect(await control.keys.find("0".repeat(12))).toBeNull();
      expect(await control.keys.any()).toBe(true);
    });

    it("are listed by tenant, the newest first, without what could be used", async () => {
      const { control } = opened;
      const made = [
        await createKey(control, random, { ...HOLDER, namespace: "listed" }, BY),
        await createKey(control, random, { ...ADMIN, namespace: "listed" }, BY),
      ];
      const listed = await control.keys.list("listed");
      expect(listed.map(({ id }) => id)).toEqual(made.map(({ key }) => key.id).toReversed());
      expect(listed[0]).toMatchObject({ remainingMs: null, expiresAt: null, prefixes: [] });
      for (const key of listed) expect(key).not.toHaveProperty("digest");
      expect((await control.keys.list(null)).length).toBeGreaterThan(2);
      expect(await control.keys.list("nobody")).toEqual([]);
    });

    it("are exchanged with an overlap, and keep rights and length of life", async () => {
      const { control } = opened;
      const first = await createKey(control, random, HOLDER, BY);
      const { id } = first.key;
      const rotated = await rotateKey(
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
      expect(await rotateKey(control, random, again, BY)).toBeNull();
      const elsewhere = { namespace: "other", id: key.id, overlapMs: 0 };
      expect(await rotateKey(control, random, elsewhere, BY)).toBeNull();
      const endless = await createKey(control, random, ADMIN, BY);
      const now = { namespace: "n", id: endless.key.id, overlapMs: 0 };
      expect(await rotateKey(control, random, now, BY)).toMatchObject({
        ...{ key: { expiresAt: null }, old: { revoked: true, remainingMs: 0 } },
      });
      const entries = (await control.audit.list({ namespace: "n", target: id })).items;
      const done = entries.find(
        ({ action, phase }) => action === "key.rotate" && phase !== "intent",
      );
      expect(JSON.parse(done?.details ?? "{}")).toMatchObject({ successor: key.id });
    });

    it("are revoked at once, for good, and by their own tenant alone", async () => {
      const { control } = opened;
      const { key } = await createKey(control, random, HOLDER, BY);
      const { id } = key;
      expect(await revokeKey(control, { namespace: "other", id }, BY)).toBeNull();
      expect((await control.keys.find(id))?.revoked).toBe(false);
      const revoked = await revokeKey(control, { namespace: "n", id }, BY);
      expect(revoked).toMatchObject({ id, revoked: true, remainingMs: 0 });
      const again = await revokeKey(control, { namespace: "n", id }, BY);
      expect(again?.expiresAt).toBe(revoked?.expiresAt);
      expect(await rotateKey(control, random, { namespace: "n", id, overlapMs: 9 }, BY)).toBeNull();
    });

    it("are refused when nobody could use them as meant", async () => {
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
        const making = createKey(control, random, { ...HOLDER, ...change }, BY);
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
        ...{ leases: null, tasks: null, ratePerSecond: null },
      });
      await set({ leases: 5, ratePerSecond: 0.5 });
      await set({ tasks: 0, leases: null });
      const after = { leases: null, tasks: 0, ratePerSecond: 0.5 };
      expect(await set({})).toEqual(after);
      expect(await control.limits.read("limited")).toEqual(after);
    });
  });
}

for (const engine of SQL_ENGINES) {
  engine.describe(`secrets in ${engine.name}`, () => {
    it("stand in no table, and leaseIds in those of leases alone", async () => {
      const opened = await engine.open();
      try {
        const { control, leases, query } = opened;
        const { key, text } = await createKey(control, random, HOLDER, BY);
        const old = { namespace: "n", id: key.id, overlapMs: 1_000 };
        const rotated = await rotateKey(control, random, old, BY);
        const leaseId = "5ec4e7".padEnd(32, "0");
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
        const secrets = [text, rotated?.text ?? ""].map((one) => one.split("_").at(-1) ?? "");
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
  const { key } = await createKey(control, env.random, HOLDER, BY);
  await env.clock.advance(59_999);
  expect(await control.keys.any()).toBe(true);
  await env.clock.advance(1);
  expect(await control.keys.find(key.id)).toMatchObject({ remainingMs: 0, revoked: false });
  expect(await control.keys.any()).toBe(false);
});

describe("on the command line", () => {
  let directory = "";
  // One that outlives a command.
  const store = "memory:command-line-keys";
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "leasehold-keys-"));
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** Runs a command in this process; what it prints, and its code. */
  async function leasehold(...args: readonly string[]) {
    const said = { out: "", err: "" };
    const out = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
      said.out += String(text);
      return true;
    });
    const err = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      said.err += String(text);
      return true;
    });
    try {
      const { program } = await loadProgram(args[0]);
      await program.parseAsync(["node", "leasehold", ...args, "--store", store]);
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
    expect(made.out).toMatch(/^lh_[0-9a-f]{12}_[0-9a-f]{32}\n$/);
    expect(made.err).toContain("nobody can show it again");
    const { id } = parseKeyText(made.out.trim()) ?? expect.fail("no key");

    const { key, old } = await json("keys", "rotate", id, "--overlap", "1h");
    expect(old.id).toBe(id);
    expect(old.remainingMs).toBeGreaterThan(3_000_000);
    expect(old.remainingMs).toBeLessThanOrEqual(3_600_000);
    expect(key).toMatchObject({ role: "holder", prefixes: ["a/", ""], namespace: "default" });

    const revoked = await leasehold("keys", "revoke", id, "--reason", "was in a log");
    expect(revoked).toMatchObject({ code: 0, out: `revoked: ${id}, CI\n` });
    expect(await json("keys", "list")).toMatchObject([
      ...[
        { id: key.id, revoked: false },
        { id, revoked: true },
      ],
    ]);
    const table = (await leasehold("keys", "list")).out;
    expect(table).toContain(id);
    expect(table).not.toContain(made.out.trim().split("_")[2]);

    const entries: AuditEntry[] = await json("audit", "list");
    expect(entries.filter(({ phase }) => phase === "result")).toMatchObject([
      { action: "key.revoke", target: id, reason: "was in a log" },
      { action: "key.rotate", target: id, reason: null },
      { action: "key.create", target: id, actor: `cli:${userInfo().username}` },
    ]);
    expect((await leasehold("audit", "list", "--action", "key.rotate")).out).toContain(id);
  });

  it("wrong usage ends with 64", async () => {
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
      ["audit", "verify", "--checkpoint", join(directory, "missing")],
      ["audit", "export", "--out", join(directory, "missing", "audit.jsonl")],
    ]) {
      expect(await leasehold(...args)).toMatchObject({ code: 64, out: "" });
    }
    const { code, err } = await leasehold("keys", "list", "--control", "http://127.0.0.1:1");
    expect({ code, err }).toMatchObject({ code: 64, err: expect.stringContaining("--control") });
  });

  it("limits are set and taken away", async () => {
    const set = ["limits", "set", "--reason", "as agreed"];
    await leasehold(...set, "--leases", "5000", "--rate", "0.5");
    await leasehold(...set, "--rate", "none", "--tasks", "7");
    expect(await json("limits", "show")).toEqual({
      ...{ namespace: "default", leases: 5_000, tasks: 7, ratePerSecond: null },
    });
    expect((await leasehold("limits", "show")).out).toContain("5000");
    expect((await json("audit", "list", "--limit", "1"))[0]).toMatchObject({
      ...{ action: "limits.set", target: "default", reason: "as agreed" },
    });
  });

  it("an export is a checkpoint, and verification ends with 1 when the chain is not what it was", async () => {
    const file = join(directory, "audit.jsonl");
    expect((await leasehold("audit", "export", "--out", file)).code).toBe(0);
    const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
    const entries = lines.slice(0, -1).map((line) => JSON.parse(line));
    const { seq, hash } = entries.at(-1);
    expect(JSON.parse(lines.at(-1) ?? "")).toEqual({ checkpoint: { seq, hash } });
    expect(entries.map((entry) => entry.seq)).toEqual(entries.map((_, n) => n + 1));
    expect((await leasehold("audit", "export")).out).toBe(`${lines.join("\n")}\n`);

    const verify = ["audit", "verify", "--checkpoint", file];
    expect(await leasehold(...verify)).toMatchObject({
      ...{ code: 0, out: expect.stringContaining(`entries: ${seq}, each as it was`) },
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
