/** Random commands, sent to the store and to the rules: both must answer the same. */
import type { Arbitrary } from "fast-check";
import { digestOf, grantIdOf } from "../../env/index.js";
import {
  type AcquireOutcome,
  type Key,
  type LeaseRecord,
  type RevokeRequest,
  rules,
} from "../../lease/index.js";
import type { Expect } from "../framework.js";
import { every, type Fixture, needsAdvance, needsCollect, type Section } from "./fixture.js";

/** Keys and lease ids are numbers here; each run makes names of its own out of them. */
interface Step {
  readonly key: number;
  readonly lease: number;
  readonly ttl: number;
  readonly free: RevokeRequest["free"];
  /** Expects the token of the last grant, another one, or none. */
  readonly token: "last" | "wrong" | "none";
}
type Command =
  | { readonly op: "acquire" | "renew" | "release" | "revoke"; readonly steps: readonly Step[] }
  | { readonly op: "pass"; readonly share: number }
  | { readonly op: "collect" };

/** A store has its clock as text, may know less of who is in the way, and more of its queue. */
const UNSHARED: ReadonlySet<string> = new Set(["expiresAt", "grantId", "ahead", "replaced"]);
const TIMES: ReadonlySet<string> = new Set(["remainingMs", "ttlMs", "freeInMs"]);
const KEYS = 3;
/** Of two holders, the last two with metadata: some differ in nothing but their ids, some in one value. */
const LEASES = 6;

export const model: Section = (test, expect) => {
  test(
    "holds for random commands and times",
    (t) => explore(t, expect, { timed: true, runs: 200, length: 40 }),
    every(needsAdvance, needsCollect),
  );
  test("holds for random commands on grants that outlive them", (t) =>
    explore(t, expect, { timed: false, runs: 25, length: 20 }));
};

async function explore(
  t: Fixture,
  expect: Expect,
  { timed, runs, length }: { timed: boolean; runs: number; length: number },
): Promise<void> {
  // Imported here, so that only those who run the suite need it.
  const { default: fc } = await import("fast-check");
  const step: Arbitrary<Step> = fc.record({
    key: fc.nat(KEYS - 1),
    lease: fc.nat(LEASES - 1),
    ttl: fc.nat(2),
    free: fc.constantFrom("atExpiry", "now"),
    token: fc.constantFrom("none", "last", "wrong"),
  });
  const call: Arbitrary<Command> = fc.record({
    op: fc.constantFrom("acquire", "acquire", "renew", "release", "revoke"),
    steps: fc.array(step, { minLength: 1, maxLength: 5 }),
  });
  const command = timed
    ? fc.oneof(
        { weight: 6, arbitrary: call },
        { weight: 3, arbitrary: fc.record({ op: fc.constant("pass"), share: fc.nat(4) }) },
        { weight: 1, arbitrary: fc.record({ op: fc.constant("collect") }) },
      )
    : call;
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: length }), async (commands) => {
      const both = new Both(t, expect, `run ${run++}`, timed);
      for (const each of commands) await both.apply(each);
    }),
    { numRuns: runs, plugins: [fc.interruptAfterTimeLimit(30_000)] },
  );
}

/** The store and its model, moved in step. */
class Both {
  readonly #records = new Map<string, LeaseRecord>();
  /** Also of records that were collected. */
  readonly #lastTokens = new Map<string, number>();
  #nowMs = 0;

  constructor(
    readonly t: Fixture,
    readonly expect: Expect,
    readonly run: string,
    /** Durations are compared too: only this test moves the store's clock. */
    readonly timed: boolean,
  ) {}

  async apply(command: Command): Promise<void> {
    if (command.op === "pass") {
      // An engine that rounds durations up is not asked about what lies between its steps.
      const { stepMs } = this.t.store.capabilities.ttl;
      const shares = [stepMs, this.#ttl(0) - stepMs, this.#ttl(0), this.#ttl(1), this.#ttl(2)];
      const ms = shares[command.share];
      await this.t.pass(ms ?? 0);
      this.#nowMs += ms ?? 0;
    } else if (command.op === "collect") {
      await this.t.store.collect(0);
      for (const [resource, record] of this.#records) {
        if (!rules.excludes(record, this.#nowMs) && record.expiresAtMs < this.#nowMs) {
          this.#records.delete(resource);
        }
      }
    } else {
      await this.#call(command.op, command.steps);
    }
    await this.#compareViews();
  }

  async #call(
    op: "acquire" | "renew" | "release" | "revoke",
    steps: readonly Step[],
  ): Promise<void> {
    const { t } = this;
    if (op === "acquire") {
      const requests = steps.map((step) => this.#grant(step));
      for (const [index, outcome] of (await t.acquireAll(requests)).entries()) {
        const request = requests[index] as (typeof requests)[number];
        const token = () => this.#newToken(request, outcome);
        this.#compare(outcome, request, (record) =>
          rules.acquire(record, request, this.#nowMs, token),
        );
      }
    } else if (op === "renew") {
      const requests = steps.map((step) => this.#grant(step));
      for (const [index, outcome] of (await t.renewAll(requests)).entries()) {
        const request = requests[index] as (typeof requests)[number];
        this.#compare(outcome, request, (record) => rules.renew(record, request, this.#nowMs));
      }
    } else if (op === "release") {
      const requests = steps.map((step) => this.#grant(step));
      for (const [index, outcome] of (await t.releaseAll(requests)).entries()) {
        const request = requests[index] as (typeof requests)[number];
        this.#compare(outcome, request, (record) => rules.release(record, request, this.#nowMs));
      }
    } else {
      const requests = steps.map((step) => this.#revocation(step));
      for (const [index, outcome] of (await t.revokeAll(requests)).entries()) {
        const request = requests[index] as (typeof requests)[number];
        this.#compare(outcome, request, (record) => rules.revoke(record, request, this.#nowMs));
      }
    }
  }

  /** Decides by the rules, and compares. */
  #compare(
    outcome: { readonly status: string },
    { resource }: Key,
    decide: (record: LeaseRecord | null) => {
      readonly record: LeaseRecord | null;
      readonly outcome: { readonly status: string };
    },
  ): void {
    const decided = decide(this.#records.get(resource) ?? null);
    if (decided.record) this.#records.set(resource, decided.record);
    this.expect(this.#facts(outcome)).toEqual(this.#facts(decided.outcome));
  }

  /** What both must agree on. */
  #facts(outcome: object): object {
    const left = (name: string) => UNSHARED.has(name) || (!this.timed && TIMES.has(name));
    return Object.fromEntries(Object.entries(outcome).filter(([name]) => !left(name)));
  }

  /** The token of a new grant is the store's to choose, above every other of its key. */
  #newToken({ resource }: Key, outcome: AcquireOutcome): number {
    const last = this.#lastTokens.get(resource) ?? 0;
    // Whatever it is then, the outcomes differ.
    if (outcome.status !== "acquired") return last + 1;
    this.expect(outcome.token).toBeGreaterThan(last);
    this.#lastTokens.set(resource, outcome.token);
    return outcome.token;
  }

  async #compareViews(): Promise<void> {
    const keys = Array.from({ length: KEYS }, (_, key) => this.#key(key));
    const views = await this.t.store.get(keys);
    for (const [index, { resource }] of keys.entries()) {
      const record = this.#records.get(resource);
      const view = views[index];
      if (!record) {
        this.expect(view).toBe(null);
        continue;
      }
      const live = rules.isLive(record, this.#nowMs);
      this.expect(view).toMatchObject({
        holder: record.holder,
        metadata: record.metadata,
        grantId: grantIdOf(record.leaseId),
        token: record.token,
        state: live ? "live" : (record.ended ?? "expired"),
        ...(this.timed && { remainingMs: live ? record.expiresAtMs - this.#nowMs : 0 }),
      });
    }
  }

  #key(key: number): Key {
    return this.t.key(`${this.run}, key ${key}`);
  }

  #grant({ key, lease, ttl }: Step) {
    const holder = `holder ${lease % 2}`;
    const metadata = lease < 4 ? {} : { metadata: `{"lease":${lease}}` };
    const { namespace, resource } = this.#key(key);
    // 48 hex digits, as lease ids are.
    const leaseId = digestOf(`${namespace} ${resource} ${lease}`).slice(0, 48);
    return { namespace, resource, leaseId, holder, ttlMs: this.#ttl(ttl), ...metadata };
  }

  #revocation({ key, free, token }: Step): RevokeRequest {
    const request = { ...this.#key(key), free };
    const last = this.#records.get(request.resource)?.token;
    if (token === "none" || last === undefined) return request;
    return { ...request, expectedToken: token === "last" ? last : last + 1 };
  }

  #ttl(index: number): number {
    if (!this.timed) return this.t.longTtlMs;
    return this.t.shortTtlMs * (index + 1);
  }
}
