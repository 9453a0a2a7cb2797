/** Grants on tasks as leases: how each ended, and that a walk through the pages meets each once. */

import { grantIdOf, zip } from "../../env/index.js";
import type { LeaseState } from "../../lease/index.js";
import { leasesOfTask } from "../../tasks/leases.js";
import {
  type Fixture,
  type Held,
  LONG_TTL_MS,
  needsReap,
  type Section,
  thrownBy,
} from "./fixture.js";

const STATES: readonly LeaseState[] = ["live", "expired", "released", "revoked"];

/** One task with a grant of each ending; the last one runs, with a heartbeat. */
async function eachEnding(fixture: Fixture): Promise<Held[]> {
  await fixture.add({ maxAttempts: 100, crashLimit: 100 });
  const holders: Held[] = [];
  const hold = async (ttlMs = LONG_TTL_MS) => {
    const held = await fixture.hold({ ttlMs, holder: `worker ${holders.length + 1}` });
    holders.push(held);
    return held;
  };
  const failed = await hold();
  await fixture.heartbeat(failed, { ttlMs: LONG_TTL_MS + 1 });
  await fixture.fail(failed, { retryInMs: 0 });
  await fixture.requeue(await hold());
  const crashed = await hold(fixture.shortTtlMs);
  await fixture.pass(crashed.ttlMs);
  await fixture.reap(crashed);
  const cancelled = await hold();
  await fixture.cancel(cancelled);
  await fixture.retry(cancelled);
  await fixture.heartbeat(await hold(), { ttlMs: LONG_TTL_MS + 2 });
  return holders;
}

export const leases: Section = (test, expect) => {
  test("lists every grant as a lease on its task, the newest first", async (fixture) => {
    const holders = await eachEnding(fixture);
    const endings: readonly (readonly [LeaseState, boolean])[] = [
      ["released", true],
      ["released", false],
      ["expired", false],
      ["revoked", false],
      ["live", true],
    ];
    const listed = await fixture.leases();
    const expected = [...zip(holders, endings)].map(([held, [state, renewed]], index) => {
      const { id, leaseId, token, holder, ttlMs } = held;
      const grant = { holder, grantId: grantIdOf(leaseId), token };
      const key = { namespace: fixture.namespace, resource: `task:${id}` };
      const longer = index === 0 ? 1 : 2;
      return { ...key, ...grant, state, ttlMs: renewed ? ttlMs + longer : ttlMs, metadata: null };
    });
    expect(listed).toMatchObject(expected.reverse());
    expect(listed).toHaveLength(5);
    for (const [index, lease] of listed.entries()) {
      expect(lease.renewedAt !== null).toBe([0, 4].includes(index));
      expect(lease.remainingMs > 0).toBe(lease.state === "live");
    }
  });

  test("says when a grant began, was renewed, and ended or will end", async (fixture) => {
    const [{ id }] = (await eachEnding(fixture)) as [Held];
    const details = await fixture.view({ id });
    const listed = await fixture.leases();
    const times = details.attempts.map(({ startedAt, endedAt }, index) => ({
      grantedAt: startedAt,
      expiresAt: endedAt ?? details.expiresAt,
      ...(index === 4 && { renewedAt: details.heartbeatAt }),
    }));
    expect(listed).toMatchObject(times.reverse());
    for (const { grantedAt, renewedAt, expiresAt } of listed) {
      for (const time of [grantedAt, expiresAt]) {
        expect(new Date(time ?? "").toISOString()).toBe(time);
      }
      const ordered = [grantedAt, renewedAt, expiresAt].filter((time) => time !== null);
      expect([...ordered].sort()).toEqual(ordered);
    }
    // The details of a task say the same.
    const still = (views: readonly object[]) => views.map((view) => ({ ...view, remainingMs: 0 }));
    expect(still(leasesOfTask(fixture.namespace, details))).toEqual(still(listed));
    expect(leasesOfTask(fixture.namespace, details)[0]?.remainingMs).toBeGreaterThan(0);
  });

  test("counts a task that is done as released, and one that was never claimed not", async (fixture) => {
    const held = await fixture.addAndHold();
    await fixture.complete(held);
    const pending = await fixture.add();
    await fixture.cancel(pending);
    await fixture.add();
    const { finishedAt } = await fixture.view(held);
    expect(await fixture.leases()).toMatchObject([
      { resource: `task:${held.id}`, state: "released", expiresAt: finishedAt, remainingMs: 0 },
    ]);
    expect(await fixture.leases()).toHaveLength(1);
  });

  test(
    "counts a running task with an expired lease as expired, reaped or not",
    async (fixture) => {
      const held = await fixture.addAndExpire();
      const { state, expiresAt } = await fixture.view(held);
      expect(state).toBe("running");
      const lease = { state: "expired", token: held.token, remainingMs: 0 };
      expect(await fixture.leases({ states: ["live"] })).toEqual([]);
      expect(await fixture.leases({ states: ["expired"] })).toMatchObject([
        { ...lease, expiresAt },
      ]);
      await fixture.reap(held);
      const [{ endedAt } = { endedAt: null }] = (await fixture.view(held)).attempts;
      const after = await fixture.leases();
      expect(after).toMatchObject([{ ...lease, expiresAt: endedAt }]);
      expect(after).toHaveLength(1);
    },
    needsReap,
  );

  test("lists by state, and only what was renewed", async (fixture) => {
    await eachEnding(fixture);
    await fixture.addAndHold();
    const all = await fixture.leases();
    expect(all).toHaveLength(6);
    const some: (readonly LeaseState[])[] = STATES.map((state) => [state]);
    for (const states of [...some, [], ["live", "expired"], ["released", "revoked"], STATES]) {
      for (const limit of [1, 2, 100]) {
        const query = { states: states as LeaseState[], limit };
        const wanted = all.filter(({ state }) => states.includes(state));
        const grants = (list: typeof all) => list.map(({ grantId }) => grantId);
        expect(grants(await fixture.leases(query))).toEqual(grants(wanted));
        expect(grants(await fixture.leases({ ...query, renewedOnly: true }))).toEqual(
          grants(wanted.filter(({ renewedAt }) => renewedAt !== null)),
        );
      }
    }
    expect(await fixture.leases({ renewedOnly: true })).toHaveLength(2);
    expect(await fixture.leases({ renewedOnly: false })).toHaveLength(6);
  });

  test("pages through every grant once, while tasks are claimed and end", async (fixture) => {
    await fixture.addAll(Array.from({ length: 12 }, () => ({ maxAttempts: 100 })));
    for (const held of await fixture.claim({ limit: 9 })) {
      await fixture.fail(held, { retryInMs: 0 });
    }
    const running = await fixture.claim({ limit: 8 });
    const before = (await fixture.leases()).map(({ grantId }) => grantId);
    expect(before).toHaveLength(17);
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await fixture.store.leases({
        namespace: fixture.namespace,
        limit: 3,
        ...(cursor !== null && { cursor }),
      });
      expect(page.items.length).toBeLessThanOrEqual(3);
      seen.push(...page.items.map(({ grantId }) => grantId));
      cursor = page.nextCursor;
      for (const held of running.splice(0, 2)) {
        await fixture.requeue(held);
        await fixture.claim({ limit: 1 });
      }
      await fixture.addAndHold({ priority: -1 }, { limit: 1 });
    } while (cursor !== null);
    expect([...new Set(seen)]).toEqual(seen);
    expect(seen.filter((grantId) => before.includes(grantId))).toEqual(before);
  });

  test("lists 100 by default, and ends exactly", async (fixture) => {
    await fixture.addAll(Array.from({ length: 101 }, () => ({})));
    await fixture.claim();
    const { namespace } = fixture;
    const page = await fixture.store.leases({ namespace });
    expect(page.items).toHaveLength(100);
    expect(page.nextCursor).toBe(null);
    await fixture.hold();
    const { nextCursor } = await fixture.store.leases({ namespace });
    const rest = await fixture.store.leases({ namespace, cursor: nextCursor ?? "" });
    expect(rest.items).toHaveLength(1);
    expect(rest.nextCursor).toBe(null);
  });

  test("throws at a cursor that no page has given", async (fixture) => {
    const { id } = await fixture.addAndHold();
    for (const cursor of ["page 2", id, `${id}.x`, `${id}.1.1`, `x${id.slice(1)}.1`]) {
      const call = fixture.store.leases({ namespace: fixture.namespace, cursor });
      expect(await thrownBy(call)).toMatchObject({ code: "INVALID_OPTION", path: "cursor" });
    }
  });

  test("shows nothing of another namespace, and no lease id", async (fixture) => {
    const holders = await eachEnding(fixture);
    const namespace = `${fixture.namespace}-other`;
    expect(await fixture.store.leases({ namespace })).toEqual({ items: [], nextCursor: null });
    const shown = JSON.stringify(await fixture.leases());
    for (const secret of [...holders.map(({ leaseId }) => leaseId), "leaseId", "lease_id"]) {
      expect(shown.includes(secret)).toBe(false);
    }
  });
};
