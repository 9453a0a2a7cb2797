import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import {
  type AuditEntry,
  type AuditLog,
  beforeSeq,
  CHAIN_BEGIN,
  type ChainEnd,
  chained,
  MissingEndError,
  type NewAuditEntry,
  verifyAudit,
} from "./audit.js";

const ENTRY: NewAuditEntry = {
  namespace: "n",
  actor: "key:1",
  action: "lease.revoke",
  target: 'r "\u{1F600}',
  reason: null,
  phase: "done",
  details: '{"status":"revoked"}',
};
const AT = "2030-01-31T12:00:00.000Z";

function chainOf(length: number): AuditEntry[] {
  const entries: AuditEntry[] = [];
  for (let n = 1; n <= length; n++) {
    entries.push(chained(entries.at(-1) ?? CHAIN_BEGIN, { ...ENTRY, reason: `${n}` }, AT));
  }
  return entries;
}

/** In pages of few. */
function logOf(entries: readonly AuditEntry[], head = entries.at(-1) ?? CHAIN_BEGIN) {
  const log: Pick<AuditLog, "read" | "head"> = {
    read: async (afterSeq) => entries.filter(({ seq }) => seq > afterSeq).slice(0, 3),
    head: async () => ({ seq: head.seq, hash: head.hash }),
  };
  return log;
}

it("a hash is the SHA-256 of what the header of the file says", () => {
  const first = chained(CHAIN_BEGIN, ENTRY, AT);
  const text = JSON.stringify([
    "0".repeat(64),
    1,
    AT,
    "n",
    "key:1",
    "lease.revoke",
    ENTRY.target,
    null,
    "done",
    ENTRY.details,
  ]);
  expect(first).toEqual({
    ...ENTRY,
    seq: 1,
    at: AT,
    hash: createHash("sha256").update(text).digest("hex"),
  });
  expect(chained(first, ENTRY, AT)).toMatchObject({ seq: 2 });
  expect(chained(first, ENTRY, AT).hash).not.toBe(first.hash);
});

it("an unchanged chain of any length verifies", async () => {
  for (const length of [0, 1, 3, 10]) {
    const entries = chainOf(length);
    const { seq, hash } = entries.at(-1) ?? CHAIN_BEGIN;
    const verified = { ok: true, entries: length, head: { seq, hash } };
    expect(await verifyAudit(logOf(entries))).toEqual(verified);
    for (const entry of entries) {
      expect(await verifyAudit(logOf(entries), entry)).toEqual(verified);
    }
  }
});

it("entries that are added during the check are no forgery", async () => {
  const entries = chainOf(9);
  const heads = [5, 9];
  const log = logOf(entries);
  const growing = {
    ...log,
    head: async () => entries[(heads.shift() ?? 0) - 1] ?? CHAIN_BEGIN,
  };
  expect(await verifyAudit(growing)).toMatchObject({ ok: true, entries: 9 });
});

it("names the first entry that was changed", async () => {
  const entries = chainOf(10);
  const at = (n: number) => entries[n - 1] as AuditEntry;
  const head = at(10);
  const changed = (n: number, change: Partial<AuditEntry>) =>
    entries.map((entry) => (entry.seq === n ? { ...entry, ...change } : entry));
  for (let n = 1; n <= 10; n++) {
    const broken = { ok: false, seq: n };
    expect(await verifyAudit(logOf(changed(n, { actor: "key:2" }), head))).toMatchObject(broken);
    const without = entries.filter(({ seq }) => seq !== n);
    expect(await verifyAudit(logOf(without, head))).toMatchObject({
      ...broken,
      problem: expect.stringContaining(n < 10 ? "is missing" : "ends before"),
    });
    const cut = entries.slice(0, n - 1);
    expect(await verifyAudit(logOf(cut, head))).toMatchObject(broken);
    // By those who changed what the writers remember, too.
    expect(await verifyAudit(logOf(cut), head)).toMatchObject(broken);
    expect(await verifyAudit(logOf(entries), { ...at(n), hash: "0".repeat(64) })).toMatchObject(
      broken,
    );
  }
  expect(await verifyAudit(logOf(entries, at(8)))).toMatchObject({ ok: false, seq: 9 });
});

it("reads a chain from its start unless it is asked not to, whatever the export", async () => {
  const entries = chainOf(9);
  const forged = entries.map((entry) => (entry.seq === 2 ? { ...entry, actor: "key:2" } : entry));
  expect(await verifyAudit(logOf(forged), entries[5])).toMatchObject({ ok: false, seq: 2 });
});

it("is not whole where the record of its end was deleted, before or while it is read", async () => {
  const entries = chainOf(4);
  const log = logOf(entries);
  const missing = async () => Promise.reject(new MissingEndError());
  for (const heads of [
    [missing, missing],
    [missing, log.head],
    [log.head, missing],
  ]) {
    const next = async () => (heads.shift() ?? missing)();
    expect(await verifyAudit({ ...log, head: next })).toEqual({
      ok: false,
      seq: 5,
      problem: "the record of the chain's end was deleted",
    });
  }
  expect(new MissingEndError().message).toContain("INSERT INTO audit_head");
});

it("passes on that the store does not answer, which says nothing of the chain", async () => {
  const down = new Error("connection refused");
  const log = { ...logOf(chainOf(2)), head: async () => Promise.reject(down) };
  await expect(verifyAudit(log)).rejects.toBe(down);
});

it("reads only what is behind an export, if it is asked to", async () => {
  const entries = chainOf(20);
  const at = (n: number) => entries[n - 1] as AuditEntry;
  const asked: number[] = [];
  const verify = (chain: readonly AuditEntry[], exported: ChainEnd) => {
    const log = logOf(chain, at(20));
    const read: typeof log.read = (afterSeq, limit) => {
      asked.push(afterSeq);
      return log.read(afterSeq, limit);
    };
    return verifyAudit({ ...log, read }, exported, "export");
  };
  const { seq, hash } = at(20);
  expect(await verify(entries, at(12))).toEqual({
    ok: true,
    entries: 20,
    head: { seq, hash },
  });
  expect(asked).toEqual([11, 12, 15, 18, 20]);
  const changed = (n: number) =>
    entries.map((entry) => (entry.seq === n ? { ...entry, actor: "key:2" } : entry));
  expect(await verify(changed(13), at(12))).toMatchObject({ ok: false, seq: 13 });
  // It was verified when it was exported.
  expect(await verify(changed(5), at(12))).toMatchObject({ ok: true });
  expect(await verify(entries, { seq: 12, hash: at(1).hash })).toMatchObject({
    ok: false,
    seq: 12,
  });
  expect(await verify(entries, { seq: 21, hash })).toMatchObject({ ok: false, seq: 21 });
  expect(await verify(entries, CHAIN_BEGIN)).toMatchObject({ ok: true, entries: 20 });
});

it("a cursor is what a page has given", () => {
  expect(beforeSeq({ namespace: "n" })).toBeNull();
  expect(beforeSeq({ namespace: "n", cursor: "12" })).toBe(12);
  for (const cursor of ["", "x", "-1", "1.5", "9".repeat(16)]) {
    expect(() => beforeSeq({ namespace: "n", cursor })).toThrow("cursor");
  }
});
