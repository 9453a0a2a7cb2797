import { invariant, nextTurn, zip } from "../../env/index.js";
import type { AcquireOutcome, RenewOutcome } from "../../lease/index.js";
import { type Fixture, grantOf, needsLockRow, type Section } from "./fixture.js";

export const concurrency: Section = (test, expect) => {
  const expectOneWinner = (outcomes: readonly AcquireOutcome[], holders: readonly string[]) => {
    const winners = holders.filter((_, index) => outcomes[index]?.status === "acquired");
    expect(winners).toHaveLength(1);
    for (const outcome of outcomes) {
      if (outcome.status === "acquired") continue;
      expect(outcome).toMatchObject({ status: "held", holder: winners[0] });
    }
  };

  test("64 acquirers at once: one wins, the others learn the holder", async (t) => {
    for (let round = 0; round < 3; round++) {
      const key = t.key(`round ${round}`);
      const requests = Array.from({ length: 64 }, () => t.request(key));
      const outcomes = await Promise.all(requests.map((request) => t.acquire(request)));
      expectOneWinner(
        outcomes,
        requests.map(({ holder }) => holder),
      );
    }
  });

  test("64 acquirers of a key that was just freed: one wins", async (t) => {
    let last = await t.hold();
    for (let round = 0; round < 3; round++) {
      await t.release(last);
      const requests = Array.from({ length: 64 }, () => t.request(t.key()));
      const outcomes = await Promise.all(requests.map((request) => t.acquire(request)));
      expectOneWinner(
        outcomes,
        requests.map(({ holder }) => holder),
      );
      const won = [...zip(requests, outcomes)].find(([, { status }]) => status === "acquired");
      invariant(won, "a winner");
      const [request, outcome] = won;
      const answer = t.expectAcquired(outcome);
      expect(answer.token).toBeGreaterThan(last.answer.token);
      last = { ...request, answer, sentMs: 0 };
    }
  });

  test("one request sent 16 times at once makes one grant", async (t) => {
    const request = t.request(t.key());
    const outcomes = await Promise.all(Array.from({ length: 16 }, () => t.acquire(request)));
    const granted = new Set(outcomes.map((outcome) => t.expectAcquired(outcome).token));
    expect(granted.size).toBe(1);
  });

  test("a crowd that takes turns is never inside together, and its tokens grow", async (t) => {
    const granted: number[] = [];
    let inside = 0;
    const member = async () => {
      while (granted.length < 30) {
        const request = t.request(t.key());
        const outcome = await t.acquire(request);
        if (outcome.status !== "acquired") continue;
        inside += 1;
        granted.push(outcome.token);
        await nextTurn();
        expect(inside).toBe(1);
        inside -= 1;
        await t.release(request);
      }
    };
    await Promise.all(Array.from({ length: 4 }, member));
    for (const [before, token] of zip(granted.slice(0, -1), granted.slice(1))) {
      expect(token).toBeGreaterThan(before);
    }
  });

  test("batches in opposite orders of keys go through, none half", async (t) => {
    for (let round = 0; round < 5; round++) {
      const keys = Array.from({ length: 100 }, (_, index) => t.key(`${round}/${index}`));
      const batches = Array.from({ length: 4 }, (_, member) => {
        const requests = keys.map((key) => t.request(key));
        return member % 2 === 0 ? requests : requests.reverse();
      });
      const outcomes = await Promise.all(batches.map((batch) => t.acquireAll(batch)));
      const owned = batches.flatMap((batch, member) =>
        batch.filter((_, index) => outcomes[member]?.[index]?.status === "acquired"),
      );
      expect(new Set(owned.map(({ resource }) => resource)).size).toBe(keys.length);
      expect(owned).toHaveLength(keys.length);

      const forth = owned.map((request) => ({ ...grantOf(request), ttlMs: t.longTtlMs }));
      const back = [...forth].reverse();
      const renewed = await Promise.all([forth, back, forth, back].map((all) => t.renewAll(all)));
      for (const outcome of renewed.flat()) expect(outcome.status).toBe("renewed");

      // A release may come first in one batch and repeated in the other: both end the grant.
      const ended = await Promise.all([
        t.releaseAll(forth.map(grantOf)),
        t.releaseAll(back.map(grantOf)),
        t.revokeAll(back.map(({ namespace, resource }) => ({ namespace, resource, free: "now" }))),
      ]);
      expect(ended.map((all) => all.length)).toEqual([100, 100, 100]);
      for (const outcome of await t.acquireAll(keys.map((key) => t.request(key)))) {
        expect(outcome.status).toBe("acquired");
      }
    }
  });

  test(
    "a transaction that locks one record delays none of 500 renewals",
    async (t) => {
      const requests = Array.from({ length: 500 }, (_, index) => t.request(t.key(`key ${index}`)));
      for (const outcome of await t.acquireAll(requests)) t.expectAcquired(outcome);
      const locked = requests[250] as (typeof requests)[number];
      await whileLocked(t, locked, async () => {
        const outcomes = await t.store.renew(
          requests.map((request) => ({ ...grantOf(request), ttlMs: t.longTtlMs })),
          { timeoutMs: 10_000 },
        );
        for (const [index, outcome] of outcomes.entries()) {
          if (index !== 250) expect(outcome.status).toBe("renewed");
          else expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: true });
        }
      });
      expect(await t.renew(locked)).toMatchObject({ status: "renewed" });
    },
    needsLockRow,
  );

  test(
    "a shorter renewal that meets a locked record does not shorten the grant",
    async (t) => {
      const [held, other] = [await t.hold(), await t.hold(t.key("other"))];
      const shorter = { ...grantOf(held), ttlMs: t.shortTtlMs };
      const renewWhileLocked = async (calls: number): Promise<RenewOutcome | undefined> => {
        let renewing: Promise<RenewOutcome[]> | undefined;
        await whileLocked(t, held, async () => {
          renewing = t.store.renew([shorter], { timeoutMs: 10_000 });
          // By then it has met the lock.
          for (let call = 0; call < calls; call += 1) await t.renew(other);
        });
        return (await renewing)?.[0];
      };
      // On a busy machine the lock may outlast the retries of a store, which then says so.
      let outcome: RenewOutcome | undefined;
      for (let calls = 5; calls > 0 && outcome?.status !== "renewed"; calls -= 1) {
        outcome = await renewWhileLocked(calls);
        if (outcome?.status === "failed") expect(outcome.applied).toBe("no");
      }
      expect(outcome?.status).toBe("renewed");
      expect((await t.view(held))?.remainingMs).toBeGreaterThan(t.longTtlMs / 2);
    },
    needsLockRow,
  );

  test(
    "a locked record does not hold a call beyond its timeout",
    async (t) => {
      const held = await t.hold();
      await whileLocked(t, held, async () => {
        const [released] = await t.store.release([grantOf(held)], { timeoutMs: 300 });
        expect(released).toMatchObject({ status: "failed" });
        const [revoked] = await t.store.revoke([{ ...t.key(), free: "now" }], { timeoutMs: 300 });
        expect(revoked).toMatchObject({ status: "failed" });
        // Who holds a key is read without locks.
        const [refused] = await t.store.acquire([t.request(t.key())], { timeoutMs: 10_000 });
        expect(refused).toMatchObject({ status: "held", holder: held.holder });
      });
      // Either call may still have reached the record after we gave up on it.
      await t.release(held);
      await t.hold();
    },
    needsLockRow,
  );
};

async function whileLocked(
  { opened }: Fixture,
  key: { namespace: string; resource: string },
  body: () => Promise<void>,
): Promise<void> {
  const unlock = await opened.lockRow?.(key);
  try {
    await body();
  } finally {
    await unlock?.();
  }
}
