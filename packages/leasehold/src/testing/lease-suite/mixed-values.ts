/** Requests that differ in everything, and what the store must show of their grants. */
import { grantIdOf, systemClock, zip } from "../../env/index.js";
import type { AcquireRequest, Key, LeaseView } from "../../lease/index.js";
import type { Expect } from "../framework.js";
import { shuffled } from "../shuffled.js";
import type { Fixture, Held } from "./fixture.js";

/** About as many as there are requests in a batch. */
const MOST_TTLS = 400;

/** The requests of one test. */
export class Values {
  readonly #t: Fixture;
  /** How many TTLs there are, and how far apart they are. */
  readonly #ttls: number;
  readonly #apartMs: number;
  #count = 0;
  #renewals = 0;

  constructor(t: Fixture) {
    this.#t = t;
    const { stepMs } = t.store.capabilities.ttl;
    // Those of grants and those of renewals share half of the longest TTL: none expires during a test.
    const quarter = Math.floor(t.longTtlMs / 4 / stepMs);
    this.#ttls = Math.min(MOST_TTLS, quarter);
    this.#apartMs = Math.floor(quarter / this.#ttls) * stepMs;
  }

  /** Another one for each renewal, longer than that of any grant. */
  longTtlMs(): number {
    this.#renewals += 1;
    return this.#t.longTtlMs - (this.#ttls - (this.#renewals % this.#ttls)) * this.#apartMs;
  }

  request({ resource }: Key, change: Partial<AcquireRequest> = {}): AcquireRequest {
    this.#count += 1;
    const index = this.#count;
    const ttlMs = this.#t.longTtlMs - (this.#ttls + 1 + (index % this.#ttls)) * this.#apartMs;
    return this.#t.request(this.#t.key(resource), {
      holder: `holder ${index} "of" ${"é".repeat(index % 7)}\\${index}`,
      ttlMs,
      ...(index % 5 && { metadata: metadataOf(index) }),
      ...change,
    });
  }

  requests(name: string, count: number): AcquireRequest[] {
    return Array.from({ length: count }, (_, index) => {
      const resource = `${name}/${index}${index % 3 ? "" : " {ü} %_\\"}`;
      return this.request(this.#t.key(resource));
    });
  }

  async holdAll(name: string, count: number): Promise<Held[]> {
    const requests = this.requests(name, count);
    const sentMs = systemClock.monotonic();
    const outcomes = await this.#t.acquireAll(requests);
    return zip(requests, outcomes).map(([request, outcome]) => ({
      ...request,
      answer: this.#t.expectAcquired(outcome),
      sentMs,
    }));
  }
}

/** Different for each request, also in its length; null in some. */
function metadataOf(index: number): string {
  const note = `${'it\'s {a: "b"}, \\ and ü\n'.slice(0, index % 23)}`;
  return JSON.stringify({ index: `${index}`, note, more: "x".repeat((index % 11) * 30) });
}

/** The grant's own TTL, of which no more has passed than by our clock. */
export function expectTerm(
  t: Fixture,
  expect: Expect,
  asked: { readonly resource: string; readonly ttlMs: number },
  term: { readonly ttlMs: number; readonly remainingMs: number },
  sentMs: number,
): void {
  const { resource, ttlMs } = asked;
  const passedMs = t.opened.advance ? 0 : systemClock.monotonic() - sentMs;
  expect(term.ttlMs, resource).toBeGreaterThanOrEqual(ttlMs);
  expect(term.ttlMs, resource).toBeLessThan(ttlMs + t.store.capabilities.ttl.stepMs);
  expect(term.remainingMs, resource).toBeLessThanOrEqual(term.ttlMs);
  // Two clocks: the store's may run faster than ours by a percent.
  expect(term.remainingMs, resource).toBeGreaterThanOrEqual(term.ttlMs - passedMs * 1.01 - 1);
}

type Shown = Pick<LeaseView, "resource" | "holder" | "grantId" | "token" | "state"> &
  Pick<LeaseView, "ttlMs" | "metadata">;

export function liveView(held: Held): Shown {
  const { resource, holder, leaseId, metadata = null, answer } = held;
  const { token, ttlMs } = answer;
  return { resource, holder, grantId: grantIdOf(leaseId), token, state: "live", ttlMs, metadata };
}

export function endedView(held: Held, state: "released" | "revoked"): Shown {
  return { ...liveView(held), state };
}

/** What `get` and `list` show of all keys, by key. An engine without records of its own forgets what has ended. */
export async function expectViews(
  t: Fixture,
  expect: Expect,
  expected: readonly Shown[],
): Promise<void> {
  const shown = ({
    resource,
    holder,
    grantId,
    token,
    state,
    ttlMs,
    metadata,
  }: LeaseView): Shown => ({
    resource,
    holder,
    grantId,
    token,
    state,
    ttlMs,
    metadata,
  });
  const keeps = t.store.capabilities.clock === "store";
  const keys = shuffled(expected);
  const views = await t.store.get(keys.map(({ resource }) => t.key(resource)));
  for (const [one, view] of zip(keys, views)) {
    if (view || keeps || one.state === "live")
      expect(view && shown(view), one.resource).toEqual(one);
  }

  const listed = new Map<string, Shown>();
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { namespace: t.namespace, limit: 100, ...(cursor && { cursor }) };
    const page = await t.store.list(query);
    for (const view of page.items) {
      expect(listed.has(view.resource), `${view.resource} once`).toBe(false);
      listed.set(view.resource, shown(view));
    }
    cursor = page.nextCursor;
  }
  for (const one of expected) {
    const view = listed.get(one.resource);
    if (view || keeps || one.state === "live") expect(view, one.resource).toEqual(one);
  }
}
