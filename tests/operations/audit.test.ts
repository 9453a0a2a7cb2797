/** Every operator action has its entry, and a changed chain of entries is detected. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type Act,
  type ChainEnd,
  type Control,
  chained,
  verifyAudit,
  withLeasesApart,
} from "../../packages/leasehold/src/control/index.js";
import { newLeaseId, systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseStore } from "../../packages/leasehold/src/lease/index.js";
import { memory } from "../../packages/leasehold/src/stores/memory/index.js";
import { openStores } from "../../packages/leasehold/src/stores/open.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import {
  CONTROL_ENGINES,
  type OpenedControl,
  type OpenedSql,
  SQL_ENGINES,
} from "../support/engines/control-engines.js";

const namespace = "audited";
let resources = 0;

function revocation(target: string): Act {
  return {
    namespace,
    actor: "cli:tester",
    action: "lease.revoke" as const,
    target,
    reason: "it hangs",
  };
}

/** A live lease of its own. */
async function hold(leases: LeaseStore): Promise<string> {
  const resource = `r-${++resources}`;
  const leaseId = newLeaseId(systemEnv.random);
  const [outcome] = await leases.acquire([
    { namespace, resource, leaseId, holder: "h", ttlMs: 60_000 },
  ]);
  expect(outcome?.status).toBe("acquired");
  return resource;
}

async function stateOf(leases: LeaseStore, resource: string) {
  const [view] = await leases.get([{ namespace, resource }]);
  return view?.state;
}

function revoke(control: Control, resource: string) {
  return control.perform(revocation(resource), async ({ leases }) => {
    const [value] = await leases.revoke([{ namespace, resource, free: "atExpiry" }]);
    return { value, details: { status: value?.status } };
  });
}

/** The oldest first. */
async function entriesOf(control: Control, target: string) {
  const { items } = await control.audit.list({ namespace, target });
  return items.toReversed();
}

for (const engine of CONTROL_ENGINES) {
  engine.describe(`the audit in ${engine.name}`, () => {
    let opened: OpenedControl;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());

    it("enters who did what to what, why, and what came of it", async () => {
      const { control, leases } = opened;
      const beganMs = Date.now();
      const resource = await hold(leases);
      expect(await revoke(control, resource)).toMatchObject({ status: "revoked" });
      expect(await stateOf(leases, resource)).toBe("revoked");
      const entries = await entriesOf(control, resource);
      const last = entries.at(-1);
      expect(last).toMatchObject(revocation(resource));
      expect(JSON.parse(last?.details ?? "")).toMatchObject({ status: "revoked" });
      expect(Date.parse(last?.at ?? "")).toBeGreaterThan(beganMs - 60_000);
      const steps = engine.name === "memory" ? ["intent", "result"] : ["done"];
      expect(entries.map(({ phase }) => phase)).toEqual(steps);
      expect(await verifyAudit(control.audit)).toMatchObject({ ok: true });
    });

    it("enters what was refused, and that an act has failed", async () => {
      const { control } = opened;
      expect(await revoke(control, "not held")).toEqual({ status: "notHeld" });
      const [last] = (await control.audit.list({ namespace, target: "not held" })).items;
      expect(JSON.parse(last?.details ?? "")).toMatchObject({ status: "notHeld" });

      const failing = control.perform(revocation("fails"), () => Promise.reject(new Error("no")));
      await expect(failing).rejects.toThrow(/^no$/);
      const failed = await entriesOf(control, "fails");
      // In one database nothing was done, and nothing is to be entered.
      expect(failed.map(({ phase }) => phase)).toEqual(
        engine.name === "memory" ? ["intent", "result"] : [],
      );
    });

    it("is listed by namespace, target and action, the latest first, page by page", async () => {
      const { control } = opened;
      const added = await control.audit.append(
        Array.from({ length: 7 }, (_, n) => ({
          ...revocation(`t-${n % 2}`),
          namespace: "listed",
          phase: "done",
          details: "{}",
          action: n % 3 === 0 ? "task.cancel" : "lease.revoke",
        })) as never,
      );
      const { audit } = control;
      const seqs = async (query: Parameters<typeof audit.list>[0]) => {
        const found: number[] = [];
        for (let cursor: string | null | undefined; cursor !== null; ) {
          const page = await audit.list({ ...query, ...(cursor && { cursor }) });
          found.push(...page.items.map(({ seq }) => seq - (added[0]?.seq ?? 0)));
          cursor = page.nextCursor;
        }
        return found;
      };
      const listed = { namespace: "listed", limit: 2 };
      expect(await seqs(listed)).toEqual([6, 5, 4, 3, 2, 1, 0]);
      expect(await seqs({ ...listed, target: "t-1" })).toEqual([5, 3, 1]);
      expect(await seqs({ ...listed, actions: ["task.cancel"] })).toEqual([6, 3, 0]);
      expect(await seqs({ ...listed, actions: [] })).toEqual([]);
      expect((await audit.list({ namespace: null, limit: 1 })).items).toEqual([added[6]]);
      await expect(audit.list({ ...listed, cursor: "x" })).rejects.toMatchObject({
        code: "INVALID_OPTION",
        path: "cursor",
      });
      expect(await audit.read((added[0]?.seq ?? 0) - 1, 3)).toEqual(added.slice(0, 3));
    });

    it("is one chain, however many add to it at once", async () => {
      const { control } = opened;
      const before = await control.audit.head();
      const other = "other" in opened ? (opened as OpenedSql).other.control : control;
      await Promise.all(
        Array.from({ length: 20 }, (_, n) => revoke(n % 2 ? control : other, `at once ${n}`)),
      );
      const entries = await control.audit.read(before.seq, 100);
      expect(new Set(entries.map(({ target }) => target)).size).toBe(20);
      const times = entries.map(({ at }) => at);
      expect(times).toEqual(times.toSorted());
      const { seq, hash } = entries.at(-1) ?? {};
      expect(await verifyAudit(control.audit)).toEqual({
        ok: true,
        entries: seq,
        head: { seq, hash },
      });
    });

    it("keeps cancelled, retried and deleted tasks", async () => {
      const { control, tasks } = opened;
      const id = "01999999-9999-7999-8999-999999999999";
      const key = { namespace, id };
      await tasks.enqueue([
        {
          namespace,
          id,
          kind: "k",
          queue: "q",
          priority: 0,
          data: null,
          scheduledAt: null,
          dedupeKey: null,
          maxAttempts: 1,
          crashLimit: 1,
          backoff: { firstMs: 0, longestMs: 0, factor: 1, jitter: 0 },
        },
      ]);
      const act = async (verb: "cancel" | "retry" | "delete") =>
        control.perform(
          { ...revocation(id), action: `task.${verb}` as const },
          async ({ tasks: acts }) => {
            const [value] = await acts[verb]([key]);
            return { value, details: { ...value } };
          },
        );
      expect(await act("cancel")).toEqual({ status: "ok", state: "cancelled" });
      expect(await act("retry")).toEqual({ status: "ok", state: "pending" });
      expect(await act("cancel")).toEqual({ status: "ok", state: "cancelled" });
      expect(await act("delete")).toEqual({ status: "ok", state: "cancelled" });
      expect(await tasks.get(key)).toBeNull();
      expect((await tasks.counts(namespace)).cancelled).toBe(0);
      expect(await act("delete")).toEqual({ status: "unknown" });
      const acted = (await entriesOf(control, id)).filter(({ phase }) => phase !== "intent");
      expect(acted.map(({ action }) => action)).toEqual(
        ["cancel", "retry", "cancel", "delete", "delete"].map((verb) => `task.${verb}`),
      );
    });
  });
}

for (const engine of SQL_ENGINES) {
  engine.describe(`the audit in ${engine.name}, beside the act`, () => {
    let opened: OpenedSql;
    beforeAll(async () => {
      opened = await engine.open();
    });
    afterAll(() => opened.close());

    it("undoes the act when the entry cannot be written", async () => {
      const { control, leases, query } = opened;
      const resource = await hold(leases);
      await query(
        `ALTER TABLE leasehold.audit ADD CONSTRAINT refused CHECK (target <> '${resource}')`,
      );
      await expect(revoke(control, resource)).rejects.toMatchObject({ code: "INVALID_OPTION" });
      await query("ALTER TABLE leasehold.audit DROP CONSTRAINT refused");
      expect(await stateOf(leases, resource)).toBe("live");
      expect(await entriesOf(control, resource)).toEqual([]);
      expect(await revoke(control, resource)).toMatchObject({ status: "revoked" });
    });

    it("undoes all of an act when its work throws, or part of it fails", async () => {
      const { control, leases, query } = opened;
      const resource = await hold(leases);
      const mind = new TypeError("changed my mind");
      const throwing = control.perform(revocation(resource), async (actors) => {
        await actors.leases.revoke([{ namespace, resource, free: "now" }]);
        throw mind;
      });
      await expect(throwing).rejects.toBe(mind);
      expect(await stateOf(leases, resource)).toBe("live");

      // This work ignores the outcomes of its calls.
      const failing = control.perform(revocation(resource), async (actors) => {
        await actors.leases.revoke([{ namespace, resource, free: "now" }]);
        await actors.leases.revoke([{ namespace, resource: "NUL \0", free: "now" }]);
        return { value: "unaware", details: {} };
      });
      await expect(failing).rejects.toMatchObject({ code: "INVALID_OPTION" });
      expect(await stateOf(leases, resource)).toBe("live");
      expect(await entriesOf(control, resource)).toEqual([]);
      expect(await query("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    });

    it("refuses to update, delete or truncate entries, and to move the end back", async () => {
      const { control, query } = opened;
      await revoke(control, "kept");
      for (const statement of [
        "UPDATE leasehold.audit SET actor = 'another operator'",
        "DELETE FROM leasehold.audit WHERE target = 'kept'",
        "TRUNCATE leasehold.audit",
        "UPDATE leasehold.audit_head SET seq = 0, hash = repeat('0', 64)",
        "UPDATE leasehold.audit_head SET hash = repeat('0', 64)",
        "DELETE FROM leasehold.audit_head",
        "TRUNCATE leasehold.audit_head",
      ]) {
        await expect(query(statement)).rejects.toThrow("the audit is only ever added to");
      }
      expect(await verifyAudit(control.audit)).toMatchObject({ ok: true });
    });

    it("takes no number for an act that was rolled back", async () => {
      const { control } = opened;
      const before = await control.audit.head();
      const entry = { ...revocation("r"), phase: "done", details: "{}" } as const;
      // PostgreSQL stores no NUL, so the transaction fails in the statement that adds the entries.
      const failing = [entry, { ...entry, reason: "\0" }];
      await expect(control.audit.append(failing)).rejects.toMatchObject({ outcome: "none" });
      expect(await control.audit.head()).toEqual(before);
      expect(await control.audit.append([entry])).toMatchObject([{ seq: before.seq + 1 }]);
      expect(await verifyAudit(control.audit)).toMatchObject({ ok: true, entries: before.seq + 1 });
    });
  });

  engine.describe(`the audit in ${engine.name}, tampered with`, () => {
    let opened: OpenedSql;
    let exported: ChainEnd;
    const ENTRIES = 12;
    beforeAll(async () => {
      opened = await engine.open();
      for (let n = 1; n <= ENTRIES; n++) await revoke(opened.control, `r-${n}`);
      exported = await opened.control.audit.head();
      // What a superuser can do.
      await opened.query("ALTER TABLE leasehold.audit DISABLE TRIGGER ALL");
      await opened.query("ALTER TABLE leasehold.audit_head DISABLE TRIGGER ALL");
      await opened.query("CREATE TABLE untouched AS SELECT * FROM leasehold.audit");
      await opened.query("CREATE TABLE untouched_head AS SELECT * FROM leasehold.audit_head");
    });
    afterAll(() => opened.close());

    /** What is found, by those who have an export, after the statements; they are undone. */
    async function found(...statements: readonly string[]) {
      for (const statement of statements) await opened.query(statement);
      const verification = await verifyAudit(opened.control.audit, exported);
      await opened.query("DELETE FROM leasehold.audit");
      await opened.query("INSERT INTO leasehold.audit SELECT * FROM untouched");
      await opened.query("DELETE FROM leasehold.audit_head");
      await opened.query("INSERT INTO leasehold.audit_head SELECT * FROM untouched_head");
      return verification;
    }
    const update = (change: string, seq: number) =>
      `UPDATE leasehold.audit SET ${change} WHERE seq = ${seq}`;

    it("is in order before that", async () => {
      expect(await found()).toEqual({ ok: true, entries: ENTRIES, head: exported });
    });

    it.each([
      "actor = 'cli:other'",
      "reason = NULL",
      "at = '2020-01-01T00:00:00.000Z'",
      "namespace = 'elsewhere'",
      "action = 'task.cancel'",
      "target = 'other'",
      "phase = 'intent'",
      `details = '{"status":"revoked"}'`,
      "hash = repeat('a', 64)",
    ])("shows the entry whose %s was set", async (change) => {
      expect(await found(update(change, 5))).toMatchObject({ ok: false, seq: 5 });
    });

    it("shows the first place of an entry that was deleted, at the beginning too", async () => {
      const remove = (seq: number) => `DELETE FROM leasehold.audit WHERE seq = ${seq}`;
      expect(await found(remove(7))).toMatchObject({ ok: false, seq: 7 });
      expect(await found(remove(1))).toMatchObject({ ok: false, seq: 1 });
      // With all behind it moved up.
      const up = "UPDATE leasehold.audit SET seq = seq - 1 WHERE seq =";
      const moved = Array.from({ length: ENTRIES - 7 }, (_, n) => `${up} ${n + 8}`);
      expect(await found(remove(7), ...moved)).toMatchObject({ ok: false, seq: 7 });
    });

    it("shows a forged entry, within the chain and behind its end", async () => {
      const down = "UPDATE leasehold.audit SET seq = seq + 1 WHERE seq =";
      const moved = Array.from({ length: ENTRIES - 5 }, (_, n) => `${down} ${ENTRIES - n}`);
      const copy = `INSERT INTO leasehold.audit
        SELECT 6, at, namespace, 'cli:forger', action, target, reason, phase, details, hash
        FROM leasehold.audit WHERE seq = 5`;
      expect(await found(...moved, copy)).toMatchObject({ ok: false, seq: 6 });

      // Even if its hash is right.
      const forged = chained(
        exported,
        { ...revocation("forged"), phase: "done", details: "{}" },
        new Date().toISOString(),
      );
      const behind = `INSERT INTO leasehold.audit SELECT ${forged.seq}, '${forged.at}', namespace,
        actor, action, 'forged', reason, phase, '{}', '${forged.hash}'
        FROM leasehold.audit WHERE seq = 1`;
      expect(await found(behind)).toMatchObject({ ok: false, seq: ENTRIES + 1 });
    });

    it("shows two entries that changed places", async () => {
      const swap = [[4, 1_000] as const, [9, 4] as const, [1_000, 9] as const];
      const moves = swap.map(([from, to]) => update(`seq = ${to}`, from));
      expect(await found(...moves)).toMatchObject({ ok: false, seq: 4 });
    });

    it("shows that its end was cut off, also to those who changed the head with it", async () => {
      const cut = "DELETE FROM leasehold.audit WHERE seq > 9";
      expect(await found(cut)).toMatchObject({ ok: false, seq: 10 });
      const head = `UPDATE leasehold.audit_head SET seq = 9,
        hash = (SELECT a.hash FROM leasehold.audit a WHERE a.seq = 9)`;
      const both = await found(cut, head);
      expect(both).toMatchObject({ ok: false, seq: 10 });
      expect(both).toHaveProperty("problem", expect.stringContaining("export"));
      const all = await found(
        "DELETE FROM leasehold.audit",
        "UPDATE leasehold.audit_head SET seq = 0, hash = repeat('0', 64)",
      );
      expect(all).toMatchObject({ ok: false, seq: 1 });
    });

    it("shows that the record of its end is gone, and does nothing that could not be entered", async () => {
      const { control, leases, query } = opened;
      const resource = await hold(leases);
      const remove = "DELETE FROM leasehold.audit_head";
      expect(await found(remove)).toEqual({
        ok: false,
        seq: ENTRIES + 1,
        problem: "the record of the chain's end was deleted",
      });
      await query(remove);
      const refused = expect.objectContaining({
        code: "STORE_MISCONFIGURED",
        message: expect.stringContaining("was deleted (the row of audit_head)"),
      });
      await expect(revoke(control, resource)).rejects.toEqual(refused);
      const entry = { ...revocation(resource), phase: "done", details: "{}" } as const;
      await expect(control.audit.append([entry])).rejects.toEqual(refused);
      await expect(control.audit.head()).rejects.toEqual(refused);
      expect(await stateOf(leases, resource)).toBe("live");
      // Also before the first entry, which could otherwise begin a chain of its own.
      await query("DELETE FROM leasehold.audit");
      await expect(revoke(control, resource)).rejects.toEqual(refused);
      expect(await verifyAudit(control.audit)).toMatchObject({ ok: false, seq: 1 });
      await found();
    });

    it("shows a chain that was written anew, whole", async () => {
      const entries = await opened.control.audit.read(0, 100);
      let last: ChainEnd = { seq: 0, hash: "0".repeat(64) };
      const rewritten = entries.flatMap((entry) => {
        const next = chained(last, { ...entry, reason: "no reason" }, entry.at);
        last = next;
        return update(`reason = 'no reason', hash = '${next.hash}'`, next.seq);
      });
      const head = `UPDATE leasehold.audit_head SET hash = '${last.hash}'`;
      expect(await found(...rewritten, head)).toMatchObject({ ok: false, seq: ENTRIES });
    });
  });
}

SQL_ENGINES[1]?.describe("an act that is cut off in PostgreSQL", () => {
  it("leaves neither act nor entry", async () => {
    const opened = await SQL_ENGINES[1]!.open();
    try {
      const { control, leases, query } = opened;
      const resource = await hold(leases);
      const cut = control.perform(revocation(resource), async (actors) => {
        await actors.leases.revoke([{ namespace, resource, free: "now" }]);
        await query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND application_name = 'leasehold' AND state = 'idle in transaction'`,
        );
        return { value: null, details: {} };
      });
      await expect(cut).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(await stateOf(leases, resource)).toBe("live");
      expect(await entriesOf(control, resource)).toEqual([]);
      expect(await verifyAudit(control.audit)).toMatchObject({ ok: true });
    } finally {
      await opened.close();
    }
  });
});

SQL_ENGINES[1]?.describe("an act that cannot be entered for long in PostgreSQL", () => {
  it("lets go of the lease, so that its holder can renew", async () => {
    const opened = await SQL_ENGINES[1]!.open();
    const { control, leases, query } = opened;
    const elsewhere = `FROM pg_stat_activity
      WHERE pid <> pg_backend_pid() AND wait_event = 'PgSleep'`;
    const stuck = query(
      `WITH head AS MATERIALIZED (SELECT FROM leasehold.audit_head FOR UPDATE)
       SELECT pg_sleep(60) FROM head`,
    ).catch(() => "cancelled");
    try {
      await vi.waitFor(async () => expect(await query(`SELECT ${elsewhere}`)).toHaveLength(1));
      const resource = `r-${++resources}`;
      const grant = { namespace, resource, leaseId: newLeaseId(systemEnv.random), ttlMs: 60_000 };
      await leases.acquire([{ ...grant, holder: "h" }]);
      const pause = { namespace, kind: "resource", name: resource, reason: "it hangs" } as const;
      const act = { ...revocation(resource), action: "resource.pause" as const };
      const pausing = control.perform(act, async ({ pauses }) => ({
        value: await pauses.set({ ...pause, actor: "cli:tester" }),
        details: {},
      }));
      await expect(pausing).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
      expect(await leases.renew([grant])).toMatchObject([{ status: "renewed" }]);
    } finally {
      await query(`SELECT pg_cancel_backend(pid) ${elsewhere}`);
      expect(await stuck).toBe("cancelled");
      await opened.close();
    }
  });
});

describe("acts on leases that another store keeps", () => {
  let stores: Stores;
  let control: Control;
  let leases: LeaseStore;
  beforeAll(async () => {
    stores = await openStores(memory(), "pglite:", systemEnv, 60_000);
    if (!stores.control) throw new Error("PGlite keeps a control");
    ({ control, leases } = stores);
  });
  afterAll(() => stores.close());

  it("are entered before and after, all others once", async () => {
    const resource = await hold(leases);
    await revoke(control, resource);
    expect(await stateOf(leases, resource)).toBe("revoked");
    const [intent, result, ...more] = await entriesOf(control, resource);
    expect(more).toEqual([]);
    expect(intent).toMatchObject({ phase: "intent", reason: "it hangs" });
    expect(result).toMatchObject({ phase: "result" });
    expect(JSON.parse(result?.details ?? "")).toEqual({ intent: intent?.seq, status: "revoked" });

    await control.perform(
      { ...revocation("n"), action: "limits.set" as const },
      async ({ limits }) => ({
        value: await limits.set(namespace, { leases: 1 }),
        details: {},
      }),
    );
    expect((await entriesOf(control, "n")).map(({ phase }) => phase)).toEqual(["done"]);
  });

  it("leave an intent when it is not known what came of them, and are not begun without one", async () => {
    const resource = await hold(leases);
    let begun = () => {};
    const working = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const dying = withLeasesApart(control, {
      revoke() {
        begun();
        return new Promise(() => {});
      },
    });
    void revoke(dying, resource);
    await working;
    expect((await entriesOf(control, resource)).map(({ phase }) => phase)).toEqual(["intent"]);

    const mute = withLeasesApart(
      {
        ...control,
        audit: { ...control.audit, append: () => Promise.reject(new Error("disk full")) },
      },
      leases,
    );
    await expect(revoke(mute, resource)).rejects.toThrow("disk full");
    expect(await stateOf(leases, resource)).toBe("live");
  });
});
