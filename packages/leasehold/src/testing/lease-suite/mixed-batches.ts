/**
 * Large batches in which every request differs: its key, holder, TTL, metadata and wish to wait. Each
 * outcome and each record must have the values of its own request, whatever statement, script or
 * transaction carried hundreds of them.
 */
import { systemClock, zip } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  MOST_AWAITED,
  RESERVED_MS,
} from "../../lease/index.js";
import type { Expect } from "../framework.js";
import { shuffled } from "../shuffled.js";
import { type Fixture, grantOf, type Held, needsQueue, type Section } from "./fixture.js";
import { endedView, expectTerm, expectViews, liveView, Values } from "./mixed-values.js";

const QUEUE_MS = 60_000;

/** A request, and its outcome's members that are known before it is sent. */
interface Case<Request> {
  readonly request: Request;
  readonly outcome: object;
}
type Acquired = Extract<AcquireOutcome, { status: "acquired" }>;

export const mixedBatches: Section = (test, expect) => {
  test("of acquires that differ in one value give each its own", async (t) => {
    const values = new Values(t);
    const one = { holder: "one", ttlMs: values.request(t.key()).ttlMs, metadata: '{"n":1}' };
    const others = [
      { holder: "other" },
      { ttlMs: values.request(t.key()).ttlMs },
      { metadata: '{"n":2}' },
    ];
    // Twice, because a store may decide a batch in another way when it is asked what it replaced.
    for (const round of ["a", "b"]) {
      for (const [index, other] of others.entries()) {
        const requests = [one, { ...one, ...other }, one].map((change, at) =>
          t.request(t.key(`${round}/${index}/${at}`), change),
        );
        const outcomes = await t.acquireAll(requests);
        const held = zip(requests, outcomes).map(([request, outcome]) => {
          return { ...request, answer: t.expectAcquired(outcome), sentMs: 0 };
        });
        for (const { ttlMs, answer } of held) expect(answer.ttlMs).toBeGreaterThanOrEqual(ttlMs);
        const views = await t.store.get(requests.map(({ resource }) => t.key(resource)));
        expect(views.map((view) => view && [view.holder, view.ttlMs, view.metadata])).toEqual(
          held.map(({ holder, answer, metadata }) => [holder, answer.ttlMs, metadata]),
        );
      }
    }
  });

  test("of acquires give every request its own grant, holder, ttl and metadata", async (t) => {
    const values = new Values(t);
    const held = await values.holdAll("held", 60);
    const repeated = await values.holdAll("repeated", 30);
    const ended = await values.holdAll("ended", 30);
    const reused = await values.holdAll("reused", 40);
    await t.releaseAll([...ended, ...reused].map(grantOf));
    const last = await crowded(t, expect);

    const granted = [
      ...values.requests("free", 220),
      ...reused.map((key) => values.request(key)),
      last,
    ];
    const waits = t.store.capabilities.queue;
    const first: Case<AcquireRequest>[] = [
      ...granted.map((request) => ({ request, outcome: { status: "acquired" } })),
      ...repeated.map((request) => ({ request, outcome: acquiredBy(request) })),
      ...ended.map((request) => ({ request, outcome: { status: "ended" } })),
      ...held.map((owner, index) => ({
        request: values.request(owner, index % 2 && waits ? { queueMs: QUEUE_MS + index } : {}),
        outcome: { status: "held", holder: owner.holder, ...(index % 2 && waits && { ahead: 0 }) },
      })),
    ];
    // Keys that the batch has already decided: by the same request, and by another one.
    const again = granted.slice(0, 60).map((request, index) => ({
      request: index % 2 ? request : values.request(request),
      outcome: index % 2 ? acquiredBy(request) : { status: "held", holder: request.holder },
    }));
    const batch = [...shuffled(first), ...shuffled(again)];
    const sentMs = systemClock.monotonic();
    const outcomes = await t.acquireAll(batch.map(({ request }) => request));

    const grants = new Map<string, Held>();
    for (const owner of [...held, ...repeated]) grants.set(owner.resource, owner);
    for (const [{ request, outcome: expected }, outcome] of zip(batch, outcomes)) {
      expect(outcome, request.resource).toMatchObject(expected);
      const answer = outcome as Acquired;
      if (answer.status !== "acquired") continue;
      const before = grants.get(request.resource)?.answer;
      if (before) {
        expect({ token: answer.token, ttlMs: answer.ttlMs }, request.resource).toEqual({
          token: before.token,
          ttlMs: before.ttlMs,
        });
        continue;
      }
      grants.set(request.resource, { ...request, answer, sentMs });
      if (answer.replaced) expect(answer.replaced).toMatchObject(t.key(request.resource));
      expectTerm(t, expect, request, answer, sentMs);
    }
    const views = [...grants.values()].map(liveView);
    await expectViews(t, expect, [...views, ...ended.map((one) => endedView(one, "released"))]);
  });

  test(
    "of waiters give each its own position, for its own time",
    async (t) => {
      const values = new Values(t);
      const owners = await values.holdAll("awaited", 150);
      // Two for each key: of every second pair the first one is gone soon, while the other waits on.
      const firsts = owners.map((owner, index) =>
        values.request(owner, { queueMs: index % 2 ? QUEUE_MS + index : 100 + index }),
      );
      const seconds = owners.map((owner, index) =>
        values.request(owner, { queueMs: QUEUE_MS + 1_000 + index }),
      );
      const both = [...shuffled(firsts), ...shuffled(seconds)];
      const refused = await t.acquireAll(both);
      for (const [request, outcome] of zip(both, refused)) {
        const owner = owners.find(({ resource }) => resource === request.resource);
        const ahead = firsts.includes(request) ? { ahead: 0 } : {};
        expect(outcome, request.resource).toMatchObject({
          status: "held",
          holder: owner?.holder,
          ...ahead,
        });
      }
      await t.pass(100 + owners.length);
      await t.until("the waiters that stopped polling are gone", async () => {
        const outcomes = await t.acquireAll(seconds);
        const ahead = outcomes.map((one) => (one.status === "held" ? one.ahead : undefined));
        // Those that wait on keep their positions meanwhile.
        for (const [index, count] of ahead.entries()) {
          if (index % 2) expect(count, seconds[index]?.resource).toBe(1);
        }
        return ahead.every((count, index) => count === index % 2);
      });

      // Each freed key is reserved for the head of its own queue, and then granted to it.
      await t.releaseAll(shuffled(owners).map(grantOf));
      const heads = owners.map(
        (_, index) => (index % 2 ? firsts[index] : seconds[index]) as AcquireRequest,
      );
      const strangers = heads.map((head) => values.request(head));
      const batch = [...shuffled(strangers), ...shuffled(heads)];
      const outcomes = await t.acquireAll(batch);
      const winners = new Map<string, Held>();
      for (const [request, answer] of zip(batch, outcomes)) {
        const head = heads.find(({ resource }) => resource === request.resource);
        if (answer.status === "acquired") {
          // On a slow machine the reservation may have passed before the stranger came.
          expect(winners.has(request.resource), request.resource).toBe(false);
          winners.set(request.resource, { ...request, answer, sentMs: 0 });
          continue;
        }
        const holder = winners.get(request.resource)?.holder ?? head?.holder;
        expect(answer, request.resource).toMatchObject({ status: "held", holder });
      }
      await expectViews(t, expect, [...winners.values()].map(liveView));
      expect(winners.size).toBe(owners.length);
    },
    needsQueue,
  );

  test("of renewals and of releases reach the grants of their lease ids, and no other", async (t) => {
    const values = new Values(t);
    const own = await values.holdAll("own", 240);
    const twice = await values.holdAll("twice", 30);
    const strange = await values.holdAll("strange", 40);
    const gone = await values.holdAll("gone", 30);
    const [now, later] = [await values.holdAll("now", 20), await values.holdAll("later", 20)];
    const never = values.requests("never", 30);
    await t.releaseAll(gone.map(grantOf));
    await t.revokeAll([
      ...now.map(({ resource }) => ({ ...t.key(resource), free: "now" as const })),
      ...later.map(({ resource }) => ({ ...t.key(resource), free: "atExpiry" as const })),
    ]);
    // The lease id of one key is worth nothing on another.
    const stolen = strange.map((held, index) => ({ ...held, leaseId: own[index]?.leaseId ?? "" }));

    const renewal = (held: AcquireRequest) => ({ ...grantOf(held), ttlMs: values.longTtlMs() });
    const renewed = (held: Held) => ({ status: "renewed", token: held.answer.token });
    const lost = (reason: string) => (held: AcquireRequest) => ({
      request: renewal(held),
      outcome: { status: "lost", reason },
    });
    const batch = [
      ...shuffled([
        ...[...own, ...twice].map((held) => ({ request: renewal(held), outcome: renewed(held) })),
        ...stolen.map(lost("taken")),
        ...[...gone, ...never].map(lost("gone")),
        ...[...now, ...later].map(lost("revoked")),
      ]),
      ...twice.map((held) => ({
        request: { ...renewal(held), ttlMs: t.longTtlMs },
        outcome: renewed(held),
      })),
    ];
    const sentMs = systemClock.monotonic();
    const outcomes = await t.renewAll(batch.map(({ request }) => request));
    const ttls = new Map<string, number>();
    for (const [{ request, outcome: expected }, outcome] of zip(batch, outcomes)) {
      expect(outcome, request.resource).toMatchObject(expected);
      if (outcome.status !== "renewed") continue;
      expectTerm(t, expect, request, outcome, sentMs);
      ttls.set(request.resource, outcome.ttlMs);
    }
    const longer = [...own, ...twice].map((held) => ({
      ...liveView(held),
      ttlMs: ttls.get(held.resource) ?? 0,
    }));
    const others = [
      ...strange.map(liveView),
      ...gone.map((held) => endedView(held, "released")),
      ...now.map((held) => endedView(held, "revoked")),
    ];
    await expectViews(t, expect, [
      ...longer,
      ...others,
      ...later.map((held) => endedView(held, "revoked")),
    ]);

    const releases = shuffled([
      ...[...own, ...later].map((held) => ({ request: grantOf(held), status: "released" })),
      ...[...stolen, ...now, ...never].map((held) => ({
        request: grantOf(held),
        status: "notHeld",
      })),
    ]);
    const answers = await t.releaseAll(releases.map(({ request }) => request));
    for (const [{ request, status }, outcome] of zip(releases, answers)) {
      expect(outcome, request.resource).toEqual({ status });
    }
    await expectViews(t, expect, [
      ...longer.map((view, index) =>
        index < own.length ? { ...view, state: "released" as const } : view,
      ),
      ...others,
      ...later.map((held) => endedView(held, "released")),
    ]);
  });

  test("of revokes end every grant in its own way, with its own token", async (t) => {
    const values = new Values(t);
    const now = await values.holdAll("now", 120);
    const later = await values.holdAll("later", 120);
    const spared = await values.holdAll("spared", 60);
    const sentMs = systemClock.monotonic();
    const tokens = t.store.capabilities.tokens !== false;
    const expecting = ({ answer: { token } }: Held, index: number) =>
      index % 2 && tokens ? { expectedToken: token } : {};
    const batch = shuffled([
      ...now.map((held, index) => ({
        held,
        request: { ...t.key(held.resource), free: "now" as const, ...expecting(held, index) },
        outcome: { status: "revoked", token: held.answer.token, freeInMs: 0 },
      })),
      ...later.map((held, index) => ({
        held,
        request: { ...t.key(held.resource), free: "atExpiry" as const, ...expecting(held, index) },
        outcome: { status: "revoked", token: held.answer.token },
      })),
      ...(tokens ? spared : []).map((held) => ({
        held,
        request: {
          ...t.key(held.resource),
          free: "now" as const,
          expectedToken: held.answer.token + 1,
        },
        outcome: { status: "otherToken" },
      })),
      ...values.requests("never", 30).map((request) => ({
        held: null,
        request: { ...t.key(request.resource), free: "now" as const },
        outcome: { status: "notHeld" },
      })),
    ]);
    const outcomes = await t.revokeAll(batch.map(({ request }) => request));
    for (const [{ held, request, outcome: expected }, outcome] of zip(batch, outcomes)) {
      expect(outcome, request.resource).toMatchObject(expected);
      if (outcome.status !== "revoked" || request.free === "now" || !held) continue;
      expect(outcome.freeInMs, request.resource).toBeLessThanOrEqual(held.answer.ttlMs);
      expect(outcome.freeInMs, request.resource).toBeGreaterThan(0);
    }
    await expectViews(t, expect, [
      ...[...now, ...later].map((held) => endedView(held, "revoked")),
      ...spared.map(liveView),
    ]);
    // A key revoked at its expiry is still blocked, for what is left of its own ttl.
    if (t.store.capabilities.clock !== "store") return;
    const passedMs = t.opened.advance ? 0 : (systemClock.monotonic() - sentMs) * 1.01;
    const views = await t.store.get(later.map(({ resource }) => t.key(resource)));
    const earlierMs =
      Math.max(...later.map((held) => systemClock.monotonic() - held.sentMs)) * 1.01;
    for (const [{ resource, answer }, view] of zip(later, views)) {
      const leftMs = view?.freeInMs ?? 0;
      expect(leftMs, resource).toBeLessThanOrEqual(answer.ttlMs);
      const atLeastMs = answer.ttlMs - (t.opened.advance ? 0 : earlierMs + passedMs);
      expect(leftMs, resource).toBeGreaterThanOrEqual(atLeastMs - 1);
    }
  });
};

/**
 * A key for which ten waiters have stopped attempting. Returns the request of the eleventh, which passes
 * over all of them.
 */
async function crowded(t: Fixture, expect: Expect): Promise<AcquireRequest> {
  const held = await t.hold(t.key("crowded"));
  const queueMs = QUEUE_MS;
  if (!t.store.capabilities.queue) {
    await t.release(held);
    return t.request(t.key("crowded"));
  }
  const waiters = Array.from({ length: MOST_AWAITED + 1 }, () => t.request(held, { queueMs }));
  const refused = await t.acquireAll(waiters);
  for (const outcome of refused) expect(outcome).toMatchObject({ status: "held" });
  await t.release(held);
  const last = waiters.at(-1) ?? held;
  // An engine without a clock counts the reservations from when it first saw the key free.
  await t.acquire(last);
  await t.pass(MOST_AWAITED * RESERVED_MS);
  return last;
}

function acquiredBy(request: AcquireRequest | Held): object {
  const token = "answer" in request ? { token: request.answer.token } : {};
  return { status: "acquired", ...token };
}
